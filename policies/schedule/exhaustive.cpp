// exhaustive: the best order the dispatcher can be given, by branch and bound: the floor of the family.
//
// Read orders are searched depth first; under each complete one every task order is tried. Left out, because
// they change no makespan:
//  - orders that read a task's E-chunks out of turn: its chunks are interchangeable;
//  - orders that differ in which tensor of an expert is which in the task list (with shards = 0: in the read
//    list): they are interchangeable too;
//  - orders of experts: a work-conserving stream does the same work in the same time in any order.
// A branch is cut when its bound reaches the best makespan known. The search begins with the best order of
// the other policies, and ends when it meets layer_lower_bound.
//
// The orders that remain are counted beforehand, and more than `max_orders` of them are refused. An order
// costs about half a microsecond, though most are cut: the default of a million is about a second at worst.
// It admits three missing tensors of different experts with K = 2 (9! / 2!^3 read orders x 3! task orders =
// 272,160), and one expert of three tensors with K = 3 (12! / 3!^3 = 2,217,600) no more.
#include <algorithm>
#include <limits>
#include <sstream>

#include "models/input_error.hpp"
#include "policies/schedule/layer_needs.hpp"
#include "policies/schedule/task_reads.hpp"

namespace moelab {
namespace {

/// Counts the ways to merge groups of equal items into one sequence.
class Merges {
 public:
  explicit Merges(double& ways) : ways_(ways) {}
  void add(std::uint32_t group) {
    for (std::uint32_t i = 1; i <= group; ++i) ways_ *= (length_ + i) / i;
    length_ += group;
  }

 private:
  double& ways_;
  double length_ = 0;
};

/// Orders of an instance, not counting those that the file comment leaves out; infinite when very many.
double count_orders(const LayerInstance& instance) {
  double ways = 1;
  Merges reads(ways), tasks(ways);
  for (const LayerExpert& expert : instance.experts) {
    if (instance.shards == 0) {
      if (needs_sm_read(expert)) reads.add(expert.tensors);
      continue;
    }
    for (std::uint32_t n = 0; n < expert.tensors; ++n) {
      reads.add(e_reads(instance, expert));
      reads.add(needs_sm_read(expert) ? 1 : 0);
    }
    if (needs_recovery(instance, expert)) tasks.add(expert.tensors);
  }
  return ways;
}

class Exhaustive final : public SchedulePolicy {
 public:
  explicit Exhaustive(double max_orders) : max_orders_(max_orders) {
    for (const std::string_view name : {"fifo", "longest-first", "cache-affinity"})
      others_.push_back(make_schedule_policy(name, {}));
  }

  void order(const LayerInstance& instance, LayerOrder& order) override {
    refuse_if_too_big(instance);
    instance_ = &instance;
    best_ = &order;
    enough_s_ = layer_lower_bound(instance).value();
    try_other_policies();
    begin_search();
    search(0);
  }

 private:
  struct Task {
    std::uint32_t expert, e_read, e_reads;  // E-chunks read, and to read in all
    bool sm;                                // SM-chunk still to read
  };

  void refuse_if_too_big(const LayerInstance& instance) const {
    const double orders = count_orders(instance);
    if (orders <= max_orders_) return;
    std::ostringstream what;
    what << "schedule policy 'exhaustive' has " << orders
         << " orders of a layer to try, more than max_orders = " << max_orders_
         << ": use it on smaller layers";
    throw InputError("", what.str());
  }

  void try_other_policies() {
    best_s_ = std::numeric_limits<double>::infinity();
    for (const auto& policy : others_) {
      policy->order(*instance_, trial_);
      keep_trial_if_best();
    }
  }

  void keep_trial_if_best() {
    const double makespan_s = recurrence_.makespan(*instance_, trial_);
    if (makespan_s >= best_s_) return;
    best_s_ = makespan_s;
    *best_ = trial_;
  }

  void begin_search() {
    tasks_.clear();
    labels_.clear();
    trial_.clear();
    reads_left_ = 0;
    for (std::uint32_t e = 0; e < instance_->experts.size(); ++e) {
      const LayerExpert& expert = instance_->experts[e];
      const Task task{e, 0, e_reads(*instance_, expert), needs_sm_read(expert)};
      tasks_.insert(tasks_.end(), expert.tensors, task);
      reads_left_ += expert.tensors * (task.e_reads + (task.sm ? 1 : 0));
      if (needs_recovery(*instance_, expert)) labels_.insert(labels_.end(), expert.tensors, e);
      trial_.experts.push_back(e);
    }
  }

