// hybrimoe: HybriMoE's hybrid scheduling within a layer (Zhong et al., DAC 2025, arXiv 2504.05897, section
// IV-B), for the experts that are not on the GPU.
//
//   queue = missing experts by load (tokens), fewest first;  t_cpu = t_link = 0
//   while the queue is not empty:
//     the CPU could take its first expert and be done at t_cpu + cpu(tokens),
//     the link its last one and be done at t_link + load
//     the one that is done earlier does so (the other choice is dropped); its clock moves on
//
// "During each step of the simulation, the system selects the timeline with the earliest completion time":
// their Fig. 5 commits one operation a step and discards the others, so the completion meant is that of the
// candidate operations, not of what each timeline has done so far.
//
// Completions come in ascending order, so with n experts the last one is the n-th smallest of all that the
// two timelines offer, and no other assignment ends earlier: m experts on the link end at m * load at least,
// the n - m others on the CPU when its first n - m do. (For CPU times that do not fall with tokens, and as
// far as link and CPU are all that matters.)
//
// Deviations:
// - The paper's third timeline is the GPU's, for the experts that are there. It neither takes from this queue
//   nor delays link or CPU, and Eq. 2 leaves the end of transfers to it. Only where the CPU's queue is empty
//   would an idle CPU compute experts that are on the GPU: this family decides on missing experts alone.
// - Ties, on which the paper is silent: done at the same time, the link takes its expert, since that one is
//   on the GPU next time. Equal loads stand in expert order: the CPU takes lower numbers, the link higher.
#include <algorithm>
#include <numeric>

#include "policies/execution/execution_plan.hpp"

namespace moelab {
namespace {

class HybrimoeExecution final : public ExecutionPolicy {
 public:
  void plan(std::span<const MissingExpert> missing, const ExecutionCosts& costs,
            ExecutionPlan& plan) override {
    start_plan(plan, missing.size());
    queue_.resize(missing.size());
    std::iota(queue_.begin(), queue_.end(), 0U);
    std::sort(queue_.begin(), queue_.end(), [missing](std::uint32_t a, std::uint32_t b) {
      return missing[a].tokens != missing[b].tokens ? missing[a].tokens < missing[b].tokens : a < b;
    });
    double cpu_done = 0, link_done = 0;
    for (std::size_t first = 0, end = queue_.size(); first < end;) {
      const double by_cpu = cpu_done + cpu_seconds(costs, missing[queue_[first]]);
      const double by_link = link_done + costs.load_s;
      if (by_cpu < by_link) {
        cpu_done = by_cpu;
        give_to_cpu(plan, queue_[first++]);
      } else {
        link_done = by_link;
        give_to_link(plan, queue_[--end]);
      }
    }
  }

 private:
  std::vector<std::uint32_t> queue_;
};

}  // namespace

ExecutionPolicyEntry hybrimoe_execution_entry() {
  return {.info = {.name = "hybrimoe",
                   .help = "few tokens to the CPU, many to the link, whichever is done earlier",
                   .source = "HybriMoE (Zhong et al., DAC 2025, arXiv 2504.05897), section IV-B"},
          .needs_cpu = true,
          .make = [](const PolicyParameters&) -> std::unique_ptr<ExecutionPolicy> {
            return std::make_unique<HybrimoeExecution>();
          }};
}

}  // namespace moelab
