// Result files, as `moelab run --out`, `moelab load --out` and `experiments/world/run.sh --out` write them,
// as a report.
#pragma once

#include <string>
#include <vector>

#include "cli/report/report.hpp"

namespace moelab {

/// Reads them all: results as points, curves over the request rate as loads, published measurements beside
/// predictions as worlds. The axes are what tells the
/// results apart: scenario, what was set for the run, model, device, executor, seed, version; the file where
/// nothing else does. The series is the system. Throws InputError with every file that is no result: what was
/// expected, and where.
Report read_result_files(const std::vector<std::string>& files);

}  // namespace moelab
