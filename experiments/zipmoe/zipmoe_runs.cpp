#include "experiments/zipmoe/zipmoe_runs.hpp"
#include "experiments/claims/study_scenario.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>

#include "models/input_error.hpp"
#include "models/runtime.hpp"
#include "models/timing.hpp"
#include "sim/results/statistics.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/memory_plan.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::zipmoe {
namespace {

constexpr const char* kHostSource =
    "assumed, eager PyTorch as the systems of the SMoE study have it (configs/systems/smoe.yaml)";

std::string gigabytes(double gb) {
  return std::to_string(gb) + " GB";
}

/// A core of Thor's, on which the prototype was measured, over one of Orin's (zipmoe-prototype.yaml).
constexpr double kThorOverOrin = 2.25;

const char* runtime_of(const std::string& system) {
  if (system == "moe-infinity") return "moe-infinity-orin";
  if (system == "deepspeed-zero3") return "deepspeed";
  return system == "accelerate" ? "transformers-orin" : "zipmoe-prototype";
}

void set_software(claims::Software software, Scenario& s) {
  if (software == claims::Software::as_today) return;
  SystemConfig& system = s.systems.front();
  Runtime runtime = load_runtime(runtime_of(system.name));
  if (software == claims::Software::other_end) {
    runtime.launch /= kThorOverOrin;
    runtime.launch_batched /= kThorOverOrin;
    runtime.expert_host /= kThorOverOrin;
  }
  set_runtime(runtime, system);
}

Scenario scenario_of(const Point& p, const Variant& variant) {
  const int batches = p.batches + (p.warm_up ? 1 : 0);
  Settings settings = {{"model", p.model},
                       {"device", p.hardware->device},
                       {"budget", gigabytes(p.budget_gb)},
                       {"seed", std::to_string(p.seed)},
                       {"workload.batch", std::to_string(p.batch)},
                       {"workload.requests", std::to_string(p.batch * batches)},
                       {"workload.prompt_tokens", std::to_string(p.prompt)},
                       {"workload.output_tokens", std::to_string(p.output)},
                       {"systems", "[" + variant.system + "]"}};
  const auto set = [&](const char* path, const std::string& value) { settings.emplace_back(path, value); };
  if (p.independent) {
    set("workload.reuse", "0");
    set("workload.drift", "0");
  }
  // Its busiest quarter of experts takes 0.9 of the tokens.
  if (p.model == kEncoderDecoder) set("workload.skew", "2");
  const double left_gb = p.hardware->memory_gb - p.budget_gb;
  if (p.storage != Storage::free)
    set("overrides.device.memory.system_reserve.value",
        gigabytes(p.storage == Storage::occupied ? left_gb : std::min(left_gb, 3.0 + 32)));
  if (p.host_ms > 0 && p.software == claims::Software::as_today) {
    set("overrides.system.host_overhead.per_layer", std::to_string(p.host_ms) + " ms");
    set("overrides.system.host_overhead.source", kHostSource);
  }
  settings.insert(settings.end(), variant.settings.begin(), variant.settings.end());
  Scenario s = study_scenario("zipmoe-orin", settings);
  set_software(p.software, s);
  return s;
}

/// Takes a share of the expert cache out of the budget; what else fills the page cache is left alone.
void take_idle(Scenario& s, const RoutingTrace& trace, double share) {
  if (share == 0) return;
  const SystemConfig& system = s.systems.front();
  const ExpertCosts costs = expert_costs(s.model, TimingModel(s.device), system);
  const Bytes idle = share * plan_memory(s, system, costs, trace).expert_cache;
  s.budget -= idle;
  s.device.memory.system_reserve.value += idle;
}

/// Without the first `skip` values.
double mean_after(const std::vector<double>& values, std::size_t skip) {
  return mean(std::vector<double>(values.begin() + static_cast<std::ptrdiff_t>(skip), values.end()));
}

Outcome outcome_of(const Point& p, const RunResult& r) {
  const Metrics& m = r.metrics;
  const auto batch = static_cast<std::size_t>(p.batch);
  const std::size_t skip = p.warm_up ? batch : 0;
  Outcome out;
  out.ttft_s = mean_after(m.ttft_s, skip);
  out.tpot_s = mean_after(m.token_gaps_s, skip * static_cast<std::size_t>(p.output - 1));
  out.end_to_end_s = mean_after(m.end_to_end_s, skip);
  std::vector<double> rates;
  for (std::size_t first = skip; first < m.end_to_end_s.size(); first += batch) {
    const auto begin = m.end_to_end_s.begin() + static_cast<std::ptrdiff_t>(first);
    rates.push_back(p.batch * p.output / *std::max_element(begin, begin + p.batch));
  }
  out.tokens_per_s = mean(rates);
  double decode_s = 0, io_s = 0, found = 0;
  for (std::size_t cause = 0; cause < kCauses; ++cause) decode_s += m.decode_stall_s[cause];
  for (const Cause cause : {Cause::ssd_read, Cause::page_cache_read, Cause::prefetch})
    io_s += m.decode_stall_s[static_cast<std::size_t>(cause)];
  out.io_stall = io_s / decode_s;
  for (const std::uint64_t hits : m.decode_hits) found += static_cast<double>(hits);
  if (found > 0) out.found_full = static_cast<double>(m.decode_hits[index(State::F)]) / found;
  std::copy_n(r.plan.ratios.begin(), out.share.size(), out.share.begin());
  return out;
}

/// What of a point a system's run depends on: DeepSpeed's window has one size, and it and MoE-Infinity read
/// past the page cache.
Point relevant(Point p, const std::string& system) {
  if (system == "deepspeed-zero3") p.budget_gb = p.hardware->throughput_budget_gb;
  if (system == "deepspeed-zero3" || system == "moe-infinity") p.storage = Storage::free;
  return p;
}

std::string key_of(const Point& p, const Variant& v) {
  std::string key = p.model + ' ' + p.hardware->device + ' ' + storage_name(p.storage) + ' ' + v.system;
  for (const double x :
       {p.budget_gb, p.host_ms, v.idle, double(p.batch), double(p.batches), double(p.prompt),
        double(p.output), double(p.warm_up), double(p.seed), double(p.independent), double(p.software)})
    key += ' ' + std::to_string(x);
  for (const auto& [path, value] : v.settings) key += ' ' + path + '=' + value;
  return key;
}

std::optional<Outcome> run_anew(const Point& point, const Variant& variant) {
  Scenario scenario = scenario_of(point, variant);
  const RoutingTrace trace = scenario_trace(scenario);
  take_idle(scenario, trace, variant.idle);
  const RunResult result = run_system(scenario, scenario.systems.front(), trace);
  if (result.memory.shortfall > Bytes(0)) return std::nullopt;
  return outcome_of(point, result);
}

}  // namespace

