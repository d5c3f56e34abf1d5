// The one dispatcher, over any executor. See engine.hpp for its rules.
#pragma once

#include <algorithm>
#include <cassert>
#include <coroutine>
#include <exception>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/engine/fast_executor.hpp"

namespace moelab::engine {

/// Invariants of the dispatch rule, checked while simulating in test builds.
#ifdef MOELAB_CHECK_INVARIANTS
inline void check_invariant(bool holds, const char* what) {
  if (!holds) throw std::logic_error(std::string("engine invariant broken: ") + what);
}
#else
inline void check_invariant(bool, const char*) {}
#endif

template <class Executor>
class Dispatcher final : public Engine {
 public:
  ResourceId add_resource(std::string name, std::uint32_t slots) override {
    resources_.push_back({});
    resources_.back().free = slots;
    resources_.back().slots = slots;
    names_.push_back(std::move(name));
    marked_.resize((resources_.size() + 63) / 64);
    return static_cast<ResourceId>(resources_.size() - 1);
  }
  CapacityId add_capacity(std::string, std::vector<double> slowdown) override {
    if constexpr (Executor::kSharesCapacities) executor_.add_capacity(slowdown);
    capacities_.push_back({std::move(slowdown), 0, {}});
    return static_cast<CapacityId>(capacities_.size() - 1);
  }
  void add_interference(Interference interference) override {
    capacities_[interference.capacity].slowed_by.emplace_back(interference.busy, interference.factor);
  }
  void spawn(Process& process) override {
    process.report_failure_to(failure_);
    woken_.push_back(process.handle());
  }

  void run() override;
  void submit(Graph& graph, int priority) override;
  void cancel(Graph& graph) override;
  void set_priority(Graph& graph, int priority) override;

  std::size_t resources() const override { return resources_.size(); }
  const std::string& resource_name(ResourceId resource) const override { return names_[resource]; }
  double busy_seconds(ResourceId resource) const override { return resources_[resource].busy_seconds; }
  std::uint64_t operations() const override { return operations_; }
  const char* executor_name() const override { return Executor::kName; }

 private:
  /// A graph's lane waiting at a resource.
  struct Queue {
    Graph* graph;
    Lane lane;
  };
  struct Resource {
    std::uint32_t free = 0;
    std::uint32_t slots = 0;
    double busy_seconds = 0;
    std::vector<Queue> queues;  // most urgent first
  };
  struct Capacity {
    std::vector<double> slowdown;
    std::uint32_t users;
    std::vector<std::pair<ResourceId, double>> slowed_by;
  };
  struct Timer {
    double time;
    std::uint64_t sequence;
    std::coroutine_handle<> handle;
    bool operator<(const Timer& other) const {  // std heap functions keep the largest first
      return time != other.time ? time > other.time : sequence > other.sequence;
    }
  };

  void wake_at(double time, std::coroutine_handle<> handle) override {
    timers_.push_back({time, next_sequence_++, handle});
    std::push_heap(timers_.begin(), timers_.end());
  }

  void complete(const InFlight& done);
  void meet_dependency(Graph& graph, OpIndex op, OpIndex by);
  void decide();
  void dispatch();
  void start(Graph& graph, OpIndex op, Resource& resource);
  double stretch(Capacity& capacity);
  void finish(Graph& graph);
  void enqueue(Graph& graph);
  void leave_queues(Graph& graph);
  void mark(ResourceId id) { marked_[id >> 6] |= std::uint64_t{1} << (id & 63); }
  double next_timer() const {
    return timers_.empty() ? std::numeric_limits<double>::infinity() : timers_.front().time;
  }
  bool somebody_decides() const { return !finished_.empty() || !woken_.empty() || next_timer() <= now_; }
  static void sort_completions(std::vector<InFlight>& ended) {
    std::sort(ended.begin(), ended.end(), [](const InFlight& a, const InFlight& b) {
      return a.graph != b.graph ? a.graph->sequence_ < b.graph->sequence_ : a.op < b.op;
    });
  }

