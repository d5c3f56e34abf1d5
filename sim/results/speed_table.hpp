// How fast systems were: the table that `moelab run` begins with, of one seed or over several.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "sim/results/text_table.hpp"
#include "sim/run_result.hpp"

namespace moelab {

/// The table's columns behind the name: TTFT in s, TPOT in ms, gaps between tokens (p50, p90, p99) in ms,
/// tokens/s, end-to-end latency in s; nothing where the system did not fit, or no request has one.
using SpeedFigures = std::array<std::optional<double>, 7>;
SpeedFigures speed_of(const RunResult& result);

/// By result and by seed, the first that of the result itself; empty where there is one seed.
using SpeedsBySeed = std::vector<std::vector<SpeedFigures>>;

/// A row a system; over several seeds its means over those that have the figure, and below it the least and
/// the most.
TextTable speed_table(const std::vector<RunResult>& results, const SpeedsBySeed& by_seed = {});

}  // namespace moelab
