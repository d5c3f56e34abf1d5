// Timings of the GPU and its link: what benchmark cases and calibration take their samples from. All throw
// CudaError, and want cuda_missing() to be empty (cuda_device.hpp).
//
// Method. A time is that between two events around the operations in one stream; a kernel in front holds the
// stream back until all of them (or 128, then the next 128) are queued. Operations take turns over sets of
// buffers of more than twice the L2's size together, so that what they read is in memory. Where the host is
// part of what is timed (pageable copies, launches, remapping), the host's clock is taken.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "hw/compute/expert_ffn.hpp"

namespace moelab {

/// A timed operation did not do what it should.
class WrongAnswer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One operation that can be timed. Holds all that it needs in GPU memory. Not for two threads at once.
class CudaTiming {
 public:
  virtual ~CudaTiming() = default;
  /// Does it once, untimed. Throws WrongAnswer where what it made is not right.
  virtual void check() = 0;
  /// Seconds of `operations`, 1 or more, one after the other.
  virtual double run(std::size_t operations) = 0;
};

struct CudaSampling {
  std::size_t samples;     // that are returned
  std::size_t warm_up;     // samples before them that are not
  std::size_t operations;  // a sample, 1 or more
};
/// Checks, then takes samples: seconds of one operation.
std::vector<double> take_samples(CudaTiming& timing, const CudaSampling& sampling);

/// Where the host's end of a copy is: pinned, moved by a copy engine; pageable, staged by the driver; pinned
/// and mapped, moved by a kernel's loads and stores.
enum class HostMemoryKind { pinned, pageable, mapped };
enum class CopyDirection { to_device, to_host };
/// One copy of `bytes`, 1 or more; of mapped memory a multiple of 16 (std::invalid_argument).
std::unique_ptr<CudaTiming> link_copy_timing(std::size_t bytes, HostMemoryKind memory,
                                             CopyDirection direction);

/// One copy of `bytes` within the GPU's memory, by the driver: reads and writes `bytes` each. What recovery
/// is compared with.
std::unique_ptr<CudaTiming> device_copy_timing(std::size_t bytes);

/// Planes of `elements` into BF16, without and with decoding of the exponents, which are those of Gaussian
/// weights.
std::unique_ptr<CudaTiming> recovery_timing(std::size_t elements);
std::unique_ptr<CudaTiming> huffman_recovery_timing(std::size_t elements, std::size_t segment_bytes);
std::unique_ptr<CudaTiming> fixed3_recovery_timing(std::size_t elements);

/// One expert on `tokens` tokens by cuBLAS in BF16, its weights in memory, not in the L2.
std::unique_ptr<CudaTiming> cuda_expert_timing(const ExpertShape& shape, std::size_t tokens);

/// queued: the host's time for one launch into a stream that has work. completed: from the launch of a kernel
/// that does next to nothing until the host knows that it is done, one at a time.
enum class LaunchEnd { queued, completed };
std::unique_ptr<CudaTiming> launch_timing(LaunchEnd end);

/// map: cuMemMap and cuMemSetAccess of `bytes`, rounded up to the GPU's granularity, of other physical memory
/// at the same address. unmap: cuMemUnmap of it.
enum class RemapStep { map, unmap };
/// Why remap_timing cannot be, where there is a GPU: not every GPU and driver manage virtual memory. Empty:
/// it can.
std::string remap_missing();
std::unique_ptr<CudaTiming> remap_timing(std::size_t bytes, RemapStep step);

/// A copy of `bytes` from pinned memory to the GPU while another stream computes experts without a pause, or
/// an expert while another stream copies. Throws std::invalid_argument where one lasts so much longer than
/// the other that a stream's queue of those would not cover it.
enum class OverlapPart { copy, expert };
std::unique_ptr<CudaTiming> overlap_timing(OverlapPart timed, std::size_t bytes, const ExpertShape& shape,
                                           std::size_t tokens);

}  // namespace moelab
