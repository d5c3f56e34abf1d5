// cache-affinity: ZipMoE's scheduler (section 3.3; Appendix A, Algorithm 1 and Definition A.1; Appendix B).
//
//   Type I: tasks that read an SM-chunk (states E, M). Type II: the others (C, S).
//   sigma_I, sigma_II: tasks by execution time p of their expert, longest first, an expert's tasks together
//   while sigma_I is not empty:
//     B = [first of sigma_I], the base;  U = rest of (sigma_II, sigma_I)
//     while B is not compute-dominant and U is not empty: move the first of U into B (position: below)
//     append B to the blocks
//   A block reads all its E-chunks, then all its SM-chunks, each in the order of its tasks; the blocks' tasks
//   in turn are the decompression and recovery priorities.
// u: SM-read, v = rho u / K: E-read, c: decompression of a chunk, L: threads, F_IO, F_c: finish times.
//
// Where the paper is ambiguous, or contradicts itself:
//  - Line 8 fills a block from sigma_II, then sigma_I; the text of section 3.3 from sigma_II alone. We follow
//    line 8: the proof of Lemma B.5 needs it (a block that is never compute-dominant takes all tasks).
//  - Lines 10 and 21 remove a task from B's candidates only. We remove it from its sigma too.
//  - Line 7 forgets the Type-II tasks that remain when sigma_I is empty; the text goes on "until all tasks
//  are
//    assigned". They form one last block, in the order of sigma_II.
//  - Line 13, "the earliest position that introduces no additional idle period on any thread": decompressions
//    take equal time, so the dispatcher starts them at the same times whatever their order, and idle time
//    depends on the tasks of a block, not on their positions (see block_simulation.hpp). The test thus says
//    yes or no for the whole block, and the I/O thread never idles. Taken literally, a yes would put every
//    task before all earlier ones and turn the order of lines 4-5 around (measured: worse than fifo). So no
//    task passes one of its own type; the earliest position of a Type-II task is behind the Type-II tasks in
//    the block, before the base.
//  - Lines 14-20, the answer no: behind all Type-II tasks of B with p at least as long, all of them since
//    sigma_II is sorted; where B has none, behind the base if its p is at least as long, else before it.
//    Hence the first Type-II task of a block decides whether the base comes before or after its Type-II
//    tasks.
//  - Type-I tasks that join a block go to its end: "any" and "some" in lines 16-18 allow it, and their
//  SM-reads
//    are what the Type-II tasks have to hide.
//  - Definition A.1 quantifies over k and l apart; the text ties them: the l-th earliest thread lags behind
//  I/O
//    by l rho u / K. So: F_c^(l) >= F_IO + l v for all 1 <= l <= min(L, K), that is, the l-th E-chunk of a
//    next block finds the l-th thread at work. Later threads (L > K) are not tested.
// Beyond the paper: experts in state F need no task. They execute first, longest first, and their tasks are
// listed last. Experts execute in the order in which their last task stands in the blocks (on a
// work-conserving stream the order changes no makespan). Recovery takes no part in building blocks. With
// shards = 0 every Type-I task is a block of its own: reads by execution time, longest first.
#include <algorithm>
#include <initializer_list>
#include <span>

#include "policies/schedule/block_simulation.hpp"
#include "policies/schedule/layer_needs.hpp"
#include "policies/schedule/task_reads.hpp"

namespace moelab {
namespace {

class CacheAffinity final : public SchedulePolicy {
 public:
  void order(const LayerInstance& instance, LayerOrder& order) override {
    order.clear();
    instance_ = &instance;
    out_ = &order;
    sort_tasks();
    blocks_.begin(instance);
    std::size_t one = 0, two = 0;
    while (one < type1_.size()) build_block(one, two);
    append_block({tail(type2_, two)});
    order.tasks.insert(order.tasks.end(), ready_tasks_.begin(), ready_tasks_.end());
  }

 private:
  struct Task {
    std::uint32_t id, expert;
  };
  using Tasks = std::span<const Task>;

