#include "sim/serving/memory_plan.hpp"

#include <algorithm>
#include <cmath>

#include "models/input_error.hpp"
#include "policies/cache/cache.hpp"
#include "policies/guard/guarded_policies.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/kv_plan.hpp"
#include "sim/serving/kv_pressure.hpp"
#include "sim/serving/largest_batch.hpp"
#include "sim/serving/pass.hpp"
#include "sim/serving/shown_sizes.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

/// Experts that the cache holds from the start and never lets go: nothing reads them from the host again.
double experts_for_good(const SystemConfig& system, const ExpertCosts& costs, const RoutingTrace& trace,
                        Bytes cache) {
  const CachePolicyEntry& entry = *find_cache_policy(system.cache.name);
  if (!entry.preloads) return 0;
  const bool per_model = cache_spans_model(system.cache.name, system.cache_domain);
  const std::uint32_t domains = per_model ? 1 : trace.layers();
  CacheShape shape;
  shape.layers = per_model ? trace.layers() : 1;
  shape.objects = shape.layers * trace.experts();
  shape.capacity_bytes = cache.value() / domains;
  shape.bytes = costs.bytes;
  shape.kept_as = system.kept_as;
  const double held = make_cache_policy(entry, shape, system.cache.parameters)->bytes_held();
  return domains * held / shape.bytes[index(shape.kept_as)];
}

/// Of all GPUs that share the model: all experts as they are stored, but those `for_good` in the GPUs'
/// memory.
Bytes experts_in_host(const Scenario& scenario, Bytes expert, double for_good) {
  const double experts =
      double(scenario.model.moe().experts) * double(scenario.model.moe_layers().size()) - for_good;
  return scenario.tensor_parallel * experts * expert;
}

/// What the host's memory has for them.
Bytes room_in_host(const Scenario& scenario, const SystemConfig& system) {
  const double ranks = scenario.tensor_parallel;
  const MemoryProfile& host = scenario.device.memory;
  const Bytes swap = system.batching ? ranks * system.kv.swap_space : Bytes(0);
  return std::max(Bytes(0), host.total.value - host.system_reserve.value - swap);
}

}  // namespace

void plan_host(const Scenario& scenario, const SystemConfig& system, const ExpertCosts& costs,
               double for_good, MemoryPlan& m) {
  const Bytes all = experts_in_host(scenario, costs.stored, for_good);
  const Bytes usable = room_in_host(scenario, system);
  m.experts_on_ssd = all > usable;
  (m.experts_on_ssd ? m.page_cache : m.host_experts) =
      m.experts_on_ssd ? usable / scenario.tensor_parallel : all;
}

bool host_is_too_small(const Scenario& scenario, const SystemConfig& system, const ExpertCosts& costs) {
  return experts_in_host(scenario, costs.stored, 0) > room_in_host(scenario, system);
}

std::uint32_t most_experts_in_use(const Scenario& s) {
  const FeedForward& ff = s.model.moe();
  const double chosen = double(ff.top_k) * s.workload.batch * decode_rows(s.speculation);
  return static_cast<std::uint32_t>(std::min<double>(ff.experts, chosen));
}

std::uint32_t most_staged_experts(const Scenario& s, const SystemConfig& system) {
  return system.fetch_whole_layer ? static_cast<std::uint32_t>(s.model.moe().experts)
                                  : most_experts_in_use(s);
}

Bytes activation_bytes(const Architecture& model, std::uint64_t tokens, std::uint64_t logits, int ranks) {
  constexpr double kBytesPerActivation = 2;  // BF16
  constexpr double kBytesPerLogit = 4;       // sampled in single precision
  double most = 0;                           // values a row
  for (const Layer& layer : model.layers) {
    const FeedForward& ff = layer.feed_forward;
    const double projected = ff.matrices - 1.0;  // up, and mostly gate
    const bool moe = ff.kind == FeedForward::Kind::moe;
    const double routed = moe ? ff.top_k * (projected * ff.width + model.hidden) : 0;
    most = std::max(most, routed + projected * (moe ? ff.shared_width : ff.width));
  }
  const double row = 2.0 * model.hidden + most;
  return Bytes(static_cast<double>(tokens) * row * kBytesPerActivation +
               static_cast<double>(logits) * model.vocab * ranks * kBytesPerLogit);
}

