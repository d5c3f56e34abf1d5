// Independent references for the schedule family: a naive event simulation of the dispatch rule, and the true
// optimum of small layers over all schedules, with inserted idle time.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "policies/schedule/schedule.hpp"

namespace moelab::schedule_reference {

inline bool reads_sm(State s) {
  return s == State::E || s == State::M;
}
inline bool reads_e(State s) {
  return s == State::S || s == State::M;
}

/// The layer as a graph of operations on four resources, simulated instant by instant.
class NaiveSimulation {
 public:
  NaiveSimulation(const LayerInstance& instance, const LayerOrder& order) {
    const std::size_t shards = instance.shards;
    std::vector<std::vector<std::size_t>> expert_needs(instance.experts.size());
    std::size_t task = 0;
    for (std::size_t e = 0; e < instance.experts.size(); ++e)
      for (std::uint32_t n = 0; n < instance.experts[e].tensors; ++n, ++task) {
        const State state = instance.experts[e].state;
        const std::size_t rank = position(order.tasks, static_cast<std::uint32_t>(task));
        std::vector<std::size_t> needs;
        if (reads_sm(state)) needs.push_back(add_read(order, task, kSmChunk, instance.sm_read_s));
        if (state != State::F && shards > 0) {
          for (std::uint32_t k = 0; k < shards; ++k) {
            std::vector<std::size_t> read;
            if (reads_e(state)) read.push_back(add_read(order, task, k, instance.e_read_s));
            needs.push_back(add({kThreads, rank * shards + k, instance.decompress_s, read}));
          }
          needs = {add({kRecovery, rank, instance.recover_s, needs})};
        }
        expert_needs[e].insert(expert_needs[e].end(), needs.begin(), needs.end());
      }
    for (std::uint32_t e = 0; e < instance.experts.size(); ++e)
      add({kCompute, position(order.experts, e), instance.experts[e].execute_s, expert_needs[e]});
    free_[kThreads] = instance.threads;
  }

  double run() {
    double now = 0;
    for (std::size_t left = operations_.size(); left > 0;) {
      for (Operation& op : operations_)
        if (op.state == Operation::kRunning && op.end == now) {
          op.state = Operation::kDone;
          ++free_[op.resource];
          --left;
        }
      for (std::size_t resource = 0; resource < 4; ++resource) start_ready(resource, now);
      double next = std::numeric_limits<double>::infinity();
      for (const Operation& op : operations_)
        if (op.state == Operation::kRunning) next = std::min(next, op.end);
      if (left > 0) now = next;
    }
    return now;
  }

 private:
  enum Resource : std::size_t { kIo, kThreads, kRecovery, kCompute };
  struct Operation {
    std::size_t resource, priority;
    double duration;
    std::vector<std::size_t> needs;
    enum { kWaiting, kRunning, kDone } state = kWaiting;
    double end = 0;
  };

  template <class T>
  static std::size_t position(const std::vector<T>& list, const T& item) {
    return static_cast<std::size_t>(std::find(list.begin(), list.end(), item) - list.begin());
  }
  std::size_t add(Operation op) {
    operations_.push_back(std::move(op));
    return operations_.size() - 1;
  }
  std::size_t add_read(const LayerOrder& order, std::size_t task, std::uint32_t chunk, double duration) {
    const ChunkRead read{static_cast<std::uint32_t>(task), chunk};
    return add({kIo, position(order.reads, read), duration, {}});
  }
  void start_ready(std::size_t resource, double now) {
    for (; free_[resource] > 0; --free_[resource]) {
      Operation* best = nullptr;
      for (Operation& op : operations_)
        if (op.resource == resource && op.state == Operation::kWaiting &&
            std::all_of(op.needs.begin(), op.needs.end(),
                        [&](std::size_t n) { return operations_[n].state == Operation::kDone; }) &&
            (best == nullptr || op.priority < best->priority))
          best = &op;
      if (best == nullptr) return;
      best->state = Operation::kRunning;
      best->end = now + best->duration;
    }
  }

