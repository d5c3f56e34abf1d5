// Whether a scenario's drawn trace has gate scores of all experts.
#pragma once

#include "sim/scenario.hpp"

namespace moelab {

/// Where a system needs them: they are half of what a trace takes in memory. (scenario_trace.cpp)
bool draws_all_scores(const Scenario& scenario);

}  // namespace moelab
