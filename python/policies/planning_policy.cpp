// moelab.PlanningPolicy.
#include <algorithm>

#include "python/policies/families.hpp"

namespace moelab {
namespace {

nb::object input_in_python(const PlanInput& input) {
  nb::list pools, ratios;
  for (const bool pool : input.pools) pools.append(pool);
  for (const double ratio : input.fixed_ratios) ratios.append(ratio);
  return named("PlanInput", new_array(input.inclusion), input.k, input.threads, input.shards, input.tensors,
               input.sm_read_s, input.e_read_s, input.decompress_s, input.memory_bytes, input.tensor_elements,
               input.tensor_bytes, input.ratio, input.step, nb::tuple(pools), nb::tuple(ratios));
}

Plan plan_of(const PythonPolicy& type, const PlanInput& input) {
  return in_python([&] {
    const nb::object answer = type.make({}).attr("plan")(input_in_python(input));
    Plan plan;
    const std::vector<double> ratios = real_numbers(member(answer, "plan", "ratios"), "plan", {kStates});
    const std::vector<std::uint32_t> places = counts(member(answer, "plan", "capacity"), "plan", {kStates});
    std::copy(ratios.begin(), ratios.end(), plan.ratios.begin());
    std::copy(places.begin(), places.end(), plan.capacity.begin());
    plan.expected_makespan_s =
        real_numbers(member(answer, "plan", "expected_makespan_s"), "plan", {}).front();
    return plan;
  });
}

}  // namespace

PlanningPolicyEntry planning_entry(const PythonPolicy& type) {
  return {.info = type.info, .plan = [&type](const PlanInput& input) { return plan_of(type, input); }};
}

}  // namespace moelab
