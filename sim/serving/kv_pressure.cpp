#include "sim/serving/kv_pressure.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "models/timing.hpp"
#include "policies/guard/guarded_policies.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/dense_times.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/kv_plan.hpp"

namespace moelab {
namespace {

/// Of one expert that is not on the GPU, with everything to itself.
double load_seconds(const Scenario& s, const SystemConfig& system, const ExpertCosts& costs) {
  const bool from_ssd = s.device.is_discrete() && host_is_too_small(s, system, costs);
  return costs.supply_s(State::M, from_ssd);
}

/// Requests in the order of their lengths, the longest first.
std::vector<ServedRequest> longest_first(std::vector<ServedRequest> requests) {
  std::stable_sort(requests.begin(), requests.end(), [](const ServedRequest& a, const ServedRequest& b) {
    return final_tokens(batch_request(a)) > final_tokens(batch_request(b));
  });
  return requests;
}

/// A step of the first `count` requests, each halfway through its answer, with its drafts, their experts
/// there. Experts are drawn evenly and computed one by one.
double step_seconds(const Scenario& s, const SystemConfig& system, const TimingModel& timing,
                    const std::vector<ServedRequest>& requests, std::size_t count, double used_a_layer) {
  DenseTimes dense(s.model, timing);
  Pass pass;
  const std::uint32_t each = decode_rows(s.speculation);
  pass.produces = static_cast<std::uint32_t>(count);
  pass.tokens = pass.produces * each;
  pass.drafts = pass.tokens - pass.produces;
  for (std::size_t i = 0; i < count; ++i)
    pass.runs.push_back({.first = requests[i].prompt_tokens + requests[i].output_tokens / 2.0, .rows = each});
  dense.begin(pass);
  const FeedForward& ff = s.model.moe();
  const double tokens = std::max(1.0, static_cast<double>(pass.tokens) * ff.top_k / used_a_layer);
  const double expert = (timing.expert(s.model, ff, tokens) + timing.dispatch()).value();
  double seconds = dense.head().seconds + system.host_per_pass.value();
  for (std::size_t layer = 0; layer < s.model.layers.size(); ++layer) {
    seconds += dense.dense(layer).seconds + dense.shared(layer).seconds + system.host_per_layer.value();
    if (s.model.layers[layer].feed_forward.kind == FeedForward::Kind::moe)
      seconds += used_a_layer * (expert + system.host_per_expert.value());
  }
  return seconds;
}

void add_costs(const Scenario& s, const SystemConfig& system, const MemoryPlan& m,
               const std::vector<ServedRequest>& requests, const ExpertCosts& costs, PressureTerms& terms) {
  const FeedForward& ff = s.model.moe();
  const TimingModel timing(s.device);
  const auto layers = static_cast<double>(s.model.moe_layers().size());
  terms.room_bytes = (m.budget - m.non_expert - m.draft - m.activations - m.staging - m.prefetch).value();
  terms.expert_bytes = costs.bytes[index(State::F)];
  terms.experts = layers * ff.experts;
  terms.load_s = load_seconds(s, system, costs);
  const std::vector<ServedRequest> longest = longest_first(requests);
  for (std::size_t n = 1; n <= terms.kv_bytes.size(); ++n) {
    const double unused = std::pow(1 - 1.0 * ff.top_k / ff.experts, n * decode_rows(s.speculation));
    const double a_layer = system.fetch_whole_layer ? ff.experts : ff.experts * (1 - unused);
    terms.used.push_back(layers * a_layer);
    terms.step_s.push_back(step_seconds(s, system, timing, longest, n, ff.experts * (1 - unused)));
  }
}

}  // namespace

Bytes planned_kv_bytes(const Scenario& s, const SystemConfig& system, const MemoryPlan& memory,
                       const std::vector<ServedRequest>& requests, const ExpertCosts* costs) {
  const KvShape shape = kv_shape(s, system, memory);
  std::vector<std::uint64_t> blocks;
  for (const ServedRequest& q : requests)
    blocks.push_back(request_blocks(final_tokens(batch_request(q)), shape));
  const std::size_t most = std::min<std::size_t>(s.workload.batch, blocks.size());
  if (most == 0) return Bytes(0);
  std::partial_sort(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(most), blocks.end(),
                    std::greater<>());
  PressureTerms terms;
  double sum = 0;
  for (std::size_t i = 0; i < most; ++i) {
    sum += static_cast<double>(blocks[i]);
    terms.kv_bytes.push_back((sum * memory.kv_block).value());
  }
  const PressurePolicyEntry& policy = *find_pressure_policy(system.kv.pressure.name);
  if (policy.needs_costs && costs != nullptr) add_costs(s, system, memory, requests, *costs, terms);
  const std::size_t at_once = requests_under_pressure(policy, terms, system.kv.pressure.parameters);
  return Bytes(terms.kv_bytes[at_once - 1]);
}

}  // namespace moelab
