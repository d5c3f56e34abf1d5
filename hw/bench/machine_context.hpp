// On what machine, and in what state of it, something was measured.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace moelab {

/// Texts are empty where the system does not say.
struct MachineContext {
  std::string cpu;                                 // model
  unsigned cores = 0;                              // that may be used
  std::string kernel;                              // name and release
  std::string governor;                            // of the first core's frequency
  double load = 0;                                 // average of the last minute
  std::string filesystem;                          // of the folder: its kind and device
  std::uint64_t memory = 0, available_memory = 0;  // bytes
  std::string gpu, driver;                         // NVIDIA's: each GPU's model, and the driver's version
  std::string date;                                // UTC, "2026-11-21T10:00:00Z"
  std::string program;                             // name and version
  std::string compiler;
  std::string libraries;  // that are measured too, with their versions

  /// What spoils timings here, a sentence each.
  std::vector<std::string> warnings() const;
};

/// What x86 calls its processor; of others the board's name, or the numbers that tell processors apart and
/// the machine's name. Empty where the system does not say. `root`: where the system's files are.
std::string cpu_model(const std::filesystem::path& root = "/");

/// `folder`: where files are read from; `program`: as it wants to be called.
MachineContext machine_context(const std::filesystem::path& folder, const std::string& program);

}  // namespace moelab