  std::vector<Operation> operations_;
  std::size_t free_[4] = {1, 1, 1, 1};
};

/// Number of ways to merge groups of equal items.
inline double multinomial(const std::vector<int>& groups) {
  double ways = 1, length = 0;
  for (const int group : groups)
    for (int i = 1; i <= group; ++i) ways *= ++length / i;
  return ways;
}

/// The least makespan of any schedule, by enumeration. A schedule in which the operations of a resource start
/// in some order ends no earlier than the one that starts them in this order as soon as it can, so all orders
/// of reads, of decompressions and of recoveries are tried as strict lists (idle time arises where the next
/// one is not ready although a later one is). Executions: first ready, first served, is optimal on one
/// machine with release times.
class Optimum {
 public:
  explicit Optimum(const LayerInstance& instance) : in_(instance) {
    for (std::size_t e = 0; e < in_.experts.size(); ++e)
      for (std::uint32_t n = 0; n < in_.experts[e].tensors; ++n) {
        const State state = in_.experts[e].state;
        const int shards = state == State::F ? 0 : static_cast<int>(in_.shards);
        Task task{e, reads_e(state) ? shards : 0, reads_sm(state) ? 1 : 0, shards, shards > 0, 0, {}};
        if (!reads_e(state)) task.arrivals.assign(static_cast<std::size_t>(shards), 0.0);
        tasks_.push_back(task);
      }
  }
  /// How many combinations solve() tries.
  double size() const {
    std::vector<int> reads, chunks, recoveries;
    for (const Task& task : tasks_) {
      reads.insert(reads.end(), {task.e, task.sm});
      chunks.push_back(task.chunks);
      if (task.recovers && in_.recover_s > 0) recoveries.push_back(1);
    }
    return multinomial(reads) * multinomial(chunks) * multinomial(recoveries);
  }
  double solve() {
    threads_.assign(in_.threads, 0.0);
    read(0);
    return best_;
  }

 private:
  struct Task {
    std::size_t expert;
    int e, sm, chunks;  // still to read, to decompress
    bool recovers;      // still
    double ready;
    std::vector<double> arrivals;
  };

  void read(double now) {
    bool all = true;
    for (Task& task : tasks_) {
      if (task.e > 0) {
        all = false;
        --task.e;
        task.arrivals.push_back(now + in_.e_read_s);
        read(now + in_.e_read_s);
        task.arrivals.pop_back();
        ++task.e;
      }
      if (task.sm > 0) {
        all = false;
        const double ready = std::exchange(task.ready, now + in_.sm_read_s);
        task.sm = 0;
        read(now + in_.sm_read_s);
        task.sm = 1;
        task.ready = ready;
      }
    }
    if (all) decompress();
  }

  void decompress() {
    bool all = true;
    for (Task& task : tasks_) {
      if (task.chunks == 0) continue;
      all = false;
      double& thread = *std::min_element(threads_.begin(), threads_.end());
      const double arrival = task.arrivals[task.arrivals.size() - static_cast<std::size_t>(task.chunks)];
      const double end = std::max(thread, arrival) + in_.decompress_s;
      const double before = std::exchange(thread, end), ready = task.ready;
      task.ready = std::max(ready, end);
      --task.chunks;
      decompress();
      ++task.chunks;
      task.ready = ready;
      thread = before;
    }
    if (all) recover(0);
  }

  void recover(double now) {
    bool all = true;
    if (in_.recover_s > 0)  // instant recoveries end when they are ready, in any order
      for (Task& task : tasks_) {
        if (!task.recovers) continue;
        all = false;
        const double ready = task.ready;
        task.ready = std::max(now, ready) + in_.recover_s;
        task.recovers = false;
        recover(task.ready);
        task.recovers = true;
        task.ready = ready;
      }
    if (all) execute();
  }

  void execute() {
    std::vector<std::pair<double, double>> experts;
    for (const LayerExpert& expert : in_.experts) experts.emplace_back(0.0, expert.execute_s);
    for (const Task& task : tasks_)
      experts[task.expert].first = std::max(experts[task.expert].first, task.ready);
    std::sort(experts.begin(), experts.end());
    double now = 0;
    for (const auto& [ready, duration] : experts) now = std::max(now, ready) + duration;
    best_ = std::min(best_, now);
  }

  const LayerInstance& in_;
  std::vector<Task> tasks_;
  std::vector<double> threads_;
  double best_ = std::numeric_limits<double>::infinity();
};

}  // namespace moelab::schedule_reference
