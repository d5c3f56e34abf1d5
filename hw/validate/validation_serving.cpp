#include "hw/validate/validation_serving.hpp"

#include <algorithm>

#include "hw/validate/validation_run.hpp"
#include "models/input_error.hpp"
#include "sim/results/statistics.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/served_request.hpp"

namespace moelab {
namespace {

constexpr double kLongestWait = 86400;  // seconds

void add_times(ServedTimes& times, const Metrics& m) {
  times.ttft.push_back(mean(m.ttft_s));
  times.tpot.push_back(mean(m.token_gaps_s));
  times.end_to_end.push_back(mean(m.end_to_end_s));
}

}  // namespace

void add_served(ServingPoint& point, const RunPair& pair) {
  const Metrics& measured = pair.measured.metrics;
  const Metrics& predicted = (pair.alone ? *pair.alone : pair.predicted).metrics;
  point.over_time = pair.alone.has_value();
  point.in_blocks = pair.measured.memory.kv_blocks > 0;
  point.answered = measured.end_to_end_s.size();
  point.counts = measured.serving;
  point.predicted_steps = predicted.serving.steps;
  add_times(point.measured, measured);
  add_times(point.predicted, predicted);
}

std::string check_arrivals(const Scenario& scenario, const RoutingTrace& trace, std::uint64_t runs) {
  if (scenario.workload.closed_loop)
    throw InputError(scenario.name,
                     "workload.closed_loop: its users send by answers, in simulated time; hardware is given "
                     "requests all at once, by 'arrivals_per_s' or from a 'request_log'");
  if (has_conversations(scenario.workload))
    throw InputError(scenario.name,
                     "workload.conversations: they go on by answers, in simulated time; hardware is given "
                     "requests all at once, by 'arrivals_per_s' or from a 'request_log'");
  if (scenario.workload.left_out.any())
    throw InputError(scenario.name,
                     "workload.warm_up and cool_down: hardware is held against the simulator over all "
                     "requests; expected a workload without them");
  double last = 0, all = 0;
  for (const SystemConfig& system : scenario.systems) {
    if (!come_over_time(scenario, system, trace)) continue;
    last = std::max(last, served_requests(scenario, trace).back().arrival_s);
    all += last * static_cast<double>(runs);
  }
  if (last == 0) return "";
  if (all > kLongestWait)
    throw InputError(scenario.name,
                     "its last request comes after " + to_string(Seconds(last)) +
                         ", and hardware waits for it by the wall's clock, in all runs " +
                         to_string(Seconds(all)) +
                         "; expected a day at most: a larger workload.arrivals_per_s, fewer requests, a "
                         "shorter workload.request_log, or fewer systems, --budgets and --repeats");
  return "requests come over " + to_string(Seconds(last)) +
         " by the wall's clock; layers, operations, hits, bytes and their TPOT are held against a simulation "
         "that takes each request into the step that took it on hardware, what users waited ('requests') "
         "against one that goes by its own clock and may form other steps";
}

}  // namespace moelab
