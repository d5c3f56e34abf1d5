// Values of a trace that do not lie in its file. Private to the readers and makers of traces.
#pragma once

#include <cassert>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "traces/safetensors.hpp"
#include "traces/spilled_bytes.hpp"

namespace moelab {

/// Bytes of one trace that are kept in memory; more, where they are announced, go to temporary files.
inline constexpr std::uint64_t kMostInMemory = std::uint64_t{64} << 20;

/// Values appended one after the other: in memory, or in a temporary file whose pages leave the memory behind
/// the last value. Moving it moves no value.
template <class T>
class TraceColumn {
 public:
  /// Makes room, before the first value. With `spill` no more than these may follow; throws InputError when
  /// there is no room for them.
  void reserve(std::uint64_t values, bool spill) {
    assert(size_ == 0);
    if (spill && values > 0)
      spilled_ = std::make_unique<SpilledBytes>(values * sizeof(T));
    else
      memory_.reserve(values);
  }

  void append(std::span<const T> values) {
    if (spilled_ == nullptr) {
      memory_.insert(memory_.end(), values.begin(), values.end());
    } else if (!values.empty()) {
      assert((size_ + values.size()) * sizeof(T) <= spilled_->bytes().size());
      std::memcpy(spilled_->bytes().data() + size_ * sizeof(T), values.data(), values.size_bytes());
    }
    size_ += values.size();
    constexpr std::uint64_t kTogether = std::uint64_t{16}
                                        << 20;  // bytes whose pages leave the memory at once
    if (spilled_ == nullptr || size_ * sizeof(T) < released_ + kTogether) return;
    release_pages(spilled_->bytes().subspan(released_, kTogether));
    released_ += kTogether;
  }

  /// Forgets what was appended after so many values.
  void truncate(std::uint64_t values) {
    if (spilled_ == nullptr) memory_.resize(values);
    size_ = values;
  }

  std::span<const T> values() const {
    return spilled_ == nullptr ? std::span<const T>(memory_) : elements_of<T>(spilled_->bytes()).first(size_);
  }
  /// Values are here and held in memory: their pages must not be released.
  bool in_memory() const { return !memory_.empty(); }

 private:
  std::vector<T> memory_;
  std::unique_ptr<SpilledBytes> spilled_;
  std::uint64_t size_ = 0;
  std::uint64_t released_ = 0;  // bytes from the start whose pages have left the memory
};

}  // namespace moelab
