// Planning and pressure: figures that are asked for once.
#include <algorithm>
#include <cmath>

#include "models/units.hpp"
#include "policies/guard/policy_guard.hpp"

namespace moelab {
namespace {

constexpr double kShares = 1e-6;  // shares are added up as users write them

std::string pool_name(std::size_t pool) {
  return "pool " + std::string(kStateNames[pool]);
}

void check_pool(const PolicyGuard& guard, const PlanInput& input, const Plan& plan, std::size_t pool) {
  if (!within(plan.ratios[pool], 1))
    guard.broken("gives " + pool_name(pool) + " a share of " + std::to_string(plan.ratios[pool]) +
                 " of the memory, expected 0 to 1");
  if (!input.pools[pool] && (plan.ratios[pool] > 0 || plan.capacity[pool] > 0))
    guard.broken("gives memory to " + pool_name(pool) + ", which may not be used");
}

void check_sizes(const PolicyGuard& guard, const PlanInput& input, const Plan& plan) {
  double share = 0, bytes = 0;
  std::uint64_t experts = 0;
  for (std::size_t pool = 0; pool < kStates; ++pool) {
    check_pool(guard, input, plan, pool);
    share += plan.ratios[pool];
    experts += plan.capacity[pool];
    bytes += plan.capacity[pool] * expert_bytes_in_state(kAllStates[pool], input);
  }
  if (std::abs(share - 1) > kShares)
    guard.broken("gives pools shares that add up to " + std::to_string(share) + ", expected 1");
  if (experts > input.inclusion.size())
    guard.broken("plans places for " + counted(experts, "expert") + ", a layer has " +
                 std::to_string(input.inclusion.size()));
  if (!within(bytes, input.memory_bytes))
    guard.broken("plans pools of " + to_string(Bytes(bytes)) + ", the memory is " +
                 to_string(Bytes(input.memory_bytes)));
}

}  // namespace

Plan plan_pools(const PlanningPolicyEntry& entry, const PlanInput& input, const GuardOptions& options) {
  if (!is_guarded(entry.info, options)) return entry.plan(input);
  const PolicyGuard guard(entry.info, options);
  Plan plan = guard.ask_or_be_refused([&] { return entry.plan(input); });
  check_sizes(guard, input, plan);
  if (!std::isfinite(plan.expected_makespan_s) || plan.expected_makespan_s < 0)
    guard.broken("expects a makespan of " + std::to_string(plan.expected_makespan_s) + " s");
  const std::vector<double>& chosen = plan.selection_probability;
  if (!chosen.empty() && chosen.size() != input.inclusion.size())
    guard.broken("gives selection probabilities of " + counted(chosen.size(), "expert") + ", a layer has " +
                 std::to_string(input.inclusion.size()));
  if (!std::all_of(chosen.begin(), chosen.end(), [](double q) { return within(q, 1); }))
    guard.broken("gives a selection probability outside [0, 1]");
  return plan;
}

std::size_t requests_under_pressure(const PressurePolicyEntry& entry, const PressureTerms& terms,
                                    const PolicyParameters& parameters, const GuardOptions& options) {
  if (!is_guarded(entry.info, options)) return entry.requests(terms, parameters);
  const PolicyGuard guard(entry.info, options);
  const std::size_t requests = guard.ask_or_be_refused([&] { return entry.requests(terms, parameters); });
  if (requests < 1 || requests > terms.kv_bytes.size())
    guard.broken("gives the KV cache room for " + counted(requests, "request") + ", expected 1 to " +
                 std::to_string(terms.kv_bytes.size()));
  return requests;
}

}  // namespace moelab
