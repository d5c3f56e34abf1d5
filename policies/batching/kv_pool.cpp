#include "policies/batching/kv_pool.hpp"

#include <algorithm>

namespace moelab {

void KvPool::resize(std::uint64_t blocks) {
  blocks_ = blocks;
  for (std::uint32_t page = 0; page < pages_.size(); ++page)
    if (pages_[page].users == 0 && pages_[page].place != kNone) forget(page);
  free_.reset(blocks > used_ ? blocks - used_ : 0);
}

KvPool::Found KvPool::find(const BatchedRequest& request, std::uint64_t full_own, std::uint64_t most) const {
  Found found;
  const std::uint64_t of_parts = blocks_of_parts(request);
  visit_contents(request, 0, std::min(of_parts, most), [&](const Content& content) {
    const auto page = index_.find(content);
    if (page == index_.end()) return false;
    ++found.shared;
    found.in_use += pages_[page->second.first].users > 0 ? 1 : 0;
    return true;
  });
  if (found.shared == of_parts)
    found.own = std::min({full_own, free_.kept(request.place), most - found.shared});
  return found;
}

void KvPool::claim(BatchedRequest& request, const Found& found) {
  visit_contents(request, 0, found.shared, [&](const Content& content) {
    const std::uint32_t number = index_.find(content)->second.first;
    Page& page = pages_[number];
    if (page.users++ == 0) free_.claim_numbered(page.place);
    table_of(request).push_back(number);
    return true;
  });
  free_.claim(request.place, found.own);
  used_ += found.blocks() - found.in_use;
}

void KvPool::fill(BatchedRequest& request, std::uint64_t tokens) {
  const std::uint64_t full = std::min(tokens / block_tokens_, blocks_of_parts(request));
  if (full == 0) return;
  std::vector<std::uint32_t>& table = table_of(request);
  visit_contents(request, table.size(), full, [&](const Content& content) {
    table.push_back(new_page(content));
    return true;
  });
}

void KvPool::fill_once(BatchedRequest& request, std::uint64_t tokens) {
  const std::uint64_t full = std::min(tokens / block_tokens_, blocks_of_parts(request));
  if (full == 0) return;
  std::vector<std::uint32_t>& table = table_of(request);
  visit_contents(request, table.size(), full, [&](const Content& content) {
    const auto found = index_.find(content);
    table.push_back(found == index_.end() ? new_page(content) : found->second.first);
    if (found == index_.end()) return true;
    Page& page = pages_[found->second.first];
    if (page.users++ == 0)
      free_.claim_numbered(page.place);  // its own is free instead
    else
      --used_;
    if (free_.count() + used_ < blocks_) free_.give_first(1);
    return true;
  });
}

void KvPool::release(BatchedRequest& request, std::uint64_t owner, std::uint64_t lost) {
  const bool shares = request.table != BatchedRequest::kNoTable;
  const std::uint64_t own = request.blocks - pages(request);
  std::uint64_t left = own;  // blocks that none holds any more
  if (shares)
    for (const std::uint32_t page : tables_[request.table]) left += --pages_[page].users == 0 ? 1 : 0;
  used_ -= left;
  // Where there are fewer blocks than before, the last ones are not there any more.
  const std::uint64_t room = (blocks_ > used_ ? blocks_ - used_ : 0) - free_.count();
  const std::uint64_t gone = left > room ? left - room : 0, own_gone = std::min(gone, own);
  const std::uint64_t own_left = own - own_gone, first = lost > own_gone ? lost - own_gone : 0;
  free_.give(owner, own_left - first);
  free_.give_first(first);
  if (shares) {
    release_pages(tables_[request.table], gone - own_gone);
    tables_[request.table].clear();
    unused_tables_.push_back(request.table);
    request.table = BatchedRequest::kNoTable;
  }
  request.blocks = 0;
}

void KvPool::release_pages(const std::vector<std::uint32_t>& table, std::uint64_t gone) {
  for (auto number = table.rbegin(); number != table.rend(); ++number) {
    if (pages_[*number].users > 0) continue;
    if (gone > 0) {
      --gone;
      forget(*number);
    } else {
      pages_[*number].place = free_.give_numbered(*number);
    }
  }
}

std::vector<std::uint32_t>& KvPool::table_of(BatchedRequest& request) {
  if (request.table == BatchedRequest::kNoTable) {
    if (unused_tables_.empty()) {
      unused_tables_.push_back(static_cast<std::uint32_t>(tables_.size()));
      tables_.emplace_back();
    }
    request.table = unused_tables_.back();
    unused_tables_.pop_back();
  }
  return tables_[request.table];
}

std::uint32_t KvPool::new_page(const Content& content) {
  if (unused_pages_.empty()) {
    unused_pages_.push_back(static_cast<std::uint32_t>(pages_.size()));
    pages_.emplace_back();
  }
  const std::uint32_t number = unused_pages_.back();
  unused_pages_.pop_back();
  pages_[number] = {.content = content, .users = 1};
  if (const auto found = index_.find(content); found != index_.end()) {
    Copies& copies = found->second;
    pages_[number].before = copies.last;
    pages_[copies.last].after = number;
    copies.last = number;
  } else if (unused_nodes_.empty()) {
    index_.emplace(content, Copies{number, number});
  } else {
    Index::node_type node = std::move(unused_nodes_.back());
    unused_nodes_.pop_back();
    node.key() = content;
    node.mapped() = {number, number};
    index_.insert(std::move(node));
  }
  return number;
}

void KvPool::forget(std::uint32_t number) {
  Page& page = pages_[number];
  const auto found = index_.find(page.content);
  Copies& copies = found->second;
  (page.before == kNone ? copies.first : pages_[page.before].after) = page.after;
  (page.after == kNone ? copies.last : pages_[page.after].before) = page.before;
  if (copies.first == kNone) unused_nodes_.push_back(index_.extract(found));
  page.place = kNone;
  unused_pages_.push_back(number);
}

}  // namespace moelab
