// Results as text: the JSON that scripts rely on, and the table that people read.
#pragma once

#include <string>
#include <vector>

#include "sim/run_result.hpp"

namespace moelab {

struct Scenario;

/// The stable interface of `moelab run --format json`: an object for one result, an array for several. Keys
/// are added, never renamed. Numbers are written so that they read back exactly.
std::string results_json(const std::vector<RunResult>& results);

/// What a systems engineer wants to see side by side, 80 to 120 columns wide.
std::string results_table(const Scenario& scenario, const std::vector<RunResult>& results);

}  // namespace moelab
