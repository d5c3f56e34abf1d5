#include "policies/guard/policy_guard.hpp"
#include "policies/schedule/layer_needs.hpp"

namespace moelab {
namespace {

/// Counts what an order lists. Keeps its memory.
class OrderCheck {
 public:
  /// What is wrong with the order, as a sentence's end; "" where nothing is.
  std::string wrong_with(const LayerInstance& instance, const LayerOrder& order) {
    start(instance);
    if (std::string wrong = count_reads(order); !wrong.empty()) return wrong;
    if (std::string wrong = count_each(order.tasks, expert_of_.size(), "task"); !wrong.empty()) return wrong;
    return count_each(order.experts, instance.experts.size(), "expert");
  }

 private:
  void start(const LayerInstance& instance) {
    expert_of_.clear();
    chunks_ = instance.shards + 1;  // of a task: its E-chunks, then its SM-chunk
    needed_ = 0;
    needs_.clear();
    for (std::uint32_t e = 0; e < instance.experts.size(); ++e) {
      const LayerExpert& expert = instance.experts[e];
      for (std::uint32_t tensor = 0; tensor < expert.tensors; ++tensor) {
        expert_of_.push_back(e);
        needs_.insert(needs_.end(), instance.shards, e_reads(instance, expert) > 0 ? 1 : 0);
        needs_.push_back(needs_sm_read(expert) ? 1 : 0);
        needed_ += e_reads(instance, expert) + (needs_sm_read(expert) ? 1U : 0U);
      }
    }
  }

  std::string count_reads(const LayerOrder& order) {
    for (const ChunkRead& read : order.reads) {
      const bool sm = read.chunk == kSmChunk;
      if (read.task >= expert_of_.size() || (!sm && read.chunk + 1 >= chunks_))
        return "reads " + chunk_text(read) + ", which there is not";
      const std::size_t place = std::size_t{read.task} * chunks_ + (sm ? chunks_ - 1 : read.chunk);
      if (needs_[place] == 0) return "reads " + chunk_text(read) + " twice, or without need";
      needs_[place] = 0;
    }
    if (order.reads.size() == needed_) return "";
    return "lists " + counted(order.reads.size(), "read") + " of the " + std::to_string(needed_) +
           " that the layer needs";
  }
  static std::string chunk_text(const ChunkRead& read) {
    return (read.chunk == kSmChunk ? "the SM-chunk" : "E-chunk " + std::to_string(read.chunk)) + " of task " +
           std::to_string(read.task);
  }

  std::string count_each(const std::vector<std::uint32_t>& list, std::size_t size, const char* thing) {
    seen_.assign(size, 0);
    for (const std::uint32_t number : list) {
      if (number >= size)
        return std::string("lists ") + thing + " " + std::to_string(number) + ", there are " +
               std::to_string(size);
      if (seen_[number] != 0) return std::string("lists ") + thing + " " + std::to_string(number) + " twice";
      seen_[number] = 1;
    }
    if (list.size() == size) return "";
    return "lists " + counted(list.size(), thing) + " of " + std::to_string(size);
  }

  std::vector<std::uint32_t> expert_of_;  // [tasks]
  std::uint32_t chunks_ = 1;
  std::vector<std::uint8_t> needs_;  // [tasks, chunks_]: a read that is to be listed still
  std::uint64_t needed_ = 0;         // reads
  std::vector<std::uint8_t> seen_;
};

class GuardedSchedule final : public SchedulePolicy {
 public:
  GuardedSchedule(const SchedulePolicyEntry& entry, const PolicyParameters& parameters,
                  const GuardOptions& options)
      : policy_(made_policy(entry.info, options, [&] { return entry.make(parameters); })),
        guard_(entry.info, options) {}

  void order(const LayerInstance& instance, LayerOrder& order) override {
    guard_.begin_step();
    guard_.ask_or_be_refused([&] { policy_->order(instance, order); });
    if (const std::string wrong = check_.wrong_with(instance, order); !wrong.empty()) guard_.broken(wrong);
  }

 private:
  std::unique_ptr<SchedulePolicy> policy_;
  PolicyGuard guard_;
  OrderCheck check_;
};

}  // namespace

std::unique_ptr<SchedulePolicy> make_schedule_policy(const SchedulePolicyEntry& entry,
                                                     const PolicyParameters& parameters,
                                                     const GuardOptions& options) {
  if (!is_guarded(entry.info, options)) return entry.make(parameters);
  return std::make_unique<GuardedSchedule>(entry, parameters, options);
}

}  // namespace moelab
