// Orders, where the time goes, and parts exchanged with HybriMoE.
#include <array>
#include <cstdio>

#include "experiments/claims/study_scenario.hpp"
#include "experiments/smoe/smoe_orders.hpp"
#include "experiments/smoe/smoe_tables.hpp"

namespace moelab::smoe {
namespace {

std::string batch_title(const Point& p) {
  return std::string(p.setting->id) + " batch " + std::to_string(p.batch);
}

/// A share of the time of decode steps.
std::string time_share(const Metrics& m, std::initializer_list<Cause> causes) {
  double all = 0, part = 0;
  for (const double s : m.decode_stall_s) all += s;
  for (const Cause cause : causes) part += m.decode_stall_s[static_cast<std::size_t>(cause)];
  return percent(part / all, 0);
}

void tpot_table(const Points& points) {
  std::printf("\n## Times\n\n| TPOT in ms, GPU expert hit rate |");
  for (const Point& p : points) std::printf(" %s |", batch_title(p).c_str());
  std::printf("\n|---|---|---|---|---|---|---|\n");
  std::vector<std::string> names = kSteps;
  names.insert(names.end(), kRivals.begin(), kRivals.end());
  for (const std::string& name : names) {
    std::printf("| %s |", name.c_str());
    for (const Point& p : points)
      std::printf(" %.1f, %s |", 1e3 * p.outcomes.at(name).tpot_s,
                  percent(p.outcomes.at(name).hit_rate, 0).c_str());
    std::printf("\n");
  }
}

/// Experts of a layer that have to be loaded or computed by the CPU once its gate has spoken, at batch 1.
double missing_a_layer(const Metrics& m, std::size_t layers) {
  return static_cast<double>(m.execution.loaded + m.execution.on_cpu) /
         static_cast<double>(m.token_gaps_s.size() * layers);
}

void stall_table(const Points& points) {
  std::printf(
      "\n| decoding, batch 1 | loading, top-score or not classed | loading, low-score | waiting for a "
      "prefetch | CPU experts and activations | GPU | prediction | host overhead | missing a layer |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  for (const Setting& s : kSettings) {
    const std::size_t layers = study_scenario(s.scenario).model.moe_layers().size();
    for (const char* name :
         {"smoe-base", "smoe-pre", "smoe", "hybrimoe", "hybrimoe-code", "moe-infinity-host", "llama-cpp"}) {
      const Metrics& m = at(points, s.id, 1).outcomes.at(name).metrics;
      std::printf("| %s %s | %s | %s | %s | %s | %s | %s | %s | %.2f |\n", s.id, name,
                  time_share(m, {Cause::expert_load}).c_str(), time_share(m, {Cause::low_score_load}).c_str(),
                  time_share(m, {Cause::prefetch}).c_str(),
                  time_share(m, {Cause::cpu_experts, Cause::activations}).c_str(),
                  time_share(m, {Cause::expert_compute, Cause::dense_compute}).c_str(),
                  time_share(m, {Cause::prediction}).c_str(), time_share(m, {Cause::host}).c_str(),
                  missing_a_layer(m, layers));
    }
  }
}

/// SMoE and HybriMoE, and each with a part of the other; none has a framework's cost a layer, so that only
/// the parts differ.
constexpr std::array<const char*, 6> kExchanged = {
    "smoe",     "smoe, split of hybrimoe", "smoe, prefetch and split of hybrimoe",
    "hybrimoe", "hybrimoe, split of smoe", "hybrimoe, router of smoe"};

void exchange_parts(Scenario& scenario) {
  keep_systems(scenario, {"smoe", "hybrimoe"});
  SystemConfig smoe = system_named(scenario, "smoe"), hybrimoe = system_named(scenario, "hybrimoe");
  for (SystemConfig* system : {&smoe, &hybrimoe}) system->host_per_layer = system->host_per_pass = Seconds(0);
  std::array<SystemConfig, 6> systems = {smoe, smoe, smoe, hybrimoe, hybrimoe, hybrimoe};
  systems[1].execution = systems[2].execution = hybrimoe.execution;
  systems[2].prefetch = hybrimoe.prefetch;
  systems[4].execution = smoe.execution;
  systems[5].routing = smoe.routing;
  scenario.systems.clear();
  for (std::size_t i = 0; i < systems.size(); ++i) {
    systems[i].name = kExchanged[i];
    scenario.systems.push_back(systems[i]);
  }
}

}  // namespace

void print_orders_table(const Points& points) {
  std::printf("\n## Orders\n\n| order that must come out | does it | figures |\n|---|---|---|\n");
  for (const Order& order : orders(points))
    std::printf("| %s | %s (%d of %d) | %s |\n", order.claim.c_str(),
                order.holds == order.of ? "yes" : (order.holds == 0 ? "no" : "in part"), order.holds,
                order.of, order.figures.c_str());
  std::fflush(stdout);
}

void print_time_tables(const Points& points) {
  tpot_table(points);
  stall_table(points);
}

void print_exchange_table() {
  const Points points = run_all([](const Setting&, int) { return Variant{{}, exchange_parts}; });
  std::printf("\n## Parts exchanged\n\n| TPOT in ms without host overhead |");
  for (const Point& p : points) std::printf(" %s |", batch_title(p).c_str());
  std::printf("\n|---|---|---|---|---|---|---|\n");
  for (const char* name : kExchanged) {
    std::printf("| %s |", name);
    for (const Point& p : points) std::printf(" %.1f |", 1e3 * p.outcomes.at(name).tpot_s);
    std::printf("\n");
  }
  std::fflush(stdout);
}

}  // namespace moelab::smoe
