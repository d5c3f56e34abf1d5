#include "experiments/fluxmoe/fluxmoe_runs.hpp"
#include "experiments/claims/study_scenario.hpp"

#include <algorithm>
#include <cmath>
#include <future>
#include <mutex>
#include <tuple>
#include <utility>

#include "models/input_error.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/request_stream.hpp"
#include "traces/portable_math.hpp"
#include "traces/random.hpp"

namespace moelab::fluxmoe {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

/// Contexts even from the shortest that the paper runs to `longest`, prompts exponential with ShareGPT's mean
/// (vLLM, Kwon et al. 2023, figure 11: 161.31 tokens); that the distributions are these is assumed.
std::vector<RequestRecord> spread_requests(std::uint32_t number, std::uint32_t longest, std::uint64_t seed) {
  constexpr double kShortest = 1024, kMeanPrompt = 161.31;
  Random random(seed);
  std::vector<RequestRecord> requests;
  for (std::uint32_t i = 0; i < number; ++i) {
    const double context = kShortest + (longest - kShortest) * random.uniform();
    const double prompt = std::clamp(-kMeanPrompt * portable_log(1 - random.uniform()), 4.0, context / 2);
    const auto tokens = static_cast<std::uint32_t>(prompt);
    requests.push_back({0, tokens, static_cast<std::uint32_t>(context) - tokens});
  }
  return requests;
}

bool is_v1(Serving serving) {
  return serving == Serving::engine_v1 || serving == Serving::long_prompts_v1;
}

bool prompts_run_here(Serving serving) {
  return serving == Serving::prompts_here || serving == Serving::long_prompts ||
         serving == Serving::long_prompts_v1 || serving == Serving::spread;
}

void set_serving(const Point& point, Scenario& s) {
  // Attention's pages are as large as those of a linear layer's state: 274,432 bytes over 1,024 a token, up
  // to whole 16 (vLLM, platforms/interface.py: "Setting attention block size to ... tokens").
  constexpr std::uint32_t kHybridBlock = 272;
  const Serving serving = point.serving;
  SystemConfig& system = s.systems.front();
  PolicyChoice& batching = system.batching->policy;
  WorkloadConfig& w = s.workload;
  if (serving == Serving::hybrid_blocks) system.kv.block_tokens = kHybridBlock;
  if (is_v1(serving)) {
    batching.parameters["swap"] = 0;
    batching.parameters["chunked"] = 1;
    batching.parameters["watermark"] = 0;
  }
  w.prefilled = !prompts_run_here(serving);
  if (serving == Serving::long_prompts || serving == Serving::long_prompts_v1)
    w.prompt_tokens = point.context / 2;
  w.output_tokens = point.context - w.prompt_tokens;
  if (serving == Serving::spread) w.log = spread_requests(point.batch, point.context, point.seed);
}

/// GPUs with room for everything.
void make_roomy(Scenario& s) {
  s.budget = Bytes(1e12);
  s.device.gpu->own->total.value = s.budget + s.device.gpu->own->reserve.value;
}

/// The budget that leaves a KV cache of so many GiB on all GPUs together.
Bytes budget_for(const Scenario& scenario, const RoutingTrace& trace, double kv_gib) {
  Scenario roomy = scenario;
  make_roomy(roomy);
  const MemoryPlan m = plan_paged(roomy, roomy.systems.front(), served_requests(roomy, trace)).memory;
  return m.non_expert + m.expert_cache + m.staging + m.activations +
         Bytes(kv_gib * kGiB / scenario.tensor_parallel);
}

/// Routing is drawn once for all points of a model and seed: a pool of rows that all of them go round in
/// (sim/scenario_trace.cpp), as large for all, since each runs more rows than it has.
const RoutingTrace& trace_of(const Point& point, const Scenario& scenario) {
  static std::mutex mutex;
  static std::map<std::tuple<std::string, std::uint32_t, std::uint64_t>, RoutingTrace> known;
  const std::lock_guard lock(mutex);
  const auto key = std::tuple(point.scenario, point.gpus, point.seed);
  auto found = known.find(key);
  if (found == known.end()) found = known.emplace(key, scenario_trace(scenario)).first;
  return found->second;
}

RunResult run_point(const Point& point, const Assumptions& assumptions) {
  Scenario s = scenario_of(point, assumptions);
  const RoutingTrace& trace = trace_of(point, s);
  if (point.kv_gib > 0) s.budget = budget_for(s, trace, point.kv_gib);
  check_scenario(s, trace);
  return run_system(s, s.systems.front(), trace);
}

}  // namespace

