// @name@: an execution policy. An expert that is missing on the GPU is computed by the CPU where that takes
// less time than to load it.
#include <moelab/policy/execution_plan.hpp>
#include <moelab/policy/policy_library.hpp>

namespace {

class Mine final : public moelab::ExecutionPolicy {
 public:
  void plan(std::span<const moelab::MissingExpert> missing, const moelab::ExecutionCosts& costs,
            moelab::ExecutionPlan& plan) override {
    moelab::start_plan(plan, missing.size());
    for (std::uint32_t position = 0; position < missing.size(); ++position)
      if (moelab::cpu_seconds(costs, missing[position]) < costs.load_s)
        moelab::give_to_cpu(plan, position);
      else
        moelab::give_to_link(plan, position);
  }
};

moelab::ExecutionPolicyEntry mine() {
  return {.info = {.name = "@name@",
                   .help = "the CPU computes what it computes faster than the link loads it",
                   .source = "mine"},
          .needs_cpu = true,
          .make = [](const moelab::PolicyParameters&) -> std::unique_ptr<moelab::ExecutionPolicy> {
            return std::make_unique<Mine>();
          }};
}

}  // namespace

MOELAB_POLICIES(mine())
