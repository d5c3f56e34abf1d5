// fiddler: each missing expert by itself (Kamahori et al., Fiddler: CPU-GPU Orchestration for Fast Inference
// of Mixture-of-Experts Models, ICLR 2025, arXiv 2402.07033, section 3.3, Algorithm 1).
//
//   for each missing expert with s tokens, in expert order:
//     if cpu_lat(s) > gpu_lat(s) + trans_lat(): load it and compute it on the GPU
//     else:                                     compute it on the CPU
//
// Times add up in this rule: that link and CPU could work at once plays no part. trans_lat is load_s;
// gpu_lat, about the same for every s, is gpu_s, 0 where not known.
#include "policies/execution/execution_plan.hpp"

namespace moelab {
namespace {

class FiddlerExecution final : public ExecutionPolicy {
 public:
  void plan(std::span<const MissingExpert> missing, const ExecutionCosts& costs,
            ExecutionPlan& plan) override {
    start_plan(plan, missing.size());
    for (std::uint32_t i = 0; i < missing.size(); ++i) {
      if (cpu_seconds(costs, missing[i]) > costs.gpu_s + costs.load_s)
        give_to_link(plan, i);
      else
        give_to_cpu(plan, i);
    }
  }
};

}  // namespace

ExecutionPolicyEntry fiddler_execution_entry() {
  return {.info = {.name = "fiddler",
                   .help = "each missing expert where it takes less time by itself, CPU or load",
                   .source = "Fiddler (Kamahori et al., ICLR 2025, arXiv 2402.07033), Algorithm 1"},
          .needs_cpu = true,
          .make = [](const PolicyParameters&) -> std::unique_ptr<ExecutionPolicy> {
            return std::make_unique<FiddlerExecution>();
          }};
}

}  // namespace moelab
