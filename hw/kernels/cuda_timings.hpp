// Timings of the GPU and its link: what `moelab bench` and calibration call. Every function does the work
// once untimed and checks what it made, throws WrongAnswer where that is not right, and then returns samples
// in seconds of one operation. All throw CudaError, and want cuda_missing() to be empty (cuda_device.hpp).
//
// Method. A sample is the time between two events around `repeats` operations in one stream, over `repeats`;
// a kernel in front holds the stream back until all are queued. Operations take turns over sets of buffers of
// more than twice the L2's size together, so that what they read is in memory. Where the host is part of what
// is measured (pageable copies, launches, remapping), the samples are of the host's clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace moelab {

/// A measured operation did not do what it should.
class WrongAnswer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct CudaSampling {
  std::size_t samples;  // that are returned
  std::size_t warm_up;  // samples before them that are not
  std::size_t repeats;  // operations a sample, 1 to kMaxCudaRepeats: the queue of a stream is finite
};
inline constexpr std::size_t kMaxCudaRepeats = 128;

using Seconds = std::vector<double>;

/// Where the host's end of a copy is: pinned, moved by a copy engine; pageable, staged by the driver; pinned
/// and mapped, moved by a kernel's loads and stores.
enum class HostMemory { pinned, pageable, mapped };

/// One copy of `bytes`, 1 or more, for mapped memory a multiple of 16 (std::invalid_argument).
Seconds time_copy_to_device(std::size_t bytes, HostMemory memory, const CudaSampling& sampling);
Seconds time_copy_to_host(std::size_t bytes, HostMemory memory, const CudaSampling& sampling);

/// One copy of `bytes` within the GPU's memory, by the driver: reads and writes `bytes` each. What recovery
/// is compared with.
Seconds time_device_copy(std::size_t bytes, const CudaSampling& sampling);

/// Planes of `elements` into BF16, without and with decoding of the exponents, which are those of Gaussian
/// weights.
Seconds time_recovery(std::size_t elements, const CudaSampling& sampling);
Seconds time_huffman_recovery(std::size_t elements, std::size_t segment_bytes, const CudaSampling& sampling);
Seconds time_fixed3_recovery(std::size_t elements, const CudaSampling& sampling);

struct ExpertShape {
  std::size_t hidden, width;
  unsigned matrices;  // 3: gate, up, down with SiLU; 2: up, down with ReLU
};
/// One expert on `tokens` tokens by cuBLAS in BF16, its weights in memory, not in the L2.
Seconds time_expert(const ExpertShape& shape, std::size_t tokens, const CudaSampling& sampling);

struct LaunchTimes {
  Seconds queued;     // the host's time for one launch into a stream that has work
  Seconds completed;  // launch until the host knows that it is done, one at a time
};
LaunchTimes time_kernel_launch(const CudaSampling& sampling);

struct RemapTimes {
  Seconds mapped;     // cuMemMap and cuMemSetAccess of `bytes` of other physical memory at the same address
  Seconds unmapped;   // cuMemUnmap of it
  std::size_t bytes;  // rounded up to the GPU's granularity
};
RemapTimes time_remap(std::size_t bytes, const CudaSampling& sampling);

struct OverlapTimes {
  Seconds copy_alone, copy_beside;      // pinned host memory to the GPU
  Seconds expert_alone, expert_beside;  // an expert's matrices
};
/// Copies of `bytes` while another stream computes the expert again and again, and each without the other.
OverlapTimes time_copy_while_computing(std::size_t bytes, const ExpertShape& shape, std::size_t tokens,
                                       const CudaSampling& sampling);

}  // namespace moelab
