// A graph of operations: what a serving loop submits to the engine and waits for.
//
// An operation occupies one slot of one resource for some seconds, after the operations it depends on. The
// order in which operations are added is their priority within the graph (first = most urgent); the graph as
// a whole has a priority too. The caller owns the graph, keeps it alive until it is finished, and reads the
// times off it afterwards. Buffers are kept by clear(), so that a graph used again and again allocates
// nothing.
#pragma once

#include <array>
#include <bit>
#include <coroutine>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace moelab {
struct LabelledGraph;
}

namespace moelab::engine {

using ResourceId = std::uint32_t;
using CapacityId = std::uint16_t;
using OpIndex = std::uint32_t;
/// A server of the network (network.hpp), counted from 0.
using NodeId = std::uint32_t;
/// A graph's own short number for a resource it uses.
using Lane = std::uint8_t;

inline constexpr OpIndex kNoOp = std::numeric_limits<OpIndex>::max();
inline constexpr CapacityId kNoCapacity = std::numeric_limits<CapacityId>::max();
/// Of an operation that sends over the network: it shares the links there.
inline constexpr CapacityId kNetwork = kNoCapacity - 1;
inline constexpr double kNotYet = -1;
/// Seconds that an operation may take, some 30,000 years. What comes of rates that are next to nothing takes
/// longer; sums of such times lose all that is shorter, and then overflow.
inline constexpr double kLongest = 1e12;

/// An operation that takes longer than kLongest, or no number of seconds.
struct TooLong : std::range_error {
  explicit TooLong(double seconds);
};

/// What a graph did that ran while nothing else was going on: the same whenever it runs so again. Of graphs
/// of few lanes, so that keeping one allocates nothing.
struct Outcome {
  static constexpr std::size_t kMostLanes = 8;
  struct Busy {
    ResourceId resource;
    double seconds;  // of slot time
  };
  double seconds = 0;  // from submission to end
  std::uint64_t operations = 0;
  std::size_t lanes = 0;
  std::array<Busy, kMostLanes> busy{};  // the first `lanes`
};

class Graph {
 public:
  /// Forgets all operations and lanes. Not while submitted.
  void clear();

  /// The lane for a resource; the same lane for the same resource. At most 255 resources a graph.
  Lane lane(ResourceId resource);
  /// Adds an operation of `seconds` >= 0 on a lane's resource. Throws TooLong.
  OpIndex add(Lane lane, double seconds) {
    if (!(seconds <= kLongest)) throw TooLong(seconds);
    ops_.push_back({seconds, kNoOp, kNoEdge, 0, 0, kNoCapacity, lane, false});
    return static_cast<OpIndex>(ops_.size() - 1);
  }
  /// Adds an operation that starts the moment `before` ends, on the slot that `before` holds. Both are on the
  /// same lane; `before` is the operation added last. A continuation depends on nothing
  /// else.
  OpIndex add_continuation(OpIndex before, double seconds);
  /// `after` starts no earlier than `before` ends.
  void depend(OpIndex after, OpIndex before) {
    Op& b = ops_[before];
    if (b.successor == kNoOp) {
      b.successor = after;
    } else {
      edges_.push_back({after, b.more});
      b.more = static_cast<std::uint32_t>(edges_.size() - 1);
    }
    ++ops_[after].needs;
  }
  /// `after` starts no earlier than all of `other` is finished. `other` is submitted already, and stays alive
  /// until then (and at least until this graph is submitted). For one submission: not when this graph is run
  /// again.
  void depend_on(OpIndex after, Graph& other);
  /// While it runs, the operation moves `amount` (bytes, say) through a capacity that operations of other
  /// resources use too. Alone it takes `shared_seconds` of its seconds for that; these are stretched by how
  /// busy the capacity is, the rest (a fixed latency) is not.
  void share(OpIndex op, CapacityId capacity, double shared_seconds, double amount) {
    ops_[op].capacity = capacity;
    ops_[op].share = static_cast<std::uint32_t>(shares_.size());
    shares_.push_back({shared_seconds, amount});
  }
  /// Of a capacity of 1 (Engine::add_capacity): the amount is the seconds.
  void share(OpIndex op, CapacityId capacity, double shared_seconds) {
    share(op, capacity, shared_seconds, shared_seconds);
  }
  void share(OpIndex op, CapacityId capacity) { share(op, capacity, ops_[op].seconds); }
  /// After its own seconds (a latency, say) the operation sends `bytes` >= 0 from one node of the network to
  /// another one, as fast as the network lets it; it ends when they are there. It shares no capacity besides.
  /// Throws std::invalid_argument for bytes below 0 or a node that sends to itself.
  void flow(OpIndex op, NodeId from, NodeId to, double bytes);

  /// The object that knows what the operations mean (labelled_graph.hpp); nullptr: none does.
  const LabelledGraph* labelled() const { return labelled_; }
  void set_labelled(const LabelledGraph* labelled) { labelled_ = labelled; }

  std::size_t size() const { return ops_.size(); }
  double seconds(OpIndex op) const { return ops_[op].seconds; }
  /// Of an operation that uses a capacity.
  double shared_seconds(OpIndex op) const { return shares_[ops_[op].share].seconds; }
  double shared_amount(OpIndex op) const { return shares_[ops_[op].share].amount; }
  CapacityId capacity(OpIndex op) const { return ops_[op].capacity; }  // kNoCapacity, kNetwork
  struct Flow {
    NodeId from, to;
    double bytes;
  };
  const Flow& flow(OpIndex op) const { return flows_[ops_[op].share]; }  // of an operation on kNetwork
  bool uses_network() const { return !flows_.empty(); }
  ResourceId resource(OpIndex op) const { return lanes_[ops_[op].lane].resource; }

