// @name@: a schedule policy. It orders the reads, decompressions and products of one layer: experts with the
// most work first.
#include <moelab/policy/policy_library.hpp>
#include <moelab/policy/task_reads.hpp>

#include <algorithm>
#include <numeric>

namespace {

class Mine final : public moelab::SchedulePolicy {
 public:
  void order(const moelab::LayerInstance& instance, moelab::LayerOrder& order) override {
    order.clear();
    // Tasks, one for each tensor, are numbered through: those of expert 0, then those of expert 1, ...
    std::vector<std::uint32_t> first_task(instance.experts.size() + 1, 0);
    for (std::size_t e = 0; e < instance.experts.size(); ++e)
      first_task[e + 1] = first_task[e] + instance.experts[e].tensors;
    std::vector<std::uint32_t> experts(instance.experts.size());
    std::iota(experts.begin(), experts.end(), 0U);
    std::stable_sort(experts.begin(), experts.end(), [&](std::uint32_t a, std::uint32_t b) {
      return instance.experts[a].execute_s > instance.experts[b].execute_s;
    });
    for (const std::uint32_t e : experts) {
      for (std::uint32_t task = first_task[e]; task < first_task[e + 1]; ++task) {
        moelab::append_task_reads(instance, instance.experts[e], task, order);
        order.tasks.push_back(task);
      }
      order.experts.push_back(e);
    }
  }
};

moelab::SchedulePolicyEntry mine() {
  return {.info = {.name = "@name@", .help = "experts with the most work first", .source = "mine"},
          .make = [](const moelab::PolicyParameters&) -> std::unique_ptr<moelab::SchedulePolicy> {
            return std::make_unique<Mine>();
          }};
}

}  // namespace

MOELAB_POLICIES(mine())
