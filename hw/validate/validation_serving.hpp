// Requests that come and go, in a validation: what of them is held against what.
//
// Which requests meet in a step depends on when they come and on how long steps take. Where all are there
// from the start the two runs form the same steps. Where they come over time, hardware takes them by the
// wall's clock, and two simulations follow: one takes each request into the step that took it on hardware, so
// that operations, layers and decisions can be laid side by side; the other goes by its own clock alone, as
// `moelab run` does, and says what users would have waited.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/serving/metrics.hpp"

namespace moelab {

class RoutingTrace;
struct RunPair;
struct Scenario;

/// What users waited: means over the requests of a run, in seconds, a value a repeat.
struct ServedTimes {
  std::vector<double> ttft, tpot, end_to_end;
};

/// Of a system at one place of the grid.
struct ServingPoint {
  bool over_time = false;  // requests come by the wall's clock, and by that of a simulation alone
  bool in_blocks = false;  // the KV cache
  ServedTimes predicted, measured;
  // Of the last run: on hardware, and predicted by the simulation that has `predicted` its times.
  std::uint64_t answered = 0;  // requests
  ServingCounts counts;
  std::uint64_t predicted_steps = 0;

  /// Whether there is more to say than of one batch after another.
  bool any() const { return over_time || in_blocks; }
};

/// A timed run.
void add_served(ServingPoint& point, const RunPair& pair);

/// Throws InputError for systems that come over time where `runs` of each would take more than a day of the
/// wall's clock. Returns what is to be said of them; empty: nothing.
std::string check_arrivals(const Scenario& scenario, const RoutingTrace& trace, std::uint64_t runs);

}  // namespace moelab
