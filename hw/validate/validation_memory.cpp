#include "hw/validate/validation_memory.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "hw/validate/validation_store.hpp"
#include "models/timing.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/kv_plan.hpp"
#include "sim/serving/memory_plan.hpp"
#include "sim/serving/paged_plan.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

/// Rows of the longest prompt, or, where requests may give way, of the longest request run again.
std::uint64_t most_rows_of_request(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace) {
  std::uint64_t most = 1;
  if (come_in_turn(s, system)) {
    for (const TraceRequest& q : trace.requests()) most = std::max(most, q.decode_begin - q.begin);
    return most;
  }
  for (const ServedRequest& q : served_requests(s, trace))
    most = std::max<std::uint64_t>(most, system.batching ? final_tokens(batch_request(q)) : q.prompt_tokens);
  return most;
}

bool swaps(const SystemConfig& system) {
  const PolicyParameters& parameters = system.batching->policy.parameters;
  const auto swap = parameters.find("swap");
  return swap != parameters.end() && swap->second != 0;
}

/// Experts of a layer that a step can use.
double most_experts_of_step(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace) {
  const double all = static_cast<double>(most_rows_of_request(s, system, trace)) * s.workload.batch;
  const double rows = system.batching ? std::min<double>(all, system.batching->max_tokens) : all;
  return std::max<double>(most_experts_in_use(s),
                          std::min<double>(s.model.moe().experts, s.model.moe().top_k * rows));
}

}  // namespace

Bytes experts_beyond_plan(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace) {
  return (most_experts_of_step(s, system, trace) - most_experts_in_use(s)) * 2 * expert_bytes(s.model);
}

std::uint64_t memory_limit(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace,
                           const MemoryPlan& plan, const ValidationStore& store) {
  const FeedForward& ff = s.model.moe();
  const double elements = expert_tensor_weights(s.model, ff), tensors = ff.matrices;
  const double beyond_staging = s.device.is_discrete()
                                    ? 0  // nothing is joined
                                    : std::max(0.0, tensors * store.ratio() + 1 - tensors) * elements;
  const Bytes planned = plan.expert_cache + plan.staging + plan.prefetch;
  const Bytes more =
      experts_beyond_plan(s, system, trace) + Bytes(most_experts_of_step(s, system, trace) * beyond_staging);
  return static_cast<std::uint64_t>((planned + more).value()) + store.surplus();
}

std::uint64_t window_memory_limit(const MemoryPlan& plan, const ValidationStore& store) {
  return static_cast<std::uint64_t>(std::ceil((plan.expert_cache + plan.staging).value())) + store.surplus();
}

MemoryPlan plan_of_system(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace) {
  if (system.paging) return plan_paged(s, system, served_requests(s, trace)).memory;
  return plan_memory(s, system, expert_costs(s.model, TimingModel(s.device), system), trace);
}

KvSwapRoom swap_room(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace,
                     const MemoryPlan& plan) {
  if (plan.swap_blocks == 0 || !swaps(system)) return {};
  const KvShape shape = kv_shape(s, system, plan);
  std::vector<std::uint64_t> blocks;
  for (const ServedRequest& q : served_requests(s, trace))
    blocks.push_back(request_blocks(final_tokens(batch_request(q)), shape));
  std::sort(blocks.begin(), blocks.end(), std::greater<>());
  blocks.resize(std::min<std::size_t>(blocks.size(), s.workload.batch));
  std::uint64_t all = 0;
  for (const std::uint64_t of_request : blocks) all += of_request;
  if (all <= plan.kv_blocks) return {};
  const auto bytes = [&](std::uint64_t n) {
    return static_cast<std::uint64_t>(std::ceil(static_cast<double>(n) * plan.kv_block.value()));
  };
  return {bytes(plan.kv_blocks), bytes(std::min(plan.swap_blocks, all))};
}

}  // namespace moelab
