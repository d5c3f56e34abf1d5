// What lets the kernels' bodies compile for both sides: as device code by nvcc, and as plain C++ for the
// tests that run the same source on the CPU.
//
// A body is a function template over a *team*, the threads of one block. A team offers
//   kThreads                     how many threads there are
//   Each<T>                      a value of each thread, e[t]; on a GPU a register
//   each(f)                      f(t) by every thread
//   sync()                       all that was written to shared memory before is seen after
//   any(Each<bool>&)             whether it is true for one thread; the same answer to all; a sync()
//   exclusive_sum(Each<u32>&)    replaces each value by the sum of those before; returns the sum; a sync()
//   swap_with_neighbour(e)       threads 2i and 2i + 1 exchange theirs; for Each of Halves
//   (recovery_body.hpp)
// Whatever stands outside each() must be the same for all threads. cuda_team.cuh is a block on a GPU; in the
// tests a team is a loop that takes its threads in any order.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define MOELAB_HOST_DEVICE __host__ __device__
#else
#define MOELAB_HOST_DEVICE
#endif

namespace moelab::kernels {

/// Vectors as the memory units of a GPU move them. They alias everything, as bytes do.
struct [[gnu::may_alias]] alignas(8) Bytes8 {
  std::uint32_t words[2];
};
struct [[gnu::may_alias]] alignas(16) Bytes16 {
  std::uint32_t words[4];
};
using Word32 = std::uint32_t __attribute__((may_alias));
using Word64 = std::uint64_t __attribute__((may_alias));

/// Loads what no other thread needs again, past the caches where the GPU can.
MOELAB_HOST_DEVICE inline Bytes16 load_once(const Bytes16* from) {
#if defined(__CUDA_ARCH__)
  const uint4 loaded = __ldcs(reinterpret_cast<const uint4*>(from));
  return {{loaded.x, loaded.y, loaded.z, loaded.w}};
#else
  return *from;
#endif
}
MOELAB_HOST_DEVICE inline Bytes8 load_once(const Bytes8* from) {
#if defined(__CUDA_ARCH__)
  const uint2 loaded = __ldcs(reinterpret_cast<const uint2*>(from));
  return {{loaded.x, loaded.y}};
#else
  return *from;
#endif
}

/// Stores 16 bytes at once, to the L2. Assigned as a struct, the compiler may make four stores of it.
MOELAB_HOST_DEVICE inline void store_vector(Bytes16* to, const Bytes16& vector) {
#if defined(__CUDA_ARCH__)
  __stcg(reinterpret_cast<uint4*>(to),
         make_uint4(vector.words[0], vector.words[1], vector.words[2], vector.words[3]));
#else
  *to = vector;
#endif
}

/// Loads what no kernel writes while this one runs.
template <class T>
MOELAB_HOST_DEVICE T load_constant(const T* from) {
#if defined(__CUDA_ARCH__)
  return __ldg(from);
#else
  return *from;
#endif
}

template <class T>
MOELAB_HOST_DEVICE constexpr T smaller(T a, T b) {
  return b < a ? b : a;
}

}  // namespace moelab::kernels
