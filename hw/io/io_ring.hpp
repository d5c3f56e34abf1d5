// An io_uring of plain reads, by the kernel's system calls alone.
#pragma once

#include <linux/io_uring.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace moelab {

/// Reads are put in by one thread at a time and taken out by one thread at a time; the two may be different
/// and do so at the same time.
class IoRing {
 public:
  /// Room for at least `reads` at a time. Throws std::system_error where the system refuses.
  explicit IoRing(unsigned reads);
  ~IoRing();
  IoRing(const IoRing&) = delete;
  IoRing& operator=(const IoRing&) = delete;

  /// Hands the kernel a read of the file; no more than there is room for may be on their way. Returns 0, or
  /// the errno value with which the system refuses it.
  int put_read(int descriptor, std::uint64_t offset, std::span<std::byte> destination, std::uint64_t id);

  struct Result {
    std::uint64_t id;
    int value;  // bytes read, or minus an errno value
  };
  /// Waits for a read on its way. Throws std::system_error where the system does not wait.
  Result take();

 private:
  /// Part of memory that is shared with the kernel.
  struct Mapping {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    template <class T>
    T* at(std::uint32_t offset) const {
      return reinterpret_cast<T*>(begin + offset);
    }
  };
  Mapping map(std::size_t bytes, std::uint64_t what);
  void close() noexcept;

  int descriptor_ = -1;
  Mapping submissions_, completions_, entries_;
  io_uring_params params_{};
};

}  // namespace moelab
