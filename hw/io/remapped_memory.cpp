#include "hw/io/remapped_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <system_error>

#include "models/input_error.hpp"

namespace moelab {
namespace {

#ifdef MREMAP_DONTUNMAP
constexpr int kKeepAddresses = MREMAP_DONTUNMAP;
#else
constexpr int kKeepAddresses = 4;  // of Linux's <linux/mman.h>, since 5.7
#endif

std::size_t whole_pages(std::size_t bytes) {
  const std::size_t page = RemappedMemory::page();
  return (bytes + page - 1) / page * page;
}

/// Room for `bytes` from a multiple of large pages on.
std::size_t room_for(std::size_t bytes) {
  return bytes + RemappedMemory::kLargePage;
}

std::byte* reserve(std::size_t bytes, int protection) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const begin = ::mmap(nullptr, room_for(bytes), protection, flags, -1, 0);
  if (begin == MAP_FAILED) throw std::bad_alloc();
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t aligned =
      (address + RemappedMemory::kLargePage - 1) / RemappedMemory::kLargePage * RemappedMemory::kLargePage;
  // What lies before and after is given back, so that the reservation is [aligned, aligned + bytes).
  if (aligned > address) ::munmap(begin, aligned - address);
  const std::size_t behind = room_for(bytes) - (aligned - address) - bytes;
  if (behind > 0) ::munmap(reinterpret_cast<void*>(aligned + bytes), behind);
  return reinterpret_cast<std::byte*>(aligned);
}

}  // namespace

std::size_t RemappedMemory::page() {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return page;
}

RemappedMemory::RemappedMemory(std::size_t addresses, std::size_t frames)
    : addresses_bytes_(std::max(page(), whole_pages(addresses))),
      frames_bytes_(std::max(page(), whole_pages(frames))) {
  addresses_ = reserve(addresses_bytes_, PROT_NONE);
  try {
    frames_ = reserve(frames_bytes_, PROT_READ | PROT_WRITE);
  } catch (...) {
    ::munmap(addresses_, addresses_bytes_);
    throw;
  }
  ::madvise(frames_, frames_bytes_, MADV_HUGEPAGE);  // advice: its refusal changes no result
  for (std::size_t at = 0; at < frames_bytes_; at += page()) frames_[at] = std::byte{0};
}

RemappedMemory::~RemappedMemory() {
  ::munmap(addresses_, addresses_bytes_);
  ::munmap(frames_, frames_bytes_);
}

void RemappedMemory::require(std::size_t address, std::size_t frame, std::size_t bytes) const {
  for (const std::size_t amount : {address, frame, bytes})
    if (amount % page() != 0) throw std::invalid_argument("remapped memory: a part of a page");
  if (bytes == 0 || bytes > addresses_bytes_ || address > addresses_bytes_ - bytes || bytes > frames_bytes_ ||
      frame > frames_bytes_ - bytes)
    throw std::invalid_argument("remapped memory: no such addresses, or frames");
}

// The pages go from one mapping to the other; the one they leave stays, so that no other thread is given its
// addresses, and is closed to all access.
void RemappedMemory::move(std::byte* from, std::byte* to, std::size_t bytes) {
  const int flags = MREMAP_MAYMOVE | MREMAP_FIXED | kKeepAddresses;
  if (::mremap(from, bytes, bytes, flags, to) == MAP_FAILED || ::mprotect(from, bytes, PROT_NONE) != 0)
    throw InputError("remapped memory",
                     "the kernel does not move " + std::to_string(bytes) +
                         " bytes of pages, which takes Linux 5.7: " + std::generic_category().message(errno));
}

void RemappedMemory::map(std::size_t address, std::size_t frame, std::size_t bytes) {
  require(address, frame, bytes);
  move(frames_ + frame, addresses_ + address, bytes);
}

void RemappedMemory::unmap(std::size_t address, std::size_t frame, std::size_t bytes) {
  require(address, frame, bytes);
  move(addresses_ + address, frames_ + frame, bytes);
}

}  // namespace moelab
