// A device profile made of benchmark results: which result becomes which number, fitted how, and how sure it
// is. No clock, no file, nothing measured here: the same results give the same profile.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "hw/bench/bench_run.hpp"
#include "hw/bench/gpu_memory.hpp"
#include "hw/bench/machine_context.hpp"
#include "models/device.hpp"

namespace moelab {

/// What a codec makes of a model's exponent planes.
struct CodecRatio {
  std::string profile_name;     // under which systems name it: "lz4hc"
  std::string codec;            // as results name it, with its level: "lz4hc-9"
  std::vector<double> samples;  // stored over plain bytes of each chunk
};

/// What a profile says beside what was timed.
struct ProfileContext {
  std::string name, title, command;
  MachineContext machine;                    // as it was found before anything was measured
  std::optional<GpuMemoryFound> gpu_memory;  // of a discrete GPU, found as `machine` was
  /// A GPU that the CPU plays, of so many bytes of what was available; 0: none.
  double stand_in_bytes = 0;
  std::vector<ExpertShape> experts;  // measured; at the tensors of the first the reads' scaling is taken
  /// Kernels that the simulator counts in one dense operation of the model, attention's (Work::kernels). The
  /// executor runs it as one, so that each kernel is charged this part of what one costs to begin.
  int dense_kernels = 1;
  int expert_kernels = 1;          // the same of one expert, for a GPU
  std::vector<CodecRatio> ratios;  // one for each codec of the profile
  std::string ratios_of;           // whose planes those are ratios of, for the source
};

/// One number of the profile, or one that was measured beside it, for people.
struct CalibrationFigure {
  std::string path;              // "ssd.read", as in the profile's provenance
  bool in_profile = true;        // false: shown, but a profile has no place for it
  std::string value;             // "64 us + 2.41 GB/s"
  std::string source;            // its text
  std::optional<Spread> spread;  // of the measured times: factors on their medians
  double variation = 0;          // coefficient of variation, the largest of its points'
  std::size_t points = 0, samples = 0;
  bool noisy = false;               // varies too much, or has too few samples, to be called good
  std::optional<double> fit_error;  // root mean square of the residuals
  std::vector<double> residuals;    // fitted over measured seconds, less 1, in the order of the points
  double correction = 0;            // largest part by which a point was moved so that none falls
};

struct CalibratedProfile {
  DeviceProfile profile;
  std::vector<CalibrationFigure> figures;
};

/// Throws InputError where the results lack something that every profile needs, with the reason that the
/// results give; where one of them failed (a wrong answer), which makes the machine nothing to rely on.
CalibratedProfile profile_from(const std::vector<BenchResult>& results, const ProfileContext& context);

/// The profile's file. Throws InputError where a scenario would refuse it, with what is off and what to do:
/// device_to_yaml()'s reasons, and reads that no SSD can do.
std::string calibrated_text(const DeviceProfile& profile);

}  // namespace moelab