Bytes step_activation_bytes(const Scenario& s, std::uint64_t tokens) {
  const std::uint64_t logits = std::uint64_t{s.workload.batch} * decode_rows(s.speculation);
  const Bytes target = activation_bytes(s.model, tokens, logits, static_cast<int>(s.tensor_parallel));
  if (!s.speculation.any() || !s.speculation.model) return target;
  return std::max(target, activation_bytes(*s.speculation.model, tokens, s.workload.batch));
}

void check_budget(const std::string& scenario, Bytes budget, const DeviceProfile& device) {
  constexpr double kRounding = 1e-12;  // budgets that are reckoned from what is usable, and back
  const Bytes usable = device.usable_memory();
  if (budget <= usable * (1 + kRounding)) return;
  const Bytes total = device.is_discrete() ? device.gpu->own->total.value : device.memory.total.value;
  throw InputError(
      scenario,
      "budget " + to_string(budget) + " is more than " + (device.is_discrete() ? "the GPU of " : "") +
          "device '" + device.name + "' has to give: " + to_string(rounded_down(usable)) + " of " +
          to_string(total) +
          (device.is_discrete() ? ". Driver and runtime" : ". The operating system and other programs") +
          " hold the rest: expected a budget up to " + to_string(rounded_down(usable)));
}

namespace {

/// The KV cache of requests that come and go, in blocks; the longest one has room at least.
void plan_kv_blocks(const Scenario& s, const SystemConfig& system, const ExpertCosts& costs,
                    const RoutingTrace& trace, MemoryPlan& m) {
  plan_kv_block(s, system, m);
  const Bytes wanted = planned_kv_bytes(s, system, m, served_requests(s, trace), &costs);
  m.kv_blocks = whole_blocks(std::max(wanted, m.kv_block), m.kv_block);
  m.kv_cache = static_cast<double>(m.kv_blocks) * m.kv_block;
  m.swap_blocks = swap_blocks(s, system, m);
}

}  // namespace

MemoryPlan plan_memory(const Scenario& scenario, const SystemConfig& system, const ExpertCosts& costs,
                       const RoutingTrace& trace) {
  MemoryPlan m;
  const double full = costs.bytes[index(State::F)];
  m.budget = scenario.budget;
  m.non_expert = non_expert_bytes(scenario.model);
  const LargestBatch largest = largest_batch(scenario, system, trace);
  m.draft = draft_bytes(scenario.speculation);
  m.activations = step_activation_bytes(scenario, largest.rows);
  m.staging = Bytes(most_staged_experts(scenario, system) * full * (system.compressed ? 2 : 1));
  m.prefetch = Bytes(system.prefetch_buffer * full);
  if (system.batching)
    plan_kv_blocks(scenario, system, costs, trace, m);
  else
    m.kv_cache = largest.kv_cache;

  check_budget(scenario.name, scenario.budget, scenario.device);
  const DeviceProfile& device = scenario.device;
  const Bytes needed = m.non_expert + m.draft + m.kv_cache + m.activations + m.staging + m.prefetch;
  const bool fits = needed <= m.budget;
  (fits ? m.expert_cache : m.shortfall) = fits ? m.budget - needed : needed - m.budget;
  if (device.is_discrete())
    plan_host(scenario, system, costs, experts_for_good(system, costs, trace, m.expert_cache), m);
  if (!fits) return m;
  if (system.page_cache && !device.is_discrete())
    m.page_cache = std::max(Bytes(0), device.usable_memory() - m.budget);
  return m;
}

bool has_room(const MemoryPlan& memory, const Scenario& s, const Pass& pass) {
  if (!pass.of_ranks.empty())  // each GPU has the rows of its own rank
    return std::all_of(pass.of_ranks.begin(), pass.of_ranks.end(),
                       [&](const Pass& of_rank) { return has_room(memory, s, of_rank); });
  const Bytes needed = activation_bytes(s.model, pass.tokens, std::uint64_t{pass.produces} + pass.drafts,
                                        static_cast<int>(s.tensor_parallel));
  return needed <= memory.activations;
}

std::string shortfall_text(const std::string& system, const MemoryPlan& m) {
  return "budget " + to_string(m.budget) + " is too small for system '" + system + "': it needs " +
         to_string(m.budget + m.shortfall) + " before it can cache a single expert (non-expert weights " +
         to_string(m.non_expert) + (m.draft > Bytes(0) ? ", weights that draft " + to_string(m.draft) : "") +
         ", KV cache " + to_string(m.kv_cache) + ", activations " + to_string(m.activations) +
         ", experts in use " + to_string(m.staging) + ", prefetch " + to_string(m.prefetch) + ")";
}

}  // namespace moelab
