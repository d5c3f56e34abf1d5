// The one dispatcher, over any executor. See engine.hpp for its rules.
#pragma once

#include <algorithm>
#include <cassert>
#include <coroutine>
#include <exception>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/engine/fast_executor.hpp"
#include "sim/engine/invariant.hpp"
#include "sim/engine/lone_graph.hpp"
#include "sim/engine/shared_capacity.hpp"

namespace moelab::engine {

template <class Executor>
class Dispatcher final : public Engine {
 public:
  /// The arguments are the executor's.
  template <class... Arguments>
  explicit Dispatcher(Arguments&&... arguments) : executor_(std::forward<Arguments>(arguments)...) {}

  ResourceId add_resource(std::string name, std::uint32_t slots) override {
    resources_.push_back({});
    resources_.back().free = slots;
    resources_.back().slots = slots;
    slots_.push_back(slots);
    names_.push_back(std::move(name));
    marked_.resize(resources_.size());
    disturbs_.resize(resources_.size());
    free_.push_back(0);
    return static_cast<ResourceId>(resources_.size() - 1);
  }
  CapacityId add_capacity(std::string, const CapacityLaw& law) override {
    if (interferences_.size() == kNetwork) throw std::length_error("engine: too many capacities");
    executor_.add_capacity(law);
    interferences_.emplace_back();
    users_.emplace_back();
    return static_cast<CapacityId>(interferences_.size() - 1);
  }
  bool resolves_chains() const override { return Executor::kResolvesChains; }
  void add_interference(Interference interference) override {
    interferences_[interference.capacity].push_back(interference);
    interferes_ = true;
    if (const auto* const resource = std::get_if<ResourceId>(&interference.busy))
      return disturbs_[*resource].push_back(interference.capacity);
    users_[std::get<UsersOf>(interference.busy).capacity].disturb.push_back(interference.capacity);
    users_disturb_ = true;
  }
  void set_network(const NetworkLaw& law) override {
    if (executor_.nodes() > 0) throw std::logic_error("engine: the network is set once");
    executor_.set_network(law);
  }
  void set_node(NodeId node, NetworkLaw::Node bandwidth) override {
    check_nodes(node, node);
    executor_.set_node(node, bandwidth, local_);
  }
  double flow_seconds(NodeId from, NodeId to, double bytes) const override {
    check_nodes(from, to);
    return executor_.flow_seconds(from, to, bytes);
  }
  void make_free(ResourceId resource) override {
    free_[resource] = 1;
    frees_ = true;
  }
  bool is_free(ResourceId resource) const override { return free_[resource] != 0; }
  void spawn(Process& process) override {
    process.report_failure_to(failure_);
    woken_.push_back(process.handle());
  }

  void run() override;
  bool alone() const override {
    return !Executor::kOwnClock && live_graphs_ == 0 && timers_.empty() && next_woken_ == woken_.size() &&
           next_finished_ == finished_.size();
  }
  void skip(const Outcome& outcome) override;
  void submit(Graph& graph, int priority) override;
  void cancel(Graph& graph) override;
  void set_priority(Graph& graph, int priority) override;

  std::size_t resources() const override { return resources_.size(); }
  const std::string& resource_name(ResourceId resource) const override { return names_[resource]; }
  std::uint32_t slots(ResourceId resource) const override { return slots_[resource]; }
  double busy_seconds(ResourceId resource) const override { return resources_[resource].busy_seconds; }
  std::uint64_t operations() const override { return operations_; }
  const char* executor_name() const override { return Executor::kName; }

 private:
  /// A graph's lane waiting at a resource.
  struct Queue {
    Graph* graph;
    const Graph::LaneState* lane;
  };
  struct Resource {
    std::uint32_t free = 0;
    std::uint32_t slots = 0;
    bool marked = false;
    double busy_seconds = 0;
    std::vector<Queue> queues;  // most urgent first
  };
  /// Operations in flight that use a capacity, and the capacities that they slow. Counted where they do.
  struct Users {
    std::uint32_t in_flight = 0;
    bool marked = false;  // some have come or gone at this instant
    std::vector<CapacityId> disturb;
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
    next_timer_ = timers_.front().time;
  }

