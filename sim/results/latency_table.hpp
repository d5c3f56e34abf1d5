// The tables of what requests met under load: each system's latencies with their percentiles, and its rates.
#pragma once

#include <string>
#include <vector>

#include "sim/run_result.hpp"

namespace moelab {

/// Of systems that served several requests; "" where there is none.
std::string latency_tables(const std::vector<const RunResult*>& results);

/// A line for each system whose statistics are of a part of its run: of which, and whether that was a steady
/// state; "" where there is none, else with an empty line behind.
std::string measured_lines(const std::vector<RunResult>& results);

}  // namespace moelab