Point qwen(const std::string& system, std::uint32_t batch, std::uint32_t context) {
  return {.scenario = "fluxmoe-qwen3-next", .system = system, .batch = batch, .context = context};
}
Point mixtral(const std::string& system, std::uint32_t context) {
  return {.scenario = "fluxmoe-mixtral",
          .system = system,
          .context = context,
          .requests = system == "vllm-o" ? 8U : 0U};
}
Point with_kv(double gib, std::uint32_t context) {
  return {.scenario = "fluxmoe-mixtral",
          .system = "vllm",
          .batch = 128,
          .context = context,
          .gpus = 4,
          .kv_gib = gib};
}

Scenario scenario_of(const Point& point, const Assumptions& assumptions) {
  std::vector<std::pair<std::string, std::string>> settings = {
      {"systems", "[" + point.system + "]"},
      {"seed", std::to_string(point.seed)},
      {"workload.batch", std::to_string(point.batch)},
      {"workload.requests", std::to_string(point.requests > 0 ? point.requests : point.batch)}};
  if (point.gpus > 0) settings.emplace_back("tensor_parallel", std::to_string(point.gpus));
  Scenario s = study_scenario(point.scenario, settings);
  if (point.budget_gb > 0) s.budget = Bytes(1e9 * point.budget_gb);
  if (point.roomy) make_roomy(s);
  set_serving(point, s);
  if (PolicyChoice& residency = s.systems.front().paging->residency; residency.name == "budget-aware")
    residency.parameters["rebalance"] = point.rebalance ? 1 : 0;
  s.systems.front().host_per_layer = Seconds(assumptions.host_per_layer_s);
  if (!assumptions.runtime.empty()) set_runtime(load_runtime(assumptions.runtime), s.systems.front());
  if (assumptions.decode_gb_per_s > 0)
    for (auto& [name, codec] : s.device.gpu->codecs)
      codec.rate.value = BytesPerSecond(1e9 * assumptions.decode_gb_per_s);
  if (const double rate = std::max(assumptions.link_gb_per_s, assumptions.swap_gb_per_s); rate > 0) {
    LinkProfile& link = s.device.gpu->own->link;
    link.to_device.value = link.to_host.value = Curve::affine(link.to_device.value(0), 1e9 * rate);
  }
  return s;
}

const RunResult& Runs::run(const Point& point) {
  auto found = results_.find(point);
  if (found == results_.end()) found = results_.emplace(point, run_point(point, assumptions_)).first;
  return found->second;
}

double Runs::tokens_per_s(const Point& point) {
  const Metrics& m = run(point).metrics;
  return m.wall_s > 0 ? static_cast<double>(m.tokens) / m.wall_s : 0;
}

void Runs::prepare(const std::vector<Point>& points) {
  constexpr std::size_t kAtOnce = 2;
  std::vector<Point> missing;
  for (const Point& point : points)
    if (!results_.contains(point) && std::find(missing.begin(), missing.end(), point) == missing.end())
      missing.push_back(point);
  for (std::size_t i = 0; i < missing.size(); i += kAtOnce) {
    std::vector<std::pair<Point, std::future<RunResult>>> running;
    for (std::size_t j = i; j < std::min(i + kAtOnce, missing.size()); ++j)
      running.emplace_back(missing[j],
                           std::async(std::launch::async, [point = missing[j], assumptions = assumptions_] {
                             return run_point(point, assumptions);
                           }));
    for (auto& [point, result] : running) results_.emplace(point, result.get());
  }
}

Runs& runs_under(const Assumptions& assumptions) {
  static std::map<Assumptions, Runs> all;
  return all.try_emplace(assumptions, assumptions).first->second;
}

double fitted_host_overhead(double budget_gb) {
  static std::map<double, double> known;
  if (const auto found = known.find(budget_gb); found != known.end()) return found->second;
  Point vllm = qwen("vllm", 32);
  vllm.budget_gb = budget_gb;
  const auto seconds_a_token = [&](double host) {
    return 1 / runs_under({.host_per_layer_s = host}).tokens_per_s(vllm);
  };
  constexpr double kPaper = 1 / (kPaperVllmO * kPaperVllmGain), kTried = 1e-3;
  const double without = seconds_a_token(0), with = seconds_a_token(kTried);
  if (without > kPaper)
    throw InputError("", "vLLM decodes fewer tokens a second than the paper's even without host overhead");
  return known[budget_gb] = kTried * (kPaper - without) / (with - without);
}

}  // namespace moelab::fluxmoe