  /// Slots of all resources together; of one with unlimited slots, some.
  std::size_t most_at_once() const {
    std::size_t all = 0;
    for (const std::uint32_t slots : slots_) all += std::min<std::size_t>(slots, kManySlots);
    return all;
  }
  void check_nodes(NodeId from, NodeId to) const {
    if (std::max(from, to) >= executor_.nodes())
      throw std::logic_error("engine: the network has " + std::to_string(executor_.nodes()) +
                             " nodes, and none of number " + std::to_string(std::max(from, to)));
  }
  double round(double now, std::span<InFlight> ended);
  void complete(Graph& graph, OpIndex op);
  void meet_dependency(Graph& graph, OpIndex op, OpIndex by);
  void decide();
  void dispatch();
  void serve(Resource& resource);
  void start(Graph& graph, OpIndex op, Resource& resource);
  void count_users(CapacityId capacity, std::uint32_t change);
  bool is_busy(const Interference& interference) const;
  void interfere(CapacityId capacity);
  void interfere_where_marked(std::size_t marks);
  bool run_lone_graph();
  void finish(Graph& graph);
  void enqueue(Graph& graph);
  void leave_queues(Graph& graph);
  /// Something may start there.
  void mark(ResourceId id) {
    if (std::exchange(resources_[id].marked, true)) return;
    marked_[marks_++] = id;
  }
  bool process_decides() const { return !finished_.empty() || !woken_.empty() || next_timer_ <= now_; }
  static void sort_completions(std::span<InFlight> ended) {
    std::sort(ended.begin(), ended.end(), [](const InFlight& a, const InFlight& b) {
      return a.graph != b.graph ? a.graph->sequence_ < b.graph->sequence_ : a.op < b.op;
    });
  }

  static constexpr std::size_t kManySlots = 256;

