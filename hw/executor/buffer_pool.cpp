#include "hw/executor/buffer_pool.hpp"

#include <algorithm>
#include <string>

#include "hw/io/reader.hpp"
#include "models/input_error.hpp"

namespace moelab {

std::byte* HostMemory::make(std::size_t bytes) {
  AlignedMemory memory(bytes);
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
  for (const auto& [room, buffers] : free_)
    for (std::byte* const buffer : buffers) source_.unmake(buffer);
}

Buffer BufferPool::take(std::size_t bytes) {
  ledger_.take(bytes);
  const std::size_t room =
      std::max<std::size_t>(1, (bytes + kReadAlignment - 1) / kReadAlignment) * kReadAlignment;
  std::vector<std::byte*>& free = free_[room];
  if (free.empty()) {
    shrink();
    return {source_.make(room), bytes, room};
  }
  std::byte* const data = free.back();
  free.pop_back();
  free_bytes_ -= room;
  return {data, bytes, room};
}

void BufferPool::give(Buffer& buffer) {
  if (!buffer) return;
  ledger_.give(buffer.bytes);
  free_[buffer.room].push_back(buffer.data);
  free_bytes_ += buffer.room;
  buffer = {};
  shrink();
}

// The largest go first: they are the fewest.
void BufferPool::shrink() {
  if (ledger_.limit() == 0) return;
  for (auto size = free_.rbegin(); size != free_.rend(); ++size)
    while (!size->second.empty() && free_bytes_ + ledger_.held() > ledger_.limit()) {
      source_.unmake(size->second.back());
      size->second.pop_back();
      free_bytes_ -= size->first;
    }
}

}  // namespace moelab