  /// Tries every way to go on after the reads in trial_, which end at `now`.
  void search(double now) {
    if (reads_left_ == 0) return try_task_orders();
    for (std::uint32_t t = 0; t < tasks_.size() && best_s_ > enough_s_; ++t) {
      Task& task = tasks_[t];
      if (task.e_read < task.e_reads) {
        ++task.e_read;
        search_after({t, task.e_read - 1}, now + instance_->e_read_s);
        --task.e_read;
      }
      if (task.sm && !twin_goes_first(t)) {
        task.sm = false;
        search_after({t, kSmChunk}, now + instance_->sm_read_s);
        task.sm = true;
      }
    }
  }

  void search_after(ChunkRead read, double now) {
    if (bound(now) >= best_s_) return;
    trial_.reads.push_back(read);
    --reads_left_;
    search(now);
    ++reads_left_;
    trial_.reads.pop_back();
  }

  bool twin_goes_first(std::uint32_t t) const {
    return instance_->shards == 0 && t > 0 && tasks_[t - 1].expert == tasks_[t].expert && tasks_[t - 1].sm;
  }

  /// What no order can beat that has read what is marked in tasks_ by `now`: the experts that lack reads all
  /// execute after the first of them has read and recovered what it lacks.
  double bound(double now) const {
    double first_s = std::numeric_limits<double>::infinity(), execute_s = 0;
    for (std::size_t t = 0; t < tasks_.size();) {
      const LayerExpert& expert = instance_->experts[tasks_[t].expert];
      double lacks_s = 0;
      bool lacks = false;
      for (const std::size_t end = t + expert.tensors; t < end; ++t) {
        const Task& task = tasks_[t];
        lacks |= task.sm || task.e_read < task.e_reads;
        lacks_s += (task.e_reads - task.e_read) * instance_->e_read_s + (task.sm ? instance_->sm_read_s : 0);
      }
      if (!lacks) continue;
      first_s = std::min(first_s, lacks_s + (needs_recovery(*instance_, expert) ? instance_->recover_s : 0));
      execute_s += expert.execute_s;
    }
    return first_s < std::numeric_limits<double>::infinity() ? now + first_s + execute_s : now;
  }

  /// Tries every order of the tasks under the reads in trial_. labels_: their experts, in ascending order.
  void try_task_orders() {
    do {
      list_tasks();
      keep_trial_if_best();
    } while (std::next_permutation(labels_.begin(), labels_.end()));
  }

  /// trial_.tasks: the next tensor of the expert that each label names, then the tasks without a label.
  void list_tasks() {
    trial_.tasks.clear();
    next_task_.assign(instance_->experts.size(), 0);
    for (std::uint32_t t = static_cast<std::uint32_t>(tasks_.size()); t-- > 0;)
      next_task_[tasks_[t].expert] = t;
    for (const std::uint32_t e : labels_) trial_.tasks.push_back(next_task_[e]++);
    for (std::uint32_t t = 0; t < tasks_.size(); ++t)
      if (!needs_recovery(*instance_, instance_->experts[tasks_[t].expert])) trial_.tasks.push_back(t);
  }

  double max_orders_;
  std::vector<std::unique_ptr<SchedulePolicy>> others_;
  LayerRecurrence recurrence_;
  const LayerInstance* instance_ = nullptr;
  LayerOrder* best_ = nullptr;
  LayerOrder trial_;
  double best_s_ = 0, enough_s_ = 0;
  std::vector<Task> tasks_;
  std::vector<std::uint32_t> labels_, next_task_;
  std::uint32_t reads_left_ = 0;
};

}  // namespace

SchedulePolicyEntry exhaustive_entry() {
  static const PolicyInfo info = {
      "exhaustive",
      "the best order there is, by branch and bound; small layers only",
      "exhaustive search",
      {{"max_orders", "", 1e6, 1, 1e12, "refuse layers with more orders than this to try"}}};
  return {info, [](const PolicyParameters& parameters) -> std::unique_ptr<SchedulePolicy> {
            return std::make_unique<Exhaustive>(parameter(info, parameters, "max_orders"));
          }};
}

}  // namespace moelab