  Executor executor_;
  std::vector<Resource> resources_;
  std::vector<std::string> names_;
  std::vector<std::uint32_t> slots_;                      // by resource
  std::vector<std::vector<Interference>> interferences_;  // by capacity
  std::vector<std::vector<CapacityId>> disturbs_;         // by resource: capacities that it slows when busy
  std::vector<Users> users_;                              // by capacity
  std::vector<CapacityId> users_marked_;
  bool interferes_ = false, users_disturb_ = false;
  std::vector<std::uint8_t> free_;  // by resource: whether what runs there takes no time
  bool frees_ = false;              // whether any is so
  LoneGraph lone_;
  Graph* fresh_ = nullptr;          // submitted while no other was alive; nothing of it has started
  std::vector<ResourceId> marked_;  // the first marks_, in no order: where something may start
  std::size_t marks_ = 0;
  std::vector<std::pair<Graph*, OpIndex>> continuing_;  // start on the slots of what they continue
  std::vector<std::coroutine_handle<>> finished_;       // what waited for graphs that have finished
  std::size_t next_finished_ = 0;                       // of those, while they are resumed
  std::vector<Timer> timers_;
  double next_timer_ = std::numeric_limits<double>::infinity();
  std::vector<std::coroutine_handle<>> woken_;
  std::size_t next_woken_ = 0;  // of those, while they are resumed
  std::exception_ptr failure_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t operations_ = 0;
  std::size_t live_graphs_ = 0;
  double epoch_ =
      0;  // now_ when a graph was last submitted with none alive; 0 where the executor has a clock
  double local_ = 0;  // seconds since then: what in-flight operations and graphs count in
};

template <class Executor>
void Dispatcher<Executor>::run() {
  executor_.prepare(most_at_once(), slots_);
  decide();
  while (run_lone_graph()) decide();
  dispatch();
  executor_.drive(next_timer_ - epoch_,
                  [this](double now, std::span<InFlight> ended) { return round(now, ended); });
  if (live_graphs_ != 0)
    throw std::logic_error("engine: " + std::to_string(live_graphs_) +
                           " submitted graph(s) can never finish: a cycle of dependencies");
}

// An instant, `now` since the epoch, at which operations end or a process wants to be woken. Returns when
// that is next.
template <class Executor>
double Dispatcher<Executor>::round(double now, std::span<InFlight> ended) {
  check_invariant(now >= local_, "time runs forward");
  local_ = now;
  now_ = std::max(now_, epoch_ + now);
  if (next_timer_ - epoch_ <= now) now_ = std::max(now_, next_timer_);  // the sum may miss it by a rounding
  if (ended.size() > 1) sort_completions(ended);
  for (const InFlight& done : ended) complete(*done.graph, done.op);
  for (const auto& [graph, op] : continuing_) start(*graph, op, resources_[graph->resource(op)]);
  continuing_.clear();
  if (process_decides()) {
    decide();
    while (run_lone_graph()) decide();
  }
  dispatch();
  return next_timer_ - epoch_;
}

template <class Executor>
void Dispatcher<Executor>::submit(Graph& graph, int priority) {
  assert(graph.state_ != Graph::State::submitted);
  for (const Graph::Flow& flow : graph.flows_) check_nodes(flow.from, flow.to);
  if (!Executor::kOwnClock && live_graphs_ == 0) {
    epoch_ = now_;
    local_ = 0;
    fresh_ = &graph;
  }
  if (frees_) graph.take_no_time(free_);
  graph.priority_ = priority;
  graph.sequence_ = next_sequence_++;
  graph.prepare(epoch_, local_, now_);
  ++live_graphs_;
  if (graph.unfinished_ == 0) {
    finish(graph);
    return;
  }
  enqueue(graph);
}

template <class Executor>
void Dispatcher<Executor>::skip(const Outcome& outcome) {
  assert(alone());
  now_ += outcome.seconds;
  operations_ += outcome.operations;
  for (std::size_t i = 0; i < outcome.lanes; ++i)
    resources_[outcome.busy[i].resource].busy_seconds += outcome.busy[i].seconds;
}

template <class Executor>
void Dispatcher<Executor>::enqueue(Graph& graph) {
  for (const Graph::LaneState& lane : graph.lanes_) {
    Resource& resource = resources_[lane.resource];
    const auto later = [&](const Queue& q) {
      return q.graph->priority_ > graph.priority_ ||
             (q.graph->priority_ == graph.priority_ && q.graph->sequence_ > graph.sequence_);
    };
    // From the end: most graphs are no more urgent than those that were submitted before them.
    auto place = resource.queues.end();
    while (place != resource.queues.begin() && later(*(place - 1))) --place;
    resource.queues.insert(place, {&graph, &lane});
    mark(lane.resource);
  }
}

template <class Executor>
void Dispatcher<Executor>::leave_queues(Graph& graph) {
  for (const Graph::LaneState& lane : graph.lanes_) {
    std::vector<Queue>& queues = resources_[lane.resource].queues;
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
  graph.finished_local_ = local_;
  graph.state_ = Graph::State::finished;
  for (const Graph::LaneState& lane : graph.lanes_)
    resources_[lane.resource].busy_seconds += lane.busy_seconds;
  --live_graphs_;
  if (fresh_ == &graph) fresh_ = nullptr;
  for (const auto& [follower, op] : graph.followers_) {
    meet_dependency(*follower, op, kNoOp);
    std::erase(follower->foreign_, std::pair{op, &graph});  // the graph may be gone from now on
  }
  graph.followers_.clear();
  if (graph.waiter_) finished_.push_back(std::exchange(graph.waiter_, {}));
}

template <class Executor>
void Dispatcher<Executor>::meet_dependency(Graph& graph, OpIndex op, OpIndex by) {
  std::uint32_t& unmet = graph.unmet_[op];
  if (unmet == kNoOp) return;  // cancelled
  check_invariant(unmet > 0, "a dependency is met once");
  if (--unmet != 0) return;
  graph.last_dependencies_[op] = by;
  if (by == kNoOp) graph.met_by_others_.emplace_back(op, local_);
  graph.set_ready(op);
  mark(graph.resource(op));
}

template <class Executor>
void Dispatcher<Executor>::complete(Graph& graph, OpIndex done) {
  const Graph::Op& op = graph.ops_[done];
  Graph::LaneState& lane = graph.lanes_[op.lane];
  Resource& resource = resources_[lane.resource];
  graph.ends_[done] = local_;
  lane.busy_seconds += local_ - graph.starts_[done];
  ++operations_;

  if (users_disturb_) count_users(op.capacity, -1U);
  ++resource.free;
  check_invariant(resource.free <= resource.slots, "no more slots are freed than there are");
  if (op.continued && graph.unmet_[done + 1] != kNoOp) {  // the slot is taken again before anything else is
    check_invariant(graph.unmet_[done + 1] == 1, "a continuation depends on nothing else");
    graph.unmet_[done + 1] = 0;
    graph.last_dependencies_[done + 1] = done;
    continuing_.emplace_back(&graph, done + 1);
  } else {
    mark(lane.resource);
  }
  if (op.successor != kNoOp) meet_dependency(graph, op.successor, done);
  for (std::uint32_t e = op.more; e != Graph::kNoEdge; e = graph.edges_[e].next)
    meet_dependency(graph, graph.edges_[e].to, done);
  if (--graph.unfinished_ == 0) {
    graph.last_ = done;
    leave_queues(graph);
    finish(graph);
  }
}

template <class Executor>
void Dispatcher<Executor>::decide() {
  // A process may finish further graphs at this instant (empty ones, cancelled ones), or wait until now.
  for (;;) {
    if (next_finished_ < finished_.size()) {  // by number: resuming one may finish more
      finished_[next_finished_++].resume();
    } else if (next_timer_ <= now_) {
      std::pop_heap(timers_.begin(), timers_.end());
      const auto handle = timers_.back().handle;
      timers_.pop_back();
      next_timer_ = timers_.empty() ? std::numeric_limits<double>::infinity() : timers_.front().time;
      ++wakes_;
      handle.resume();
    } else if (next_woken_ < woken_.size()) {
      woken_[next_woken_++].resume();
    } else {
      break;
    }
    if (failure_) std::rethrow_exception(failure_);
  }
  finished_.clear();
  next_finished_ = 0;
  woken_.clear();
  next_woken_ = 0;
}

template <class Executor>
void Dispatcher<Executor>::dispatch() {
  fresh_ = nullptr;
  // In the order of the resources: it decides who finds a capacity shared.
  const std::size_t marks = std::exchange(marks_, 0);
  if (marks > 1) std::sort(marked_.begin(), marked_.begin() + static_cast<std::ptrdiff_t>(marks));
  for (std::size_t i = 0; i < marks; ++i) {
    Resource& resource = resources_[marked_[i]];
    resource.marked = false;
    serve(resource);
  }
  if (interferes_) interfere_where_marked(marks);
}

// Starts what is ready on a resource, as long as it has free slots.
template <class Executor>
void Dispatcher<Executor>::serve(Resource& resource) {
  for (const Queue& queue : resource.queues) {
    while (resource.free > 0) {
      const OpIndex op = queue.lane->ready.pop();
      if (op == kNoOp) break;
      start(*queue.graph, op, resource);
    }
  }
}

template <class Executor>
void Dispatcher<Executor>::start(Graph& graph, OpIndex op, Resource& resource) {
  check_invariant(resource.free > 0, "an operation starts on a free slot");
  check_invariant(graph.unmet_[op] == 0, "an operation starts after its dependencies");
  --resource.free;
  graph.starts_[op] = local_;
  ++graph.started_;
  if (users_disturb_) count_users(graph.capacity(op), 1);
  executor_.start(graph, op, local_);
}

// Of an operation that starts (1) or has ended (-1, modulo 2^32).
template <class Executor>
void Dispatcher<Executor>::count_users(CapacityId capacity, std::uint32_t change) {
  if (capacity >= users_.size() || users_[capacity].disturb.empty()) return;
  Users& users = users_[capacity];
  users.in_flight += change;
  if (!std::exchange(users.marked, true)) users_marked_.push_back(capacity);
}

template <class Executor>
bool Dispatcher<Executor>::is_busy(const Interference& interference) const {
  if (const auto* const users = std::get_if<UsersOf>(&interference.busy))
    return users_[users->capacity].in_flight > 0;
  const Resource& resource = resources_[std::get<ResourceId>(interference.busy)];
  return resource.free < resource.slots;
}

// Tells the executor by how much what is busy now slows the users of a capacity.
template <class Executor>
void Dispatcher<Executor>::interfere(CapacityId capacity) {
  double factor = 1;
  for (const Interference& i : interferences_[capacity])
    if (is_busy(i)) factor *= i.factor;
  executor_.set_factor(capacity, factor, local_);
}

// A resource that nothing has started or ended on is as busy as it was, and so are the users of a capacity.
template <class Executor>
void Dispatcher<Executor>::interfere_where_marked(std::size_t marks) {
  for (std::size_t i = 0; i < marks; ++i)
    for (const CapacityId capacity : disturbs_[marked_[i]]) interfere(capacity);
  for (const CapacityId changed : users_marked_) {
    users_[changed].marked = false;
    for (const CapacityId capacity : users_[changed].disturb) interfere(capacity);
  }
  users_marked_.clear();
}

// What was submitted while nothing was going on, by a process that now waits for it, runs in one go.
template <class Executor>
bool Dispatcher<Executor>::run_lone_graph() {
  if (Executor::kOwnClock || fresh_ == nullptr || live_graphs_ != 1 || !timers_.empty()) return false;
  Graph& graph = *std::exchange(fresh_, nullptr);
  if (!lone_.run(graph, slots_)) return false;
  local_ = lone_.seconds();
  now_ = std::max(now_, epoch_ + local_);
  operations_ += lone_.operations();
  if (graph.unfinished_ == 0) {
    leave_queues(graph);
    finish(graph);
  }
  return true;
}

}  // namespace moelab::engine
