#include "experiments/fluxmoe/fluxmoe_runs.hpp"

#include <future>

#include "models/input_error.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/request_stream.hpp"

namespace moelab::fluxmoe {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

Scenario scenario_of(const Point& point, const Assumptions& assumptions) {
  std::vector<std::pair<std::string, std::string>> settings = {
      {"systems", "[" + point.system + "]"},
      {"workload.batch", std::to_string(point.batch)},
      {"workload.requests", std::to_string(point.batch)}};
  if (point.gpus > 0) settings.emplace_back("tensor_parallel", std::to_string(point.gpus));
  Scenario s = load_scenario(point.scenario, settings);
  s.workload.output_tokens = point.context - s.workload.prompt_tokens;
  s.systems.front().host_per_layer = Seconds(assumptions.host_per_layer_s);
  if (assumptions.decode_gb_per_s > 0)
    for (auto& [name, codec] : s.device.gpu->codecs)
      codec.rate.value = BytesPerSecond(1e9 * assumptions.decode_gb_per_s);
  if (assumptions.link_gb_per_s > 0) {
    LinkProfile& link = s.device.gpu->own->link;
    link.to_device.value = link.to_host.value =
        Curve::affine(link.to_device.value(0), 1e9 * assumptions.link_gb_per_s);
  }
  return s;
}

/// The budget that leaves a KV cache of so many GiB on all GPUs together.
Bytes budget_for(const Scenario& scenario, const RoutingTrace& trace, double kv_gib) {
  Scenario roomy = scenario;
  roomy.budget = Bytes(1e12);
  roomy.device.gpu->own->total.value = roomy.budget + roomy.device.gpu->own->reserve.value;
  const MemoryPlan m = plan_paged(roomy, roomy.systems.front(), served_requests(roomy, trace)).memory;
  return m.non_expert + m.expert_cache + m.staging + m.activations +
         Bytes(kv_gib * kGiB / scenario.tensor_parallel);
}

RunResult run_point(const Point& point, const Assumptions& assumptions) {
  Scenario s = scenario_of(point, assumptions);
  const RoutingTrace trace = scenario_trace(s);
  if (point.kv_gib > 0) s.budget = budget_for(s, trace, point.kv_gib);
  check_scenario(s, trace);
  return run_system(s, s.systems.front(), trace);
}

double speed(const RunResult& r) {
  return r.metrics.wall_s > 0 ? static_cast<double>(r.metrics.tokens) / r.metrics.wall_s : 0;
}

}  // namespace

const RunResult& Runs::run(const Point& point) {
  auto found = results_.find(point);
  if (found == results_.end()) found = results_.emplace(point, run_point(point, assumptions_)).first;
  return found->second;
}

double Runs::tokens_per_s(const Point& point) {
  return speed(run(point));
}

void Runs::prepare(const std::vector<Point>& points) {
  constexpr std::size_t kAtOnce = 2;
  for (std::size_t i = 0; i < points.size(); i += kAtOnce) {
    std::vector<std::pair<Point, std::future<RunResult>>> running;
    for (std::size_t j = i; j < std::min(i + kAtOnce, points.size()); ++j)
      if (!results_.contains(points[j]))
        running.emplace_back(points[j], std::async(std::launch::async, [point = points[j], this] {
                               return run_point(point, assumptions_);
                             }));
    for (auto& [point, result] : running) results_.emplace(point, result.get());
  }
}

double fit_host_overhead(const Point& vllm, double tokens_per_s) {
  const auto speed_at = [&](double seconds) { return speed(run_point(vllm, {.host_per_layer_s = seconds})); };
  double low = 0, high = 0.1;
  if (speed_at(low) < tokens_per_s)
    throw InputError("", "vLLM decodes fewer tokens a second than the paper's even without host overhead");
  for (int i = 0; i < 12; ++i) {
    const double middle = (low + high) / 2;
    (speed_at(middle) < tokens_per_s ? high : low) = middle;
  }
  return (low + high) / 2;
}

}  // namespace moelab::fluxmoe
