#include "hw/io/aligned_memory.hpp"

#include <sys/mman.h>

#include <new>

namespace moelab {

namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;

}  // namespace

AlignedMemory::AlignedMemory(std::size_t bytes) {
  if (bytes == 0) return;
  void* begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) throw std::bad_alloc();
  if (bytes >= kLargePage) ::madvise(begin, bytes, MADV_HUGEPAGE);  // advice: its refusal changes no result
  bytes_ = {static_cast<std::byte*>(begin), bytes};
}

AlignedMemory::~AlignedMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace moelab
