// Memory for parts of experts, taken and given back many times, and counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "hw/io/aligned_memory.hpp"

namespace moelab {

/// Where memory comes from, in large pieces: this machine's, or a device's.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// Aligned to kReadAlignment. Throws std::bad_alloc.
  virtual std::byte* make(std::size_t bytes) = 0;
  virtual void unmake(std::byte* memory) = 0;
};

/// Every page is there, and large where the system gives large ones: what comes first is not slower.
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

/// Buffers cut out of slabs, as serving engines do: taking one neither asks the system for memory nor meets
/// pages that are not there yet. One thread. Slabs are given back when the pool ends.
class BufferPool {
 public:
  BufferPool(MemorySource& source, MemoryLedger& ledger) : source_(source), ledger_(ledger) {}
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// Makes slabs for so many bytes of buffers. Throws std::bad_alloc.
  void reserve(std::size_t bytes);
  /// Its contents are whatever was there. Throws InputError (MemoryLedger::take), std::bad_alloc.
  Buffer take(std::size_t bytes);
  /// Takes it back and leaves an empty one; of an empty one, nothing.
  void give(Buffer& buffer);
  /// Bytes of all slabs: at least those of all buffers, and what lies between them.
  std::size_t slab_bytes() const { return slab_bytes_; }

 private:
  using Gaps = std::map<std::byte*, std::size_t>;  // what is free, by address; neighbours are one
  void add_slab(std::size_t bytes);
  void add_gap(std::byte* begin, std::size_t bytes);
  void remove_gap(Gaps::iterator gap);

  MemorySource& source_;
  MemoryLedger& ledger_;
  std::set<std::byte*> slabs_;
  std::size_t slab_bytes_ = 0;
  Gaps gaps_;
  std::set<std::pair<std::size_t, std::byte*>> by_size_;  // the same gaps
};

}  // namespace moelab
