// Free blocks of a KV cache in the order in which they are taken: those that are free longest first. What a
// request lost stays readable until its blocks are taken, its last ones first, so that a beginning of it is
// left (vLLM V1: free_block_queue, of which free() appends a request's blocks from its end on).
#pragma once

#include <cassert>
#include <cstdint>
#include <vector>

namespace moelab {

class FreeBlocks {
 public:
  static constexpr std::uint64_t kNoOwner = ~std::uint64_t{0};

  /// So many blocks, with nothing readable in them.
  void reset(std::uint64_t blocks) {
    runs_.clear();
    count_ = 0;
    give(kNoOwner, blocks);
  }
  std::uint64_t count() const { return count_; }
  /// `blocks` become free, of which `owner` may find the first ones again. An owner gives once.
  void give(std::uint64_t owner, std::uint64_t blocks) {
    if (blocks == 0) return;
    count_ += blocks;
    if (owner == kNoOwner && !runs_.empty() && runs_.back().owner == kNoOwner)
      runs_.back().blocks += blocks;
    else
      runs_.push_back({owner, blocks});
  }
  /// Takes those that are free longest.
  void take(std::uint64_t blocks) {
    assert(blocks <= count_);
    count_ -= blocks;
    std::size_t emptied = 0;
    for (; blocks > 0; ++emptied) {
      Run& run = runs_[emptied];
      if (run.blocks > blocks) {
        run.blocks -= blocks;
        break;
      }
      blocks -= run.blocks;
    }
    runs_.erase(runs_.begin(), runs_.begin() + static_cast<std::ptrdiff_t>(emptied));
  }
  /// Blocks of `owner`, from its first, that are still readable.
  std::uint64_t kept(std::uint64_t owner) const {
    for (const Run& run : runs_)
      if (run.owner == owner) return run.blocks;
    return 0;
  }
  /// `owner` takes the first `blocks` of those that were kept for it, and leaves the others.
  void claim(std::uint64_t owner, std::uint64_t blocks) {
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].owner != owner) continue;
      assert(blocks <= runs_[i].blocks);
      count_ -= blocks;
      runs_[i] = {kNoOwner, runs_[i].blocks - blocks};
      join(i);
      return;
    }
  }

 private:
  struct Run {
    std::uint64_t owner;
    std::uint64_t blocks;
  };
  /// Run i belongs to none: it is one with a neighbour that does not either, and gone where it is empty.
  void join(std::size_t i) {
    const bool after_none = i > 0 && runs_[i - 1].owner == kNoOwner;
    if (after_none) runs_[i - 1].blocks += runs_[i].blocks;
    if (after_none || runs_[i].blocks == 0) runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  std::vector<Run> runs_;  // what is free longest first
  std::uint64_t count_ = 0;
};

}  // namespace moelab
