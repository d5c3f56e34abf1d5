// The engine: resources, graphs of operations, and time. It never asks what an operation means.
//
// One dispatcher owns all order rules; what differs between executors is only when an operation that was
// started ends:
//   fast      computed: its seconds, shared capacities resolved exactly (fast_executor.hpp), flows over the
//             network at rates that need no solver, exact on a mesh (fair_network.hpp);
//   simgrid   SimGrid's, which also resolves capacities behind capacities, and gives flows max-min rates on
//             any network (sim/simgrid/simgrid_executor.cpp).
// A graph that nothing can meet while it runs is computed in one go, by the same rules (lone_graph.hpp).
// Rules: a resource has slots; when a slot is free and operations are ready, the most urgent one starts
// (work-conserving, non-preemptive). More urgent is: smaller graph priority, then earlier submitted graph,
// then earlier added operation. At one instant all completions are processed first, then the processes that
// wait for them decide, then operations start, resource by resource in the order of addition. A continuation
// starts as soon as all completions are processed. What takes no time ends in the next such round.
#pragma once

#include <coroutine>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "sim/engine/graph.hpp"
#include "sim/engine/network.hpp"
#include "sim/engine/process.hpp"
#include "sim/engine/shared_capacity.hpp"

namespace moelab::engine {

/// Smaller is more urgent.
inline constexpr int kDemand = 0;
inline constexpr int kPrefetch = 1;

inline constexpr std::uint32_t kUnlimitedSlots = std::numeric_limits<std::uint32_t>::max();

/// The operations that use a capacity, from their start to their end: what of them is not shared (a latency)
/// included.
struct UsersOf {
  CapacityId capacity;
};

/// While an operation runs on resource `busy`, or one of the `busy` users of a capacity does, the users of
/// `capacity` take `factor` times as long, however many there are. Where several interferences of a capacity
/// are busy their factors multiply. Factors follow from what runs, not from how fast: two capacities may slow
/// each other. Under `simgrid` what is beyond the capacity may slow its users further: they get what the
/// slower of the two leaves them, not the product. On hardware the machine itself does this.
struct Interference {
  CapacityId capacity;
  std::variant<ResourceId, UsersOf> busy;
  double factor;
};

class Engine {
 public:
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Before run().
  virtual ResourceId add_resource(std::string name, std::uint32_t slots) = 0;
  virtual CapacityId add_capacity(std::string name, const CapacityLaw& law) = 0;
  /// Whether operations that cross a capacity use what is beyond it as well.
  virtual bool resolves_chains() const = 0;
  virtual void add_interference(Interference interference) = 0;
  /// What Graph::flow sends over; once. Throws InputError for a law that is wrong or that the executor does
  /// not know (fast: platform files), std::logic_error from an engine that has no network (the hardware's).
  virtual void set_network(const NetworkLaw& law) = 0;
  /// Operations on this resource take no time from now on, and use no capacity and no network: as if it were
  /// infinitely fast. For simulated time.
  virtual void make_free(ResourceId resource) = 0;
  virtual bool is_free(ResourceId resource) const = 0;
  /// The process takes its first step when run() begins (or at this instant, if the engine runs already).
  virtual void spawn(Process& process) = 0;

  /// Runs until nothing is left to do. Throws what a process threw; std::logic_error if a submitted graph can
  /// never finish.
  virtual void run() = 0;

  // From a process.
  double now() const { return now_; }
  virtual void submit(Graph& graph, int priority) = 0;
  /// Takes out what has not started; the graph is finished when what runs has ended (at once, if nothing
  /// does).
  virtual void cancel(Graph& graph) = 0;
  /// Changes the urgency of what has not started.
  virtual void set_priority(Graph& graph, int priority) = 0;

  /// A node's bandwidths from now on, also for flows under way. Of a star or mesh; throws InputError for a
  /// bandwidth that is not above 0; `simgrid` also where a limit comes or goes, std::logic_error of a
  /// platform.
  virtual void set_node(NodeId node, NetworkLaw::Node bandwidth) = 0;
  /// Seconds that `bytes` take from node to node with the network to themselves as it is now, a platform's
  /// latency included. After set_network().
  virtual double flow_seconds(NodeId from, NodeId to, double bytes) const = 0;

  /// Whether nothing is going on but the process that asks: no graph is alive and no process waits for a
  /// moment. Always false where time is not the engine's to move (another program's, or the real one).
  virtual bool alone() const = 0;
  /// Moves time on as if a graph of that outcome had been submitted and waited for, to the last digit. Only
  /// when alone().
  virtual void skip(const Outcome& outcome) = 0;

  struct GraphAwaiter {
    Graph& graph;
    bool await_ready() const { return graph.finished(); }
    void await_suspend(std::coroutine_handle<> handle) const { graph.waiter_ = handle; }
    void await_resume() const {}
  };
  struct TimeAwaiter {
    Engine& engine;
    double time;
    bool await_ready() const { return time <= engine.now_; }
    void await_suspend(std::coroutine_handle<> handle) const { engine.wake_at(time, handle); }
    void await_resume() const {}
  };
  /// co_await engine.finished(graph)
  GraphAwaiter finished(Graph& graph) const { return {graph}; }
  /// co_await engine.until(t): t in seconds of engine time
  TimeAwaiter until(double time) { return {*this, time}; }

  // What happened so far.
  virtual std::size_t resources() const = 0;
  virtual const std::string& resource_name(ResourceId resource) const = 0;
  virtual std::uint32_t slots(ResourceId resource) const = 0;
  virtual double busy_seconds(ResourceId resource) const = 0;  // summed over slots
  virtual std::uint64_t operations() const = 0;                // completed
  std::uint64_t wakes() const { return wakes_; }               // of processes, at times they waited for
  virtual const char* executor_name() const = 0;

 protected:
  Engine() = default;
  virtual void wake_at(double time, std::coroutine_handle<> handle) = 0;
  double now_ = 0;
  std::uint64_t wakes_ = 0;
};

/// The simulator's default: each operation takes the time it was given, stretched by the capacity that it
/// shares and by interference as they are at every instant.
std::unique_ptr<Engine> make_fast_engine();

}  // namespace moelab::engine
