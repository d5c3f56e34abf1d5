// Which machine a profile was measured on, by what a program finds out about the one it runs on.
#pragma once

#include <string>

namespace moelab {

/// Compared as they are. Empty: there is none (a GPU, its driver).
struct MachineIdentity {
  std::string cpu;     // model name
  std::string kernel;  // of the operating system: name and release
  std::string driver;  // of the GPU
  std::string gpu;
  bool operator==(const MachineIdentity&) const = default;
};

struct MeasuredOn {
  MachineIdentity machine;
  std::string date;            // "2026-01-31"
  std::string command;         // that made the profile
  std::string libraries = {};  // measured with the machine, with their versions; empty: not said
  bool operator==(const MeasuredOn&) const = default;
};

}  // namespace moelab
