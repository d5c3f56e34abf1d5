// How fast the CPU is right now, against what the profile says: machines that share their processor with
// others swing by tens of per cent from minute to minute, and a profile is of the minutes in which it was
// made.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hw/bench/bench_work.hpp"
#include "hw/bench/handoff_team.hpp"
#include "hw/compute/dense_kernel.hpp"
#include "models/architecture.hpp"
#include "models/device.hpp"

namespace moelab {

/// Seconds that operations take now over those of the profile. 1: as the profile says.
struct CpuRatios {
  double decompress = 1, recover = 1, experts = 1, dense = 1;
  double copies = 1;  // over the link of a stand-in for a GPU
  double decode = 1;  // by it, of experts in its memory
};

/// The profile with the CPU's times multiplied: the codec's decompression (unless `codec` is empty; of a
/// stand-in for a GPU its decoding), joins, experts of the shape, what dense kernels are predicted by, and
/// copies where the CPU makes them. Not hand-overs: README.md says why.
DeviceProfile scaled_cpu(const DeviceProfile& device, const std::string& codec, const ExpertShape& shape,
                         const CpuRatios& ratios);

class ValidationCpu {
 public:
  /// Data for one operation of each kind, of the model's sizes, by the benchmark's own code. Takes memory
  /// beyond the caches for three of them; std::bad_alloc. Without codecs nothing is decompressed and joined;
  /// with `copies` whole tensors are copied.
  ValidationCpu(const Architecture& model, std::uint32_t shards, const std::vector<std::string>& codecs,
                bool copies);
  /// Bytes that this takes.
  static std::uint64_t bytes();

  /// Times each operation alone, in bursts of a few turns with pauses between them, some ten milliseconds in
  /// all, and returns the profile at these speeds: the median of the bursts' medians, for a core that is
  /// taken away for a moment spoils a whole burst. `codec`: one of those given, or empty where there are
  /// none; `in_profile`: its name there; `dense`: whether dense kernels are simulated.
  DeviceProfile now(const DeviceProfile& device, const std::string& codec, const std::string& in_profile,
                    bool dense);

  /// The largest factor between what an operation took before the latest now() returned and what it takes at
  /// this moment, 1 or above; of bursts that say that the CPU has changed, the one that says so least.
  double changed_since();

  /// What reads cost the CPU: an expert, and the decompression of the latest now(), each timed while a thread
  /// does `read` over and over and alone, in turns. Returns the median of all such ratios found so far, 1 or
  /// above: one probe's few say less than the disk changes from one run to the next.
  double slowdown_while(const BenchWork& read);

  /// All ratios found, by what was timed: "decompress fixed3".
  const std::map<std::string, std::vector<double>>& ratios() const { return ratios_; }
  /// Those of hand-overs, timed in the same bursts; in no prediction.
  const std::vector<double>& hand_over_ratios() const { return hand_over_ratios_; }
  /// Those of slowdown_while().
  const std::vector<double>& reading_ratios() const { return reading_ratios_; }

 private:
  enum Work : std::size_t { decompression, join, experts, dense_kernel, copy, kWorks };
  using Burst = std::array<double, kWorks>;  // seconds; 0: is not timed

  Burst burst();
  double found(const std::string& what, double seconds, double in_profile);

  ExpertShape shape_;
  std::size_t elements_, shard_;
  std::uint32_t shards_;
  BenchWorkspace workspace_;
  std::map<std::string, std::unique_ptr<BenchOperation>> decompress_;  // by codec
  std::unique_ptr<BenchOperation> join_, copy_, expert_;               // the first two where there are any
  DenseKernel dense_;
  HandoffTeam worker_{1, false};             // which operations are handed to
  BenchOperation* decompression_ = nullptr;  // what the latest now() timed
  bool dense_timed_ = false;
  Burst latest_{};
  std::map<std::string, std::vector<double>> ratios_;
  std::vector<double> hand_over_ratios_, reading_ratios_;
};

}  // namespace moelab
