// Measures this machine and makes a device profile of it: runs the benchmark cases that a profile is made of,
// in turns, and hands their results to profile_from().
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hw/calibrate/calibrated_profile.hpp"
#include "models/architecture.hpp"

namespace moelab {

struct CalibrationOptions {
  std::string name = "here";  // of the profile
  std::string title;          // empty: the processor, its cores and the filesystem
  std::string command;        // kept in the profile, for people
  std::string program;        // name and version
  /// Whose experts are measured; of the first one tensors and shards too, and what else depends on a model.
  std::vector<Architecture> models;
  /// As systems name them: "lz4hc", "fixed3". Empty: all of the codec table but the copy.
  std::vector<std::string> codecs;
  unsigned shards = 4;                 // of an exponent plane, 1 ... 256
  std::filesystem::path folder = ".";  // of the storage that is measured
  bool quick = false;                  // fewer sizes and samples: a minute at most
  bool gpu = true;                     // where there is one; false: a profile of the CPU alone
  bool stand_in_gpu = false;           // the CPU plays a discrete GPU; `gpu` is then not asked for
};

struct CalibrationResult {
  DeviceProfile profile;
  std::vector<CalibrationFigure> figures;
  std::vector<BenchResult> measured;
  MachineContext machine;
  double seconds = 0;  // that it took
};

/// Refuses what cannot give a profile before anything is measured. Throws InputError: no model, one without
/// experts, a codec that is not known, no shards, a folder that is none or cannot be written; and as
/// profile_from() does.
CalibrationResult calibrate(const CalibrationOptions& options, const BenchProgress& progress = {});

/// What profiles compare machines by.
MachineIdentity identity_of(const MachineContext& context);

}  // namespace moelab