  const LayerExpert& expert(const Task& task) const { return instance_->experts[task.expert]; }
  static Tasks tail(const std::vector<Task>& tasks, std::size_t from) { return Tasks(tasks).subspan(from); }

  /// Fills sigma_I and sigma_II; what needs no task goes to ready_tasks_ and executes first.
  void sort_tasks() {
    type1_.clear();
    type2_.clear();
    ready_tasks_.clear();
    first_tasks_.clear();
    tensors_left_.clear();
    std::uint32_t task = 0;
    for (std::uint32_t e = 0; e < instance_->experts.size(); ++e) {
      first_tasks_.push_back({task, e});
      tensors_left_.push_back(instance_->experts[e].tensors);
      task += instance_->experts[e].tensors;
    }
    std::sort(first_tasks_.begin(), first_tasks_.end(), [this](const Task& a, const Task& b) {
      const double pa = expert(a).execute_s, pb = expert(b).execute_s;
      return pa != pb ? pa > pb : a.id != b.id ? a.id < b.id : a.expert < b.expert;
    });
    for (const Task& first : first_tasks_) {
      const LayerExpert& owner = expert(first);
      const bool ready = owner.state == State::F || owner.tensors == 0;
      if (ready) out_->experts.push_back(first.expert);
      for (std::uint32_t t = first.id; t < first.id + owner.tensors; ++t) {
        if (ready)
          ready_tasks_.push_back(t);
        else
          (needs_sm_read(owner) ? type1_ : type2_).push_back({t, first.expert});
      }
    }
  }

  /// Lines 8-26: takes tasks off the heads of sigma_I (at `one`) and sigma_II (at `two`).
  void build_block(std::size_t& one, std::size_t& two) {
    const std::size_t base = one++, first1 = one, first2 = two;
    blocks_.begin_block();
    blocks_.add(expert(type1_[base]));
    bool base_first = false;
    while ((one < type1_.size() || two < type2_.size()) && !blocks_.compute_dominant()) {
      if (two < type2_.size() && two == first2)
        base_first = expert(type1_[base]).execute_s >= expert(type2_[two]).execute_s &&
                     blocks_.adds_idle(expert(type2_[two]));
      blocks_.add(expert(two < type2_.size() ? type2_[two++] : type1_[one++]));
    }
    const Tasks base_task = tail(type1_, base).first(1);
    const Tasks twos = tail(type2_, first2).first(two - first2),
                ones = tail(type1_, first1).first(one - first1);
    if (base_first)
      append_block({base_task, twos, ones});
    else
      append_block({twos, base_task, ones});
  }

  /// Appends a block, its tasks given as a sequence of runs.
  void append_block(std::initializer_list<Tasks> block) {
    for (const Tasks& run : block)
      for (const Task& task : run)
        for (std::uint32_t k = 0; k < e_reads(*instance_, expert(task)); ++k)
          out_->reads.push_back({task.id, k});
    for (const Tasks& run : block)
      for (const Task& task : run) {
        if (needs_sm_read(expert(task))) out_->reads.push_back({task.id, kSmChunk});
        out_->tasks.push_back(task.id);
        if (--tensors_left_[task.expert] == 0) out_->experts.push_back(task.expert);
      }
  }

  const LayerInstance* instance_ = nullptr;
  LayerOrder* out_ = nullptr;
  BlockSimulation blocks_;
  std::vector<Task> first_tasks_, type1_, type2_;
  std::vector<std::uint32_t> ready_tasks_, tensors_left_;
};

}  // namespace

SchedulePolicyEntry cache_affinity_entry() {
  return {{"cache-affinity", "blocks of tasks that hide SM-chunk reads behind decompression",
           "ZipMoE, Algorithm 1"},
          [](const PolicyParameters&) -> std::unique_ptr<SchedulePolicy> {
            return std::make_unique<CacheAffinity>();
          }};
}

}  // namespace moelab