  // After submission. Times are in seconds of engine time.
  bool submitted() const { return state_ != State::building; }
  bool finished() const { return state_ == State::finished; }
  double submitted_at() const { return submitted_at_; }
  double finished_at() const { return finished_at_; }
  std::size_t started() const { return started_; }  // operations that have begun (or ended)
  /// When its dependencies were met; of an operation that was started.
  double ready(OpIndex op) const;
  bool was_started(OpIndex op) const { return starts_[op] != kNotYet; }
  double start(OpIndex op) const { return starts_[op] == kNotYet ? kNotYet : epoch_ + starts_[op]; }
  double end(OpIndex op) const { return ends_[op] == kNotYet ? kNotYet : epoch_ + ends_[op]; }
  /// The engine counts from its epoch, the last moment at which a graph was submitted while nothing was going
  /// on. Differences of these times depend on what has happened since then only, to the last digit.
  double end_since_epoch(OpIndex op) const { return ends_[op]; }  // kNotYet
  double submitted_since_epoch() const { return submitted_local_; }
  double finished_since_epoch() const { return finished_local_; }
  /// Of a finished graph of at most Outcome::kMostLanes lanes.
  Outcome outcome() const;
  /// The operation whose end finished the graph; kNoOp for an empty graph.
  OpIndex last() const { return last_; }
  /// Calls use(other) for every operation of this graph that depends on `op`, as depend() says.
  template <class Use>
  void for_dependents(OpIndex op, Use use) const {
    if (ops_[op].successor != kNoOp) use(ops_[op].successor);
    for (std::uint32_t e = ops_[op].more; e != kNoEdge; e = edges_[e].next) use(edges_[e].to);
  }
  /// The dependency that was met last, or kNoOp: at submission (or by another graph).
  OpIndex last_dependency(OpIndex op) const { return last_dependencies_[op]; }

 private:
  template <class Executor>
  friend class Dispatcher;
  friend class Engine;
  friend class LoneGraph;

  static constexpr std::uint32_t kNoEdge = std::numeric_limits<std::uint32_t>::max();
  struct Op {
    double seconds;
    OpIndex successor;    // most operations have one
    std::uint32_t more;   // further ones: a list in edges_
    std::uint32_t needs;  // dependencies; 1 for a continuation
    std::uint32_t share;  // place in shares_, when it uses a capacity; in flows_, when it uses the network
    CapacityId capacity;
    Lane lane;
    bool continued;  // the next operation continues on this one's slot
  };
  struct Share {
    double seconds, amount;
  };
  struct Edge {
    OpIndex to;
    std::uint32_t next;
  };
  enum class State : std::uint8_t { building, submitted, finished };

  // Ready operations of a lane: a bit an operation, and above it a bit a non-empty word, so that the most
  // urgent one is found by two count-trailing-zeros in graphs of up to 4,096 operations.
  struct ReadyBits {
    std::uint64_t* words = nullptr;  // into ready_
    std::uint64_t* summary = nullptr;
    std::size_t summary_words = 0;

    void insert(OpIndex op) const {
      words[op >> 6] |= std::uint64_t{1} << (op & 63);
      summary[op >> 12] |= std::uint64_t{1} << ((op >> 6) & 63);
    }
    OpIndex pop() const {  // the first, or kNoOp
      std::size_t top = 0;
      while (summary[top] == 0)
        if (++top == summary_words) return kNoOp;
      const std::size_t word = (top << 6) | static_cast<std::size_t>(std::countr_zero(summary[top]));
      const std::uint64_t bits = words[word];
      words[word] = bits & (bits - 1);
      if (words[word] == 0) summary[top] &= summary[top] - 1;
      return static_cast<OpIndex>((word << 6) | static_cast<std::size_t>(std::countr_zero(bits)));
    }
  };
  struct LaneState {
    ResourceId resource = 0;
    double busy_seconds = 0;
    ReadyBits ready;
  };
  void set_ready(OpIndex op) const { lanes_[ops_[op].lane].ready.insert(op); }
  void prepare(double epoch, double now_since_epoch, double now);
  void take_unstarted_out();
  void take_no_time(std::span<const std::uint8_t> on_resources);

  std::vector<Op> ops_;
  std::vector<Share> shares_;
  std::vector<Flow> flows_;
  std::vector<Edge> edges_;
  std::vector<LaneState> lanes_;
  std::vector<std::uint64_t> ready_;  // of all lanes, summaries behind
  // By operation. Times are since the epoch.
  std::vector<std::uint32_t> unmet_;  // dependencies left
  std::vector<double> starts_, ends_;
  std::vector<OpIndex> last_dependencies_;
  std::vector<std::pair<OpIndex, double>> met_by_others_;  // operations whose last dependency was a graph
  std::vector<std::pair<Graph*, OpIndex>> followers_;  // operations of other graphs that wait for this one
  std::vector<std::pair<OpIndex, Graph*>> foreign_;    // this graph's operations that wait for others

  State state_ = State::building;
  int priority_ = 0;
  std::uint64_t sequence_ = 0;
  std::size_t started_ = 0;
  std::size_t unfinished_ = 0;
  OpIndex last_ = kNoOp;
  double epoch_ = 0;
  double submitted_at_ = kNotYet, submitted_local_ = kNotYet;
  double finished_at_ = kNotYet, finished_local_ = kNotYet;
  std::coroutine_handle<> waiter_;
  const LabelledGraph* labelled_ = nullptr;
};

}  // namespace moelab::engine
