// The blocks of a paged KV cache: how many are in use, in which order the others are taken, and what can be
// read in them. Blocks that hold parts of requests (TokenPart) are found by what is in them, whichever
// request filled them, and belong to all requests that hold them; a block is in use once, however many that
// are.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "policies/batching/admitted_requests.hpp"
#include "policies/batching/free_blocks.hpp"

namespace moelab {

class KvPool {
 public:
  KvPool(std::uint64_t blocks, std::uint32_t block_tokens) : blocks_(blocks), block_tokens_(block_tokens) {
    free_.reset(blocks);
  }

  std::uint64_t used() const { return used_; }
  bool has_room(std::uint64_t more) const { return used_ + more <= blocks_; }
  /// There are so many from now on, and nothing is readable in those that are free. Where more are in use,
  /// there is no room for any.
  void resize(std::uint64_t blocks);

  /// Takes those that are free longest, of which nothing can be read any more.
  void take(std::uint64_t blocks) {
    used_ += blocks;
    free_.take(blocks, [this](std::uint32_t number) { forget(number); });
  }

  /// Of a request's blocks, how many will be full of its parts.
  std::uint64_t blocks_of_parts(const BatchedRequest& request) const {
    const auto parts = request.ask.parts;
    return parts.empty() ? 0 : parts.back().end / block_tokens_;
  }
  /// What a request would find, from its first block on: `shared` of its parts, of which `in_use` are held by
  /// others, and behind all of them `own`, which it lost.
  struct Found {
    std::uint64_t shared = 0, in_use = 0, own = 0;
    std::uint64_t blocks() const { return shared + own; }
  };
  /// `full_own`: blocks behind those of its parts that were full when it lost them; `most`: blocks of use to
  /// it.
  Found find(const BatchedRequest& request, std::uint64_t full_own, std::uint64_t most) const;
  /// The request takes what find() said, and no longer looks for others of its own.
  void claim(BatchedRequest& request, const Found& found);
  /// The request's blocks, `request.blocks`, are full up to token `tokens`: what is of parts can be found.
  void fill(BatchedRequest& request, std::uint64_t tokens);
  /// The same, of one copy each: where another block has the content already, the request holds that one from
  /// now on, and its own is free.
  void fill_once(BatchedRequest& request, std::uint64_t tokens);
  /// It holds none of its blocks any more. `owner` may find again those that are of no part, but for the last
  /// `lost` of them: nothing can be read in those, and they are taken before all others.
  void release(BatchedRequest& request, std::uint64_t owner, std::uint64_t lost = 0);
  /// Of its blocks, how many hold parts that can be found.
  std::uint64_t pages(const BatchedRequest& request) const {
    return request.table == BatchedRequest::kNoTable ? 0 : tables_[request.table].size();
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  /// What is in a block: tokens up to its end, which is in this part.
  struct Content {
    std::uint64_t part = 0;
    std::uint64_t block = 0;  // of the request
    bool operator==(const Content&) const = default;
  };
  struct ContentHash {
    std::size_t operator()(const Content& content) const {
      return (content.part * 0x9e3779b97f4a7c15 + content.block) * 0xbf58476d1ce4e5b9 >> 16;
    }
  };
  /// A block of which the content can be read.
  struct Page {
    Content content;
    std::uint32_t users = 0;                      // requests that hold it
    std::uint32_t place = kNone;                  // where it is free, without users
    std::uint32_t before = kNone, after = kNone;  // that were filled with the same content
  };
  struct Copies {
    std::uint32_t first = kNone, last = kNone;  // pages, in the order in which they were filled
  };
  using Index = std::unordered_map<Content, Copies, ContentHash>;

  /// Calls visit(content) for the request's blocks of parts from `first` on, before `end`, while it says
  /// true.
  template <class Visit>
  void visit_contents(const BatchedRequest& request, std::uint64_t first, std::uint64_t end,
                      const Visit& visit) const {
    const auto parts = request.ask.parts;
    std::size_t part = 0;
    for (std::uint64_t block = first; block < end; ++block) {
      while (parts[part].end < (block + 1) * block_tokens_) ++part;
      if (!visit(Content{parts[part].id, block})) return;
    }
  }
  std::vector<std::uint32_t>& table_of(BatchedRequest& request);
  std::uint32_t new_page(const Content& content);
  void forget(std::uint32_t page);
  void release_pages(const std::vector<std::uint32_t>& table, std::uint64_t gone);

  std::uint64_t blocks_ = 0, used_ = 0;
  std::uint32_t block_tokens_;
  FreeBlocks free_;  // all that are not in use, where there are more blocks than are
  std::vector<Page> pages_;
  std::vector<std::uint32_t> unused_pages_;
  std::vector<std::vector<std::uint32_t>> tables_;  // pages of a request's blocks, from its first
  std::vector<std::uint32_t> unused_tables_;
  Index index_;
  std::vector<Index::node_type> unused_nodes_;  // of the index, so that it allocates none once warm
};

}  // namespace moelab
