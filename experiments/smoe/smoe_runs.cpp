#include "experiments/smoe/smoe_runs.hpp"
#include "experiments/claims/study_scenario.hpp"

#include <algorithm>
#include <cmath>
#include <future>
#include <memory>
#include <mutex>

#include "experiments/smoe/smoe_llama.hpp"
#include "models/input_error.hpp"
#include "sim/results/statistics.hpp"
#include "sim/scenario_trace.hpp"

namespace moelab::smoe {
namespace {

std::string scenario_name(const Setting& setting, int batch) {
  return std::string(setting.scenario) + (batch == 1 ? "" : "-batch3");
}

/// The requests that most questions have in common: drawn once.
std::shared_ptr<const RoutingTrace> requests_of(const Scenario& scenario, const std::string& name,
                                                bool other) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const RoutingTrace>> drawn;
  if (other) return std::make_shared<RoutingTrace>(scenario_trace(scenario));
  const std::lock_guard lock(mutex);
  std::shared_ptr<const RoutingTrace>& trace = drawn[name];
  if (!trace) trace = std::make_shared<RoutingTrace>(scenario_trace(scenario));
  return trace;
}

}  // namespace

std::vector<std::string> baselines(const Setting& setting, const Reading& reading) {
  std::vector<std::string> names = {"moe-infinity-host", "deepspeed"};
  if (reading.hybrimoe != Hybrimoe::left_out)
    names.emplace_back(reading.hybrimoe == Hybrimoe::as_paper ? "hybrimoe" : "hybrimoe-code");
  if (setting.llama_cpp_in_paper)
    names.emplace_back(reading.llama_cpp == LlamaCpp::layers ? "llama-cpp-layers" : "llama-cpp");
  return names;
}

Outcome run_one(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace) {
  Outcome o;
  const RunResult result = run_system(scenario, system, trace);
  check_fits(result);
  o.metrics = result.metrics;
  o.ttft_s = mean(o.metrics.ttft_s);
  o.tpot_s = mean(o.metrics.token_gaps_s);
  double all = 0;
  for (const std::uint64_t n : o.metrics.decode_hits) all += static_cast<double>(n);
  o.hit_rate = static_cast<double>(o.metrics.decode_hits[static_cast<std::size_t>(State::F)]) / all;
  o.not_demanded = 1 - static_cast<double>(o.metrics.execution.loaded + o.metrics.execution.on_cpu) / all;
  return o;
}

Outcome llama_cpp_by_layers(const Scenario& scenario, const SystemConfig& llama_cpp,
                            const RoutingTrace& trace) {
  const LayersOnGpu found = llama_cpp_layers(scenario, llama_cpp, trace, Offload::layers);
  Outcome o;
  o.ttft_s = found.ttft_s;
  o.tpot_s = found.tpot_s;
  o.hit_rate = o.not_demanded = found.hit_rate;
  return o;
}

Outcomes run_point(const Setting& setting, int batch, const Variant& variant) {
  Scenario scenario = study_scenario(scenario_name(setting, batch), variant.settings);
  if (variant.change) variant.change(scenario);
  Outcomes outcomes;
  if (scenario.systems.empty()) return outcomes;
  const auto trace = requests_of(scenario, scenario_name(setting, batch), variant.other_requests);
  check_scenario(scenario, *trace);
  for (const SystemConfig& system : scenario.systems) {
    outcomes[system.name] = run_one(scenario, system, *trace);
    if (system.name == "llama-cpp")
      outcomes["llama-cpp-layers"] = llama_cpp_by_layers(scenario, system, *trace);
  }
  return outcomes;
}

Points run_all(const std::function<Variant(const Setting&, int batch)>& variant) {
  std::vector<std::future<Point>> runs;
  for (const int batch : kBatches)
    for (const Setting& setting : kSettings)
      runs.push_back(std::async(std::launch::async, [&setting, batch, v = variant(setting, batch)] {
        return Point{&setting, batch, run_point(setting, batch, v)};
      }));
  Points points;
  for (std::future<Point>& run : runs) points.push_back(run.get());
  return points;
}

Points rerun(const Points& points, const std::vector<std::string>& systems,
             const std::function<void(Scenario&)>& change, bool other_requests) {
  Points changed = run_all([&](const Setting&, int) {
    return Variant{{},
                   [&](Scenario& scenario) {
                     keep_systems(scenario, systems);
                     change(scenario);
                   },
                   other_requests};
  });
  for (std::size_t i = 0; i < changed.size(); ++i) changed[i].outcomes.merge(Outcomes(points[i].outcomes));
  return changed;
}

namespace {

/// The deciding systems on other requests of the same kind.
Points run_seed(std::uint64_t seed) {
  return run_all([&](const Setting&, int) {
    return Variant{{},
                   [seed](Scenario& scenario) {
                     keep_systems(scenario, kDeciding);
                     scenario.seed = seed;
                   },
                   true};
  });
}

}  // namespace

double closed_form_difference(const Points& points) {
  double most = 0;
  for (const Point& p : points) {
    const std::string name = scenario_name(*p.setting, p.batch);
    Scenario scenario = study_scenario(name);
    const LayersOnGpu found = llama_cpp_layers(scenario, system_named(scenario, "llama-cpp"),
                                               *requests_of(scenario, name, false), Offload::experts);
    const Outcome& ran = p.outcomes.at("llama-cpp");
    most = std::max({most, std::abs(found.tpot_s / ran.tpot_s - 1), std::abs(found.ttft_s / ran.ttft_s - 1)});
  }
  return most;
}

const Points& scenario_points() {
  static const Points points = run_all([](const Setting&, int) { return Variant{}; });
  return points;
}

const std::vector<Points>& seed_points() {
  static const std::vector<Points> all = [] {
    std::vector<Points> points = {scenario_points()};
    for (std::uint64_t seed = 2; seed <= kSeeds; ++seed) points.push_back(run_seed(seed));
    return points;
  }();
  return all;
}

std::string fastest(const Outcomes& outcomes, const std::vector<std::string>& systems) {
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

void scale_cpu(Scenario& scenario, double factor) {
  CpuProfile& cpu = scenario.device.cpu;
  cpu.peak->value = FlopsPerSecond(cpu.peak->value.value() * factor);
  cpu.bandwidth->value = BytesPerSecond(cpu.bandwidth->value.value() * factor);
}

}  // namespace moelab::smoe
