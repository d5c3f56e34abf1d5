#include "sim/serving/memory_plan.hpp"

#include <algorithm>

namespace moelab {
namespace {

/// Tokens that the largest static batch holds in its KV cache when its requests are done.
double largest_batch_tokens(const RoutingTrace& trace, std::size_t batch) {
  const auto requests = trace.requests();
  double largest = 0;
  for (std::size_t first = 0; first < requests.size(); first += batch) {
    double tokens = 0;
    for (std::size_t i = first; i < std::min(first + batch, requests.size()); ++i)
      tokens += static_cast<double>(requests[i].end - requests[i].begin + 1);
    largest = std::max(largest, tokens);
  }
  return largest;
}

}  // namespace

MemoryPlan plan_memory(const Scenario& scenario, const SystemConfig& system, const ExpertCosts& costs,
                       const RoutingTrace& trace) {
  MemoryPlan m;
  const FeedForward& ff = scenario.model.moe();
  const double full = costs.bytes[index(State::F)];
  m.budget = scenario.budget;
  m.non_expert = non_expert_bytes(scenario.model);
  m.kv_cache = kv_bytes_per_token(scenario.model) * largest_batch_tokens(trace, scenario.workload.batch);
  const double in_use = system.fetch_whole_layer
                            ? ff.experts
                            : std::min<double>(ff.experts, double(ff.top_k) * scenario.workload.batch);
  m.staging = Bytes(in_use * full * (system.compressed ? 2 : 1));
  m.prefetch = Bytes(system.prefetch_buffer * full);

  const DeviceProfile& device = scenario.device;
  const Bytes usable = device.memory.total.value - device.memory.system_reserve.value;
  if (m.budget > usable)
    throw InputError(scenario.name, "budget " + to_string(m.budget) + " is more than device '" + device.name +
                                        "' has to give: " + to_string(usable) + " of " +
                                        to_string(device.memory.total.value));
  const Bytes needed = m.non_expert + m.kv_cache + m.staging + m.prefetch;
  if (needed > m.budget)
    throw InputError(scenario.name, "budget " + to_string(m.budget) + " is too small for system '" +
                                        system.name + "': it needs " + to_string(needed) +
                                        " before it can cache a single expert (non-expert weights " +
                                        to_string(m.non_expert) + ", KV cache " + to_string(m.kv_cache) +
                                        ", experts in use " + to_string(m.staging) + ", prefetch " +
                                        to_string(m.prefetch) + ")");
  m.expert_cache = m.budget - needed;
  m.page_cache = system.page_cache ? usable - m.budget : Bytes(0);
  return m;
}

}  // namespace moelab
