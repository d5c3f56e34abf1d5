#include "hw/executor/buffer_pool.hpp"

#include <algorithm>
#include <string>

#include "hw/io/reader.hpp"
#include "models/input_error.hpp"

namespace moelab {
namespace {

constexpr std::size_t kLeastSlab = std::size_t{1} << 20, kUsualSlab = std::size_t{32} << 20;

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kReadAlignment - 1) / kReadAlignment * kReadAlignment;
}

}  // namespace

std::byte* HostMemory::make(std::size_t bytes) {
  AlignedMemory memory(bytes);
  for (std::size_t at = 0; at < bytes; at += kReadAlignment) memory.bytes()[at] = std::byte{0};
  std::byte* const begin = memory.bytes().data();
  made_.emplace(begin, std::move(memory));
  return begin;
}

void MemoryLedger::take(std::uint64_t bytes) {
  if (limit_ != 0 && held_ + bytes > limit_)
    throw InputError("memory of experts", std::to_string(held_ + bytes) + " bytes would be in use, " +
                                              std::to_string(limit_) +
                                              " are planned (do the chunks compress as the profile says?)");
  held_ += bytes;
  peak_ = std::max(peak_, held_);
}

BufferPool::~BufferPool() {
  for (std::byte* const slab : slabs_) source_.unmake(slab);
}

void BufferPool::reserve(std::size_t bytes) {
  if (bytes > slab_bytes_) add_slab(rounded_up(bytes - slab_bytes_));
}

void BufferPool::add_slab(std::size_t bytes) {
  std::byte* const begin = source_.make(bytes);
  slabs_.insert(begin);
  slab_bytes_ += bytes;
  add_gap(begin, bytes);
}

// The smallest gap that is large enough: large ones stay for large buffers.
Buffer BufferPool::take(std::size_t bytes) {
  ledger_.take(bytes);
  const std::size_t room = rounded_up(std::max<std::size_t>(1, bytes));
  auto found = by_size_.lower_bound({room, nullptr});
  if (found == by_size_.end()) {
    add_slab(std::max(room, std::clamp(slab_bytes_, kLeastSlab, kUsualSlab)));
    found = by_size_.lower_bound({room, nullptr});
  }
  const auto [size, begin] = *found;
  remove_gap(gaps_.find(begin));
  if (size > room) add_gap(begin + room, size - room);
  return {begin, bytes, room};
}

void BufferPool::give(Buffer& buffer) {
  if (!buffer) return;
  ledger_.give(buffer.bytes);
  add_gap(buffer.data, buffer.room);
  buffer = {};
}

// Together with the gaps that it touches, within its slab.
void BufferPool::add_gap(std::byte* begin, std::size_t bytes) {
  auto next = gaps_.lower_bound(begin);
  if (next != gaps_.end() && next->first == begin + bytes && !slabs_.contains(next->first)) {
    bytes += next->second;
    remove_gap(next++);
  }
  if (next != gaps_.begin() && !slabs_.contains(begin)) {
    if (const auto before = std::prev(next); before->first + before->second == begin) {
      begin = before->first;
      bytes += before->second;
      remove_gap(before);
    }
  }
  gaps_.emplace(begin, bytes);
  by_size_.emplace(bytes, begin);
}

void BufferPool::remove_gap(Gaps::iterator gap) {
  by_size_.erase({gap->second, gap->first});
  gaps_.erase(gap);
}

}  // namespace moelab
