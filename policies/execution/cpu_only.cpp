// cpu-only: the CPU computes every missing expert, in expert order; nothing is loaded on demand. So llama.cpp
// does with what it left in host memory (--n-cpu-moe). SMoE calls its ablation's baseline "CPU-based expert
// offloading" (section VI-C); configs/systems/smoe-base.yaml says why that is not read as this.
#include "policies/execution/execution_plan.hpp"

namespace moelab {
namespace {

class CpuOnly final : public ExecutionPolicy {
 public:
  void plan(std::span<const MissingExpert> missing, const ExecutionCosts&, ExecutionPlan& plan) override {
    start_plan(plan, missing.size());
    for (std::uint32_t i = 0; i < missing.size(); ++i) give_to_cpu(plan, i);
  }
};

}  // namespace

ExecutionPolicyEntry cpu_only_entry() {
  return {.info = {.name = "cpu-only",
                   .help = "the CPU computes every missing expert",
                   .source = "llama.cpp, option --n-cpu-moe"},
          .needs_cpu = true,
          .make = [](const PolicyParameters&) -> std::unique_ptr<ExecutionPolicy> {
            return std::make_unique<CpuOnly>();
          }};
}

}  // namespace moelab
