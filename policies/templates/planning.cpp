// @name@: a planning policy. It gives all memory to one pool: the first of F (full), C (compressed), S and E
// (parts) that may be used.
#include <moelab/policy/expected_makespan.hpp>
#include <moelab/policy/policy_library.hpp>

#include <algorithm>

namespace {

moelab::Plan plan(const moelab::PlanInput& input) {
  moelab::Plan plan;
  const auto pool = std::find(input.pools.begin(), input.pools.end(), true) - input.pools.begin();
  plan.ratios[static_cast<std::size_t>(pool)] = 1;
  plan.capacity = moelab::clipped(moelab::pool_sizes(input, plan.ratios), input.inclusion.size());
  moelab::ExpectedMakespan makespan(input);
  plan.expected_makespan_s = makespan.cost(plan.capacity);
  plan.selection_probability = makespan.model().selection;
  plan.splits_examined = 1;
  return plan;
}

moelab::PlanningPolicyEntry mine() {
  return {.info = {.name = "@name@", .help = "all memory for one pool", .source = "mine"}, .plan = plan};
}

}  // namespace

MOELAB_POLICIES(mine())