  Executor executor_;
  std::vector<Resource> resources_;
  std::vector<std::string> names_;
  std::vector<Capacity> capacities_;
  std::vector<std::uint64_t> marked_;                   // a bit a resource: something may start there
  std::vector<std::pair<Graph*, OpIndex>> continuing_;  // start on the slots of what they continue
  std::vector<std::coroutine_handle<>> finished_;       // what waited for graphs that have finished
  std::vector<Timer> timers_;
  std::vector<std::coroutine_handle<>> woken_;
  std::exception_ptr failure_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t operations_ = 0;
  std::size_t live_graphs_ = 0;
};

template <class Executor>
void Dispatcher<Executor>::run() {
  decide();
  dispatch();
  executor_.drive(next_timer(), [this](double now, std::vector<InFlight>& ended) {
    check_invariant(now >= now_, "time runs forward");
    now_ = now;
    if (ended.size() > 1) sort_completions(ended);
    for (const InFlight& done : ended) complete(done);
    for (const auto& [graph, op] : continuing_) start(*graph, op, resources_[graph->resource(op)]);
    continuing_.clear();
    if (somebody_decides()) decide();
    dispatch();
    return next_timer();
  });
  if (live_graphs_ != 0)
    throw std::logic_error("engine: " + std::to_string(live_graphs_) +
                           " submitted graph(s) can never finish: a cycle of dependencies");
}

template <class Executor>
void Dispatcher<Executor>::submit(Graph& graph, int priority) {
  assert(graph.state_ != Graph::State::submitted);
  graph.priority_ = priority;
  graph.sequence_ = next_sequence_++;
  graph.prepare(now_);
  ++live_graphs_;
  if (graph.unfinished_ == 0) {
    finish(graph);
    return;
  }
  enqueue(graph);
}

template <class Executor>
void Dispatcher<Executor>::enqueue(Graph& graph) {
  for (std::size_t i = 0; i < graph.lanes_.size(); ++i) {
    Resource& resource = resources_[graph.lanes_[i]];
    const auto later = [&](const Queue& q) {
      return q.graph->priority_ > graph.priority_ ||
             (q.graph->priority_ == graph.priority_ && q.graph->sequence_ > graph.sequence_);
    };
    resource.queues.insert(std::find_if(resource.queues.begin(), resource.queues.end(), later),
                           {&graph, static_cast<Lane>(i)});
    mark(graph.lanes_[i]);
  }
}

template <class Executor>
void Dispatcher<Executor>::leave_queues(Graph& graph) {
  for (const ResourceId id : graph.lanes_) {
    std::vector<Queue>& queues = resources_[id].queues;
    const auto mine =
        std::find_if(queues.begin(), queues.end(), [&](const Queue& q) { return q.graph == &graph; });
    if (mine != queues.end()) queues.erase(mine);
  }
}

template <class Executor>
void Dispatcher<Executor>::cancel(Graph& graph) {
  if (graph.state_ != Graph::State::submitted || graph.unfinished_ == 0) return;
  leave_queues(graph);
  graph.take_unstarted_out();
  if (graph.unfinished_ == 0) finish(graph);
}

template <class Executor>
void Dispatcher<Executor>::set_priority(Graph& graph, int priority) {
  if (graph.state_ != Graph::State::submitted || graph.priority_ == priority) return;
  leave_queues(graph);
  graph.priority_ = priority;
  enqueue(graph);
}

template <class Executor>
void Dispatcher<Executor>::finish(Graph& graph) {
  graph.finished_at_ = now_;
  graph.state_ = Graph::State::finished;
  --live_graphs_;
  for (const auto& [follower, op] : graph.followers_) {
    meet_dependency(*follower, op, kNoOp);
    std::erase(follower->foreign_, std::pair{op, &graph});  // the graph may be gone from now on
  }
  graph.followers_.clear();
  if (graph.waiter_) finished_.push_back(std::exchange(graph.waiter_, {}));
}

template <class Executor>
void Dispatcher<Executor>::meet_dependency(Graph& graph, OpIndex op, OpIndex by) {
  Graph::Run& run = graph.runs_[op];
  if (run.unmet == kNoOp) return;  // cancelled
  check_invariant(run.unmet > 0, "a dependency is met once");
  if (--run.unmet != 0) return;
  run.last_dependency = by;
  graph.set_ready(op);
  mark(graph.lanes_[graph.ops_[op].lane]);
}

template <class Executor>
void Dispatcher<Executor>::complete(const InFlight& done) {
  Graph& graph = *done.graph;
  const Graph::Op& op = graph.ops_[done.op];
  graph.runs_[done.op].end = now_;
  ++operations_;
  if (!Executor::kSharesCapacities && op.capacity != kNoCapacity) --capacities_[op.capacity].users;
  const ResourceId id = graph.lanes_[op.lane];
  Resource& resource = resources_[id];
  resource.busy_seconds += now_ - graph.runs_[done.op].start;

  ++resource.free;
  check_invariant(resource.free <= resource.slots, "no more slots are freed than there are");
  const OpIndex next = done.op + 1;
  if (op.continued && graph.runs_[next].unmet != kNoOp) {  // the slot is taken again before anything else is
    check_invariant(graph.runs_[next].unmet == 1, "a continuation depends on nothing else");
    graph.runs_[next].unmet = 0;
    graph.runs_[next].last_dependency = done.op;
    continuing_.emplace_back(&graph, next);
  } else {
    mark(id);
  }
  if (op.successor != kNoOp) meet_dependency(graph, op.successor, done.op);
  for (std::uint32_t e = op.more; e != Graph::kNoEdge; e = graph.edges_[e].next)
    meet_dependency(graph, graph.edges_[e].to, done.op);
  if (--graph.unfinished_ == 0) {
    graph.last_ = done.op;
    leave_queues(graph);
    finish(graph);
  }
}

template <class Executor>
void Dispatcher<Executor>::decide() {
  // A process may finish further graphs at this instant (empty ones, cancelled ones), or wait until now.
  std::size_t next_finished = 0;  // by number: resuming one may finish more
  for (;;) {
    if (next_finished < finished_.size()) {
      finished_[next_finished++].resume();
    } else if (!timers_.empty() && timers_.front().time <= now_) {
      std::pop_heap(timers_.begin(), timers_.end());
      const auto handle = timers_.back().handle;
      timers_.pop_back();
      handle.resume();
    } else if (!woken_.empty()) {
      const auto handle = woken_.front();
      woken_.erase(woken_.begin());
      handle.resume();
    } else {
      break;
    }
    if (failure_) std::rethrow_exception(failure_);
  }
  finished_.clear();
}

template <class Executor>
void Dispatcher<Executor>::dispatch() {
  // In the order of the resources: it decides who finds a capacity shared.
  for (std::size_t word = 0; word < marked_.size(); ++word) {
    for (std::uint64_t left = std::exchange(marked_[word], 0); left != 0; left &= left - 1) {
      Resource& resource = resources_[(word << 6) + static_cast<std::size_t>(__builtin_ctzll(left))];
      for (const Queue& queue : resource.queues) {
        if (resource.free == 0) break;
        do {
          const OpIndex op = queue.graph->pop_ready(queue.lane);
          if (op == kNoOp) break;
          start(*queue.graph, op, resource);
        } while (resource.free > 0);
      }
    }
  }
}

template <class Executor>
void Dispatcher<Executor>::start(Graph& graph, OpIndex op, Resource& resource) {
  check_invariant(resource.free > 0, "an operation starts on a free slot");
  check_invariant(graph.runs_[op].unmet == 0, "an operation starts after its dependencies");
  double seconds = graph.ops_[op].seconds;
  if (!Executor::kSharesCapacities && graph.ops_[op].capacity != kNoCapacity)
    seconds += graph.ops_[op].shared_seconds * (stretch(capacities_[graph.ops_[op].capacity]) - 1);
  --resource.free;
  graph.runs_[op].start = now_;
  ++graph.started_;
  executor_.start(graph, op, now_, seconds);
}

template <class Executor>
double Dispatcher<Executor>::stretch(Capacity& capacity) {
  double factor = 1;
  for (const auto& [other, slowdown] : capacity.slowed_by)
    if (resources_[other].free < resources_[other].slots) factor *= slowdown;
  const std::size_t users = ++capacity.users;
  const std::size_t known = capacity.slowdown.size();
  return factor * (users <= known
                       ? capacity.slowdown[users - 1]
                       : capacity.slowdown.back() * static_cast<double>(users) / static_cast<double>(known));
}

}  // namespace moelab::engine
