// Results as text: the JSON that scripts rely on, and the table that people read.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/results/speed_table.hpp"
#include "sim/results/text_report.hpp"
#include "sim/run_result.hpp"

namespace moelab {

struct MemoryPlan;
struct Scenario;

/// What a result's "result_format" says. 1, which results do not say: "tpot_s" held percentiles of single
/// gaps between tokens and their mean. 2: these are "itl_s", and "tpot_s" is of requests, each by its mean
/// gap.
inline constexpr int kResultFormat = 2;

/// The stable interface of `moelab run --format json`: an object for one result, an array for several. Keys
/// are added; one that is renamed raises kResultFormat. Numbers are written so that they read back exactly.
std::string results_json(const std::vector<RunResult>& results);

/// Seconds by cause: what not every run has a part in is left out where it took no time.
nlohmann::ordered_json stall_json(const std::array<double, kCauses>& seconds);

/// How a result says what memory is for, all in bytes: "memory_bytes", or "memory_bytes_a_gpu" of a system
/// whose experts are paged.
nlohmann::ordered_json memory_plan_json(const MemoryPlan& memory, bool paged);

/// What a systems engineer wants to see side by side, 80 to 120 columns wide. Rows of the systems `marked`
/// (changed_systems()) get a '*'. Of further seeds, `by_seed`, the first table has the means and the range.
std::string results_table(const Scenario& scenario, const std::vector<RunResult>& results, TextForm form = {},
                          const std::vector<std::string>& marked = {}, const SpeedsBySeed& by_seed = {});

}  // namespace moelab
