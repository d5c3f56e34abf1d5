// Memory that is shown at addresses of one's choice, and moved to others: what cuMemMap and cuMemUnmap do for
// a GPU, done by the kernel's page tables. No byte is copied.
//
//   addresses:  ....|0 0 0|....|1|.......     reserved; nothing is behind what is not mapped: a touch is a
//   fault frames:     [ 0 0 0 | 1 | free ]          pages of memory, each at one address at most
#pragma once

#include <cstddef>
#include <span>

namespace moelab {

class RemappedMemory {
 public:
  /// Mappings begin and end at multiples of this many bytes.
  static std::size_t page();
  /// Pages at multiples of this are moved many at a time, where they are large.
  static constexpr std::size_t kLargePage = std::size_t{2} << 20;

  /// Reserves addresses for so many bytes, and takes memory for `frames` bytes, every page of it; both are
  /// rounded up to pages. Throws std::bad_alloc, and InputError where the kernel cannot move pages (before
  /// Linux 5.7).
  RemappedMemory(std::size_t addresses, std::size_t frames);
  ~RemappedMemory();
  RemappedMemory(const RemappedMemory&) = delete;
  RemappedMemory& operator=(const RemappedMemory&) = delete;

  // From one thread at a time, or several for addresses and frames of their own. All three in bytes and whole
  // pages, within what there is (std::invalid_argument). What is mapped at `address` is unmapped with the
  // same three before anything else is mapped there, and its bytes stay in the frames. Throw InputError where
  // the kernel refuses.
  void map(std::size_t address, std::size_t frame, std::size_t bytes);
  void unmap(std::size_t address, std::size_t frame, std::size_t bytes);

  /// Addresses; only what is mapped may be touched.
  std::span<std::byte> at(std::size_t address, std::size_t bytes) const {
    return {addresses_ + address, bytes};
  }
  std::size_t frame_bytes() const { return frames_bytes_; }

 private:
  void move(std::byte* from, std::byte* to, std::size_t bytes);
  void require(std::size_t address, std::size_t frame, std::size_t bytes) const;

  std::byte *addresses_ = nullptr, *frames_ = nullptr;  // what is not mapped at an address lies in the latter
  std::size_t addresses_bytes_ = 0, frames_bytes_ = 0;
};

}  // namespace moelab
