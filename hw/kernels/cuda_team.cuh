// A block of a GPU as the kernels' bodies see it (host_device.hpp). One-dimensional blocks of whole warps.
#pragma once

#include "hw/kernels/recovery_body.hpp"

namespace moelab::kernels {

template <unsigned threads>
class CudaTeam {
 public:
  static constexpr unsigned kThreads = threads;
  static_assert(threads % 64 == 0 && threads <= 1024);

  /// A thread sees its own value alone.
  template <class T>
  class Each {
   public:
    __device__ T& operator[](unsigned) { return value_; }

   private:
    T value_;
  };

  template <class F>
  __device__ void each(F f) {
    f(threadIdx.x);
  }
  __device__ void sync() { __syncthreads(); }
  __device__ bool any(Each<bool>& values) { return __syncthreads_or(values[threadIdx.x]) != 0; }

  /// Sums take turns with two rows of shared memory: what the last one wrote, no thread reads any more once
  /// all have met in this one's barrier.
  __device__ std::uint32_t exclusive_sum(Each<std::uint32_t>& values) {
    constexpr unsigned warps = threads / 32;
    static_assert(warps <= 32);
    __shared__ std::uint32_t rows[2][warps];
    std::uint32_t* const warp_sums = rows[turn_];
    turn_ ^= 1;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const std::uint32_t own = values[threadIdx.x];
    std::uint32_t sum = own;
    for (unsigned distance = 1; distance < 32; distance *= 2) {
      const std::uint32_t earlier = __shfl_up_sync(0xFFFFFFFF, sum, distance);
      if (lane >= distance) sum += earlier;
    }
    if (lane == 31) warp_sums[warp] = sum;
    __syncthreads();
    const std::uint32_t sum_of_lane = lane < warps ? warp_sums[lane] : 0;
    const std::uint32_t before = __reduce_add_sync(0xFFFFFFFF, lane < warp ? sum_of_lane : 0);
    values[threadIdx.x] = before + sum - own;
    return __reduce_add_sync(0xFFFFFFFF, sum_of_lane);
  }

  __device__ void swap_with_neighbour(Each<Halves>& values) {
    Halves& halves = values[threadIdx.x];
    for (std::uint32_t* word : {&halves.exponents.words[0], &halves.exponents.words[1],
                                &halves.sign_mantissas.words[0], &halves.sign_mantissas.words[1]})
      *word = __shfl_xor_sync(0xFFFFFFFF, *word, 1);
  }

 private:
  unsigned turn_ = 0;
};

}  // namespace moelab::kernels