const char* storage_name(Storage storage) {
  switch (storage) {
    case Storage::free:
      return "free";
    case Storage::taken_32gb:
      return "32 GB taken";
    case Storage::occupied:
      return "occupied";
  }
  return "";
}

std::optional<Outcome> run(const Point& point, const Variant& variant) {
  static std::map<std::string, std::optional<Outcome>> known;
  const Point p = relevant(point, variant.system);
  const auto [it, fresh] = known.try_emplace(key_of(p, variant));
  if (fresh) it->second = run_anew(p, variant);
  return it->second;
}

RankInclusion statistics(const Point& point) {
  const Scenario scenario = scenario_of(point, kPlanned);
  return planning_statistics(scenario, scenario_trace(scenario));
}

Variant basic(const char* system, double share) {
  return {system, {{"overrides.system.shards", "3"}}, 1 - share};
}

std::string number(std::optional<double> x, int digits) {
  if (!x) return "-";
  std::array<char, 40> b{};
  std::snprintf(b.data(), b.size(), "%.*f", digits, *x);
  return b.data();
}
std::string percent(double share, int digits) {
  return number(100 * share, digits) + " %";
}

void Extremes::add(double x) {
  low = empty ? x : std::min(low, x);
  high = empty ? x : std::max(high, x);
  empty = false;
}
std::string percents(const Extremes& r) {
  return r.empty ? "-" : percent(r.low) + " to " + percent(r.high);
}
std::string factors(const Extremes& r) {
  return r.empty ? "-" : number(r.low) + "x to " + number(r.high) + "x";
}

}  // namespace moelab::zipmoe
