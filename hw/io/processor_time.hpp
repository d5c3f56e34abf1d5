// What the machine's processors did, and what this process had them do.
#pragma once

#include <filesystem>
#include <optional>

namespace moelab {

/// Seconds of processors since the machine started, all of them added; `own` since this process did.
struct ProcessorTime {
  double busy =
      0;  // at work for any program, and at work for others where the machine is a virtual one (steal)
  double idle = 0;
  double own = 0;  // at work for this process, its threads that ended included
};

/// By /proc/stat, which counts in hundredths of a second, and getrusage. Nothing where the system does not
/// say. `root`: where the system's files are.
std::optional<ProcessorTime> processor_time(const std::filesystem::path& root = "/");

}  // namespace moelab
