#include "experiments/smoe/smoe_runs.hpp"

#include <algorithm>
#include <future>

#include "models/input_error.hpp"
#include "sim/results/statistics.hpp"
#include "sim/scenario_trace.hpp"

namespace moelab::smoe {

std::vector<std::string> baselines(const Setting& setting) {
  std::vector<std::string> names = {"moe-infinity-host", "deepspeed", "hybrimoe"};
  if (setting.llama_cpp_in_paper) names.emplace_back("llama-cpp");
  return names;
}

Outcome run_one(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace) {
  Outcome o;
  o.metrics = run_system(scenario, system, trace).metrics;
  o.ttft_s = mean(o.metrics.ttft_s);
  o.tpot_s = mean(o.metrics.token_gaps_s);
  double all = 0;
  for (const std::uint64_t n : o.metrics.decode_hits) all += static_cast<double>(n);
  o.hit_rate = static_cast<double>(o.metrics.decode_hits[static_cast<std::size_t>(State::F)]) / all;
  return o;
}

Outcomes run_point(const Setting& setting, int batch, const Variant& variant) {
  Scenario scenario =
      load_scenario(std::string(setting.scenario) + (batch == 1 ? "" : "-batch3"), variant.settings);
  if (variant.change) variant.change(scenario);
  const RoutingTrace trace = scenario_trace(scenario);
  check_scenario(scenario, trace);
  Outcomes outcomes;
  for (const SystemConfig& system : scenario.systems)
    outcomes[system.name] = run_one(scenario, system, trace);
  return outcomes;
}

std::vector<Point> run_all(const std::function<Variant(const Setting&, int batch)>& variant) {
  std::vector<std::future<Point>> runs;
  for (const int batch : kBatches)
    for (const Setting& setting : kSettings)
      runs.push_back(std::async(std::launch::async, [&setting, batch, v = variant(setting, batch)] {
        return Point{&setting, batch, run_point(setting, batch, v)};
      }));
  std::vector<Point> points;
  for (std::future<Point>& run : runs) points.push_back(run.get());
  return points;
}

const std::string& fastest(const Outcomes& outcomes, const std::vector<std::string>& systems) {
  const std::string* best = nullptr;
  for (const std::string& name : systems)
    if (outcomes.contains(name) && (best == nullptr || outcomes.at(name).tpot_s < outcomes.at(*best).tpot_s))
      best = &name;
  if (best == nullptr) throw InputError("", "none of the systems to compare with has run");
  return *best;
}

void keep_systems(Scenario& scenario, const std::vector<std::string>& names) {
  std::erase_if(scenario.systems, [&](const SystemConfig& system) {
    return std::find(names.begin(), names.end(), system.name) == names.end();
  });
}

SystemConfig& system_named(Scenario& scenario, const std::string& name) {
  for (SystemConfig& system : scenario.systems)
    if (system.name == name) return system;
  throw InputError(scenario.name, "the scenario has no system '" + name + "'");
}

void set_alpha(SystemConfig& system, double alpha) {
  if (system.routing.name == "smoe") system.routing.parameters["alpha"] = alpha;
  if (system.prefetch.name == "gate-prediction") system.prefetch.parameters["alpha"] = alpha;
}

}  // namespace moelab::smoe
