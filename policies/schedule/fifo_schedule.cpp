// fifo: the null member of the family. Arrival order: expert by expert as the caller lists them, tensor by
// tensor. A task reads its E-chunks before its SM-chunk (see append_task_reads), so that fifo differs from
// the other policies in the order *among* tasks only.
#include "policies/schedule/task_reads.hpp"

namespace moelab {
namespace {

class FifoSchedule final : public SchedulePolicy {
 public:
  void order(const LayerInstance& instance, LayerOrder& order) override {
    order.clear();
    std::uint32_t task = 0;
    for (std::uint32_t e = 0; e < instance.experts.size(); ++e) {
      for (std::uint32_t n = 0; n < instance.experts[e].tensors; ++n, ++task) {
        append_task_reads(instance, instance.experts[e], task, order);
        order.tasks.push_back(task);
      }
      order.experts.push_back(e);
    }
  }
};

}  // namespace

SchedulePolicyEntry fifo_schedule_entry() {
  return {{"fifo", "experts in the order the gate lists them, tensor by tensor", "baseline"},
          [](const PolicyParameters&) -> std::unique_ptr<SchedulePolicy> {
            return std::make_unique<FifoSchedule>();
          }};
}

}  // namespace moelab
