// The tables of what requests met under load: each system's latencies with their percentiles, and its rates.
#pragma once

#include <string>
#include <vector>

#include "sim/results/text_table.hpp"
#include "sim/run_result.hpp"

namespace moelab {

/// Of systems that served several requests: their latencies, and their rates.
std::vector<TextTable> latency_tables(const std::vector<const RunResult*>& results);

/// A line for each system whose statistics are of a part of its run: of which, and whether that was a steady
/// state.
std::string measured_lines(const std::vector<RunResult>& results);

}  // namespace moelab
