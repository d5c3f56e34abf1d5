// gpu-only: every missing expert is loaded, best score first, equal scores in expert order: what a system
// does that computes no expert on the CPU. The family's null member. It does not ask for scores, so without a
// routing policy or a cache that does all are 0, and experts are loaded in their order.
#include "policies/execution/execution_plan.hpp"

namespace moelab {
namespace {

class GpuOnly final : public ExecutionPolicy {
 public:
  void plan(std::span<const MissingExpert> missing, const ExecutionCosts&, ExecutionPlan& plan) override {
    start_plan(plan, missing.size());
    sort_by_score(missing, plan.loads);
  }
};

}  // namespace

ExecutionPolicyEntry gpu_only_entry() {
  return {.info = {.name = "gpu-only",
                   .help = "every missing expert is loaded, best score first",
                   .source = "the null member of the family"},
          .make = [](const PolicyParameters&) -> std::unique_ptr<ExecutionPolicy> {
            return std::make_unique<GpuOnly>();
          }};
}

}  // namespace moelab
