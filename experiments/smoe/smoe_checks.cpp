// Orders, where the time goes, parts exchanged with HybriMoE, and what nobody states.
#include <array>
#include <cstdio>

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

void tpot_table(const std::vector<Point>& points) {
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

void stall_table(const std::vector<Point>& points) {
  std::printf(
      "\n| decoding, batch 1 | loading, top-score or not classed | loading, low-score | waiting for a "
      "prefetch | CPU experts and activations | GPU | prediction | host overhead | missing a layer |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  for (const Setting& s : kSettings) {
    const std::size_t layers = load_scenario(s.scenario).model.moe_layers().size();
    for (const char* name : {"smoe-base", "smoe-pre", "smoe", "hybrimoe", "moe-infinity-host", "llama-cpp"}) {
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

/// What an assumption makes of the orders, in one row.
void sensitivity_row(const std::string& title, const std::vector<Point>& points) {
  std::printf("| %s |", title.c_str());
  for (const Order& order : orders(points)) std::printf(" %d of %d |", order.holds, order.of);
  std::printf(" %s, %s |", percent(mean_gain(points, 1), 0).c_str(),
              percent(mean_gain(points, 3), 0).c_str());
  for (std::size_t step = 1; step < kSteps.size(); ++step)
    std::printf("%s%s", step == 1 ? " " : " / ", percent(mean_change(points, step, tpot_change), 0).c_str());
  std::printf(" |\n");
  std::fflush(stdout);
}

/// Systems that can decide an order; DeepSpeed loads whole layers and is last by far everywhere.
const std::vector<std::string> kDeciding = {"smoe-base", "smoe-ce",           "smoe-cr",   "smoe-pre",
                                            "smoe",      "moe-infinity-host", "llama-cpp", "hybrimoe"};

Variant with(std::function<void(Scenario&)> change) {
  return {{}, [change = std::move(change)](Scenario& s) {
            keep_systems(s, kDeciding);
            change(s);
          }};
}

void host_overhead_rows() {
  for (const double ms : {0.0, 0.2, 0.5}) {
    const auto change = [ms](Scenario& s) {
      for (SystemConfig& system : s.systems) system.host_per_layer = Seconds(ms * 1e-3);
    };
    std::array<char, 64> title{};
    std::snprintf(title.data(), title.size(), "host overhead %.1f ms a layer, all systems", ms);
    sensitivity_row(title.data(), run_all([&](const Setting&, int) { return with(change); }));
  }
}

void cpu_speed_rows() {
  for (const double factor : {0.5, 2.0}) {
    const auto change = [factor](Scenario& s) {
      CpuProfile& cpu = s.device.cpu;
      cpu.peak->value = FlopsPerSecond(cpu.peak->value.value() * factor);
      cpu.bandwidth->value = BytesPerSecond(cpu.bandwidth->value.value() * factor);
    };
    std::array<char, 64> title{};
    std::snprintf(title.data(), title.size(), "CPU experts x%.1f as fast", factor);
    sensitivity_row(title.data(), run_all([&](const Setting&, int) { return with(change); }));
  }
}

/// The simple generator in place of the scenarios' workload: requests and lengths stay.
Variant generated(const Setting& setting, int batch, const std::string& reuse) {
  const WorkloadConfig w =
      load_scenario(std::string(setting.scenario) + (batch == 1 ? "" : "-batch3")).workload;
  Variant v = with([](Scenario&) {});
  v.settings = {{"workload",
                 "{batch: " + std::to_string(w.batch) + ", requests: " + std::to_string(w.requests) +
                     ", prompt_tokens: " + std::to_string(w.prompt_tokens) +
                     ", output_tokens: " + std::to_string(w.output_tokens) +
                     ", gate_decay: " + std::to_string(setting.generator_decay) + ", reuse: " + reuse + "}"}};
  return v;
}

void locality_rows() {
  for (const char* reuse : {"0", "0.2", "0.44"})
    sensitivity_row(std::string("routing by the simple generator, reuse ") + reuse,
                    run_all([&](const Setting& s, int batch) { return generated(s, batch, reuse); }));
}

void alpha_rows() {
  for (const double shift : {-0.1, 0.1}) {
    const auto change = [shift](Scenario& s) {
      for (SystemConfig& system : s.systems)
        if (system.routing.name == "smoe") set_alpha(system, system.routing.parameters.at("alpha") + shift);
    };
    sensitivity_row(shift < 0 ? "alpha 0.1 lower" : "alpha 0.1 higher",
                    run_all([&](const Setting&, int) { return with(change); }));
  }
}

}  // namespace

void print_orders_table(const std::vector<Point>& points) {
  std::printf("\n## Orders\n\n| order that must come out | does it | figures |\n|---|---|---|\n");
  for (const Order& order : orders(points))
    std::printf("| %s | %s (%d of %d) | %s |\n", order.claim.c_str(),
                order.holds == order.of ? "yes" : (order.holds == 0 ? "no" : "in part"), order.holds,
                order.of, order.figures.c_str());
}

void print_time_tables(const std::vector<Point>& points) {
  tpot_table(points);
  stall_table(points);
}

void print_exchange_table() {
  const std::vector<Point> points = run_all([](const Setting&, int) { return Variant{{}, exchange_parts}; });
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

void print_sensitivity_table(const std::vector<Point>& points) {
  std::printf(
      "\n## What nobody states\n\n| assumption | SMoE ahead | steps lower TPOT | hits by step | batch 3 "
      "gains more | S3 gains more | "
      "row S1, batch 1, 3 | row S7 |\n|---|---|---|---|---|---|---|---|\n");
  sensitivity_row("as in the scenarios", points);
  host_overhead_rows();
  cpu_speed_rows();
  locality_rows();
  alpha_rows();
}

}  // namespace moelab::smoe
