// How long a step of the engine takes: from data sheets, or from kernel tables.
#pragma once

#include <memory>

#include "experiments/load/replay_setup.hpp"
#include "sim/serving/pass.hpp"

namespace moelab::replay {

class StepTimes {
 public:
  virtual ~StepTimes() = default;
  virtual double seconds(const Pass& pass) = 0;
};

/// As `moelab run` takes it: data sheets and the runtime's constants. `setup` outlives it.
std::unique_ptr<StepTimes> data_sheet_times(const Setup& setup);
/// By the tables of a folder, and data sheets where it has none (kernel_tables.hpp). Throws InputError for a
/// folder without tables of this GPU and model. `setup` outlives it.
std::unique_ptr<StepTimes> table_times(const Setup& setup, const std::string& folder);

}  // namespace moelab::replay
