// cpu-only: the CPU computes every missing expert, in expert order; nothing is loaded on demand. So llama.cpp
// does with what it left in host memory (--n-cpu-moe). SMoE calls its ablation's baseline "CPU-based expert
// offloading" (section VI-C); configs/systems/smoe-base.yaml says why that is not read as this.
//
// stream_from: a step of so many tokens or more has its missing experts loaded instead, in expert order, each
// for this step alone where the cache never changes: llama.cpp copies the weights that a batch of 32 tokens
// needs to the GPU (ggml_backend_cuda_device_offload_op). 0: never.
#include "policies/execution/execution_plan.hpp"

namespace moelab {
namespace {

class CpuOnly final : public ExecutionPolicy {
 public:
  explicit CpuOnly(double stream_from) : stream_from_(stream_from) {}

  void plan(std::span<const MissingExpert> missing, const ExecutionCosts& costs,
            ExecutionPlan& plan) override {
    start_plan(plan, missing.size());
    const bool streams = stream_from_ > 0 && costs.step_tokens >= stream_from_;
    for (std::uint32_t i = 0; i < missing.size(); ++i) streams ? give_to_link(plan, i) : give_to_cpu(plan, i);
  }

 private:
  double stream_from_;  // tokens
};

}  // namespace

ExecutionPolicyEntry cpu_only_entry() {
  return {
      .info = {.name = "cpu-only",
               .help = "the CPU computes every missing expert",
               .source = "llama.cpp, option --n-cpu-moe",
               .parameters = {{.name = "stream_from",
                               .unit = "tokens",
                               .default_value = 0,
                               .low = 0,
                               .high = 1e9,
                               .help = "steps of so many tokens have missing experts loaded; 0: none has"}}},
      .needs_cpu = true,
      .make = [](const PolicyParameters& parameters) -> std::unique_ptr<ExecutionPolicy> {
        return std::make_unique<CpuOnly>(parameter(cpu_only_entry().info, parameters, "stream_from"));
      }};
}

}  // namespace moelab
