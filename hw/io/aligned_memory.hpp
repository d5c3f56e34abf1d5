// Memory for reads past the page cache, and for what is timed: pages of its own, aligned, given back whole.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace moelab {

/// Zeros at first. Large memory asks for large pages, where the system gives them.
class AlignedMemory {
 public:
  AlignedMemory() = default;
  /// Aligned to pages of at least 4096 bytes (kReadAlignment). Throws std::bad_alloc.
  explicit AlignedMemory(std::size_t bytes);
  ~AlignedMemory();
  AlignedMemory(AlignedMemory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  AlignedMemory& operator=(AlignedMemory&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::span<std::byte> bytes() { return bytes_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  /// The same memory as elements of a plain type, as many as fit.
  template <class T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace moelab
