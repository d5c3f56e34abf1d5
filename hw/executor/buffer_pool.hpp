// Memory for parts of experts, taken and given back many times, and counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "hw/io/aligned_memory.hpp"

namespace moelab {

/// Where buffers are made: this machine's memory, or a device's.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// Aligned to kReadAlignment. Throws std::bad_alloc.
  virtual std::byte* make(std::size_t bytes) = 0;
  virtual void unmake(std::byte* memory) = 0;
};

class HostMemory final : public MemorySource {
 public:
  std::byte* make(std::size_t bytes) override;
  void unmake(std::byte* memory) override { made_.erase(memory); }

 private:
  std::map<std::byte*, AlignedMemory> made_;
};

/// What experts take of a memory budget: their own bytes, without the alignment of what holds them.
class MemoryLedger {
 public:
  /// `limit` in bytes; 0: none.
  explicit MemoryLedger(std::uint64_t limit) : limit_(limit) {}
  /// Throws InputError where it would be more than the limit.
  void take(std::uint64_t bytes);
  void give(std::uint64_t bytes) { held_ -= bytes; }
  std::uint64_t held() const { return held_; }
  std::uint64_t peak() const { return peak_; }
  std::uint64_t limit() const { return limit_; }

 private:
  std::uint64_t limit_, held_ = 0, peak_ = 0;
};

struct Buffer {
  std::byte* data = nullptr;
  std::size_t bytes = 0;  // in use
  std::size_t room = 0;   // a multiple of the alignment

  explicit operator bool() const { return data != nullptr; }
  std::span<std::byte> all() const { return {data, bytes}; }
  template <class T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data), bytes / sizeof(T)};
  }
};

/// One thread. What is given back waits to be taken again, its pages with it, as long as all together stays
/// within the ledger's limit.
class BufferPool {
 public:
  BufferPool(MemorySource& source, MemoryLedger& ledger) : source_(source), ledger_(ledger) {}
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// Its contents are whatever was there. Throws InputError (MemoryLedger::take), std::bad_alloc.
  Buffer take(std::size_t bytes);
  /// Takes it back and leaves an empty one; of an empty one, nothing.
  void give(Buffer& buffer);

 private:
  void shrink();

  MemorySource& source_;
  MemoryLedger& ledger_;
  std::map<std::size_t, std::vector<std::byte*>> free_;  // by room
  std::uint64_t free_bytes_ = 0;
};

}  // namespace moelab
