// moelab.ExecutionPolicy.
#include "policies/execution/execution_plan.hpp"
#include "python/policies/families.hpp"

namespace moelab {
namespace {

class PythonExecution final : public ExecutionPolicy {
 public:
  PythonExecution(const PythonPolicy& type, const PolicyParameters& parameters)
      : missing_records_("MISSING") {
    in_python([&] {
      const nb::object policy = type.make(parameters);
      plan_ = Held(policy.attr("plan"));
      observe_load_ = own_method(policy, "ExecutionPolicy", "observe_load");
    });
  }

  void plan(std::span<const MissingExpert> missing, const ExecutionCosts& costs,
            ExecutionPlan& plan) override {
    start_plan(plan, missing.size());
    in_python([&] {
      const nb::object answer = plan_.get()(
          missing_records_.of(missing),
          named("ExecutionCosts", costs.load_s, new_array<double>(costs.cpu_s, {costs.cpu_s.size()}),
                costs.gpu_s, costs.step_tokens, costs.on_gpu));
      const auto [loads, cpu] = pair_of(answer, "plan", "(loads, cpu)");
      plan.loads = counts(loads, "plan", {kAny});
      plan.cpu = counts(cpu, "plan", {kAny});
    });
    for (const std::uint32_t position : plan.cpu)
      if (position < plan.places.size()) plan.places[position] = Assignment::cpu;
  }
  void observe_load(double seconds) override {
    if (observe_load_) in_python([&] { observe_load_.get()(seconds); });
  }

 private:
  Records missing_records_;
  Held plan_, observe_load_;
};

}  // namespace

ExecutionPolicyEntry execution_entry(const PythonPolicy& type) {
  return {.info = type.info,
          .needs_scores = type.flag("needs_scores"),
          .needs_cpu = type.flag("needs_cpu"),
          .make = [&type](const PolicyParameters& parameters) -> std::unique_ptr<ExecutionPolicy> {
            return std::make_unique<PythonExecution>(type, parameters);
          }};
}

}  // namespace moelab
