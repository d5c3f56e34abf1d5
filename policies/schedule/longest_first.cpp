// longest-first: the classic LPT rule (Graham, 1969) on tasks. A task's requirement is the time of all it
// still needs: its reads, decompressions and recovery, and the execution of its expert. Tensors of an expert
// have the same requirement, so experts are sorted, longest first; ties keep arrival order. A task reads its
// E-chunks before its SM-chunk.
#include <algorithm>

#include "policies/schedule/layer_needs.hpp"
#include "policies/schedule/task_reads.hpp"

namespace moelab {
namespace {

class LongestFirst final : public SchedulePolicy {
 public:
  void order(const LayerInstance& instance, LayerOrder& order) override {
    order.clear();
    items_.clear();
    std::uint32_t task = 0;
    for (std::uint32_t e = 0; e < instance.experts.size(); ++e) {
      const LayerExpert& expert = instance.experts[e];
      items_.push_back({requirement(instance, expert), e, task});
      task += expert.tensors;
    }
    std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
      return a.requirement_s != b.requirement_s ? a.requirement_s > b.requirement_s : a.expert < b.expert;
    });
    for (const Item& item : items_) {
      const LayerExpert& expert = instance.experts[item.expert];
      for (std::uint32_t t = item.first_task; t < item.first_task + expert.tensors; ++t) {
        append_task_reads(instance, expert, t, order);
        order.tasks.push_back(t);
      }
      order.experts.push_back(item.expert);
    }
  }

 private:
  struct Item {
    double requirement_s;
    std::uint32_t expert, first_task;
  };

  static double requirement(const LayerInstance& instance, const LayerExpert& expert) {
    return read_s(instance, expert) + decompressions(instance, expert) * instance.decompress_s +
           (needs_recovery(instance, expert) ? instance.recover_s : 0) + expert.execute_s;
  }

  std::vector<Item> items_;
};

}  // namespace

SchedulePolicyEntry longest_first_entry() {
  return {{"longest-first", "tasks with the most time left to spend on them first", "Graham 1969 (LPT)"},
          [](const PolicyParameters&) -> std::unique_ptr<SchedulePolicy> {
            return std::make_unique<LongestFirst>();
          }};
}

}  // namespace moelab
