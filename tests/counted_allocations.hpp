// Counts every allocation of a program: for one source file of a test program.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

inline std::atomic<std::uint64_t> allocations{0};

#if defined(__SANITIZE_ADDRESS__)
#define MOELAB_OWN_ALLOCATOR
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOELAB_OWN_ALLOCATOR
#endif
#endif

#ifdef MOELAB_OWN_ALLOCATOR
constexpr bool kCounts = false;  // sanitizers have an allocator of their own
#else
constexpr bool kCounts = true;

// Not inlined: g++ would take malloc and free for a mismatch where it sees one of them only.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size) {
  return operator new(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif
