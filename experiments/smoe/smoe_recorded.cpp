// The systems on recorded routing: the default trace, on the small model that it is of, and on a model of the
// same layers and experts whose matrices are those of DeepSeek-MoE-16B.
#include <array>
#include <cstdio>

#include "experiments/claims/study_scenario.hpp"
#include "experiments/smoe/smoe_orders.hpp"
#include "experiments/smoe/smoe_tables.hpp"
#include "models/timing.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/memory_plan.hpp"

namespace moelab::smoe {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

struct Recorded {
  const char* title;
  Settings sizes;
};

const std::array<Recorded, 2>& models() {
  static const std::array<Recorded, 2> both = {
      {{"experts of its own model", {}},
       {"experts as large as those of S1",
        {{"overrides.model.hidden", "2048"},
         {"overrides.model.moe.width", "1408"},
         {"overrides.model.moe.shared_width", "2816"},
         {"overrides.model.attention", "{heads: 16, kv_heads: 16, head_dim: 128, bias: true}"}}}}};
  return both;
}

MemoryPlan memory_of(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace) {
  return plan_memory(scenario, system, expert_costs(scenario.model, TimingModel(scenario.device), system),
                     trace);
}

double cache_share(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace) {
  return memory_of(scenario, system, trace).expert_cache.value() / (routed_bytes(scenario.model).value());
}

/// The budget with which a system's cache holds this share of all experts.
Bytes budget_for(Scenario scenario, const SystemConfig& system, const RoutingTrace& trace, double share) {
  scenario.budget = scenario.device.gpu->own->total.value - scenario.device.gpu->own->reserve.value;
  const MemoryPlan all = memory_of(scenario, system, trace);
  const double experts = routed_bytes(scenario.model).value();
  return all.budget - all.expert_cache + Bytes(share * experts);
}

Outcomes run_recorded(const Recorded& recorded) {
  Scenario s1 = study_scenario(kSettings[0].scenario);
  const RoutingTrace s1_trace = scenario_trace(s1);
  Settings settings = recorded.sizes;
  settings.emplace_back("device", s1.device.name);
  settings.emplace_back("systems", "[smoe]");
  Scenario scenario = study_scenario("recorded-default", settings);
  const RoutingTrace trace = scenario_trace(scenario);
  scenario.systems = s1.systems;
  Outcomes outcomes;
  for (const SystemConfig& system : scenario.systems) {
    scenario.budget = budget_for(scenario, system, trace, cache_share(s1, system, s1_trace));
    outcomes[system.name] = run_one(scenario, system, trace);
    if (system.name == "llama-cpp")
      outcomes["llama-cpp-layers"] = llama_cpp_by_layers(scenario, system, trace);
  }
  const SystemConfig smoe = system_named(scenario, "smoe");
  scenario.budget = budget_for(scenario, smoe, trace, cache_share(s1, smoe, s1_trace));
  SystemConfig ahead = smoe;  // what the recorded model's own gate, ahead of time, makes of prefetching
  ahead.prefetch.parameters["recorded"] = 1;
  outcomes["smoe, predictions as recorded"] = run_one(scenario, ahead, trace);
  SystemConfig split = smoe;
  split.execution = system_named(scenario, "hybrimoe").execution;
  outcomes["smoe, split of hybrimoe"] = run_one(scenario, split, trace);
  return outcomes;
}

void print_orders(const char* title, const Point& point) {
  std::printf("| %s: SMoE has a lower TPOT than the best of the paper's baselines | %s | %s |\n", title,
              gain(point) > 0 ? "yes" : "no", percent(gain(point)).c_str());
  for (std::size_t step = 1; step < kSteps.size(); ++step)
    std::printf("| %s: %s lowers TPOT | %s | %s; GPU expert hit rate %s |\n", title, kSteps[step].c_str(),
                tpot_change(point, step) < 0 ? "yes" : "no", percent(tpot_change(point, step)).c_str(),
                percent(hit_change(point, step)).c_str());
}

}  // namespace

void print_recorded_tables() {
  Points points;
  for (const Recorded& recorded : models()) points.push_back({kSettings.data(), 1, run_recorded(recorded)});
  std::printf("\n## Recorded routing\n\n| batch 1: TPOT in ms, GPU expert hit rate |");
  for (const Recorded& recorded : models()) std::printf(" %s |", recorded.title);
  std::printf("\n|---|---|---|\n");
  std::vector<std::string> names = kSteps;
  names.insert(names.end(), {"smoe, predictions as recorded", "smoe, split of hybrimoe"});
  names.insert(names.end(), kRivals.begin(), kRivals.end());
  for (const std::string& name : names) {
    std::printf("| %s |", name.c_str());
    for (const Point& p : points)
      std::printf(" %.2f, %s |", 1e3 * p.outcomes.at(name).tpot_s,
                  percent(p.outcomes.at(name).hit_rate, 0).c_str());
    std::printf("\n");
  }
  const PrefetchCounts& c = points[1].outcomes.at("smoe, predictions as recorded").metrics.prefetch;
  std::printf("\n| order on recorded routing | does it come out | figures |\n|---|---|---|\n");
  for (std::size_t i = 0; i < points.size(); ++i) print_orders(models()[i].title, points[i]);
  std::printf(
      "| S9 on recorded predictions: fetched experts that are top-score, active | (82 %%, 95 %%) | %s, "
      "%s |\n",
      percent(static_cast<double>(c.used_top_score) / static_cast<double>(c.fetched)).c_str(),
      percent(static_cast<double>(c.used + c.late) / static_cast<double>(c.fetched)).c_str());
}

}  // namespace moelab::smoe
