// Fixed split: the user's own shares of memory (PlanInput::fixed_ratios), with the makespan that ZipMoE's
// model expects of them.
#include <cassert>
#include <cmath>

#include "models/input_error.hpp"
#include "policies/planning/expected_makespan.hpp"
#include "policies/planning/planning.hpp"

namespace moelab {
namespace {

Plan fixed_plan(const PlanInput& input) {
  assert(check_plan_input(input).empty());
  double sum = 0;
  for (const double ratio : input.fixed_ratios) sum += ratio;
  if (!(std::abs(sum - 1) <= 1e-6))
    throw InputError("planning policy 'fixed'",
                     "the shares of memory of its pools must be given and add up to 1");
  Plan plan;
  plan.ratios = input.fixed_ratios;
  plan.capacity = clipped(pool_sizes(input, plan.ratios), input.inclusion.size());
  ExpectedMakespan makespan(input);
  plan.expected_makespan_s = makespan.cost(plan.capacity);
  plan.selection_probability = makespan.model().selection;
  plan.splits_examined = 1;
  return plan;
}

}  // namespace

PlanningPolicyEntry fixed_plan_entry() {
  return {.info = {.name = "fixed",
                   .help = "shares of memory as given",
                   .source = "the user's; makespan by ZipMoE, Alg. 3 and 4"},
          .plan = fixed_plan};
}

}  // namespace moelab
