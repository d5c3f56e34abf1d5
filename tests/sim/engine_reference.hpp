// An independent reference for the engine: what a run is to do, written down (EnginePlan), and a naive
// simulation of it, O(n^2), from the rules in engine.hpp. It looks at every operation again at every step and
// shares no code with the engine.
//
// At one instant, in this order:
//  1. Every operation that has ended completes: graphs in the order of submission, operations in the order of
//     addition. One that takes no time ends in the next round of its instant.
//  2. Continuations of those start, in the same order.
//  3. Processes decide: those whose graph has finished, in the order of finishing; then those whose moment
//  has
//     come, by moment, then by who began to wait first; then new ones.
//  4. Resource by resource, in the order of addition, the most urgent ready operation starts as long as a
//  slot
//     is free.
// Between instants an operation that uses a capacity takes its unshared seconds as they are, then gets on
// with the shared ones at 1 / (slowdown of so many users x factors of what is busy) of full speed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace moelab::engine_reference {

inline constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

struct PlanOp {
  std::size_t resource = 0;
  double seconds = 0;
  std::vector<std::size_t> needs;   // operations of the same graph, in any order; repeats allowed
  std::vector<std::size_t> awaits;  // graphs; those that were not submitted before this one are ignored
  bool continues = false;           // on the slot of the operation before it
  std::size_t capacity = kNone;
  double shared_seconds = 0;  // of its seconds, those that the capacity's other users stretch
};
struct PlanGraph {
  std::vector<PlanOp> ops;
  int priority = 0;
};
struct Step {
  enum Kind { submit, wait_for, wait_until, cancel, set_priority } kind;
  std::size_t graph = 0;
  double time = 0;
  int priority = 0;
};
struct PlanInterference {
  std::size_t capacity;
  std::size_t busy;  // a resource; or a capacity, whose users disturb
  double factor;
  bool by_users = false;
};
struct EnginePlan {
  std::vector<std::size_t> slots;              // by resource; kNone: unlimited
  std::vector<std::vector<double>> slowdowns;  // by capacity
  std::vector<PlanInterference> interferences;
  std::vector<PlanGraph> graphs;         // each is submitted once at most
  std::vector<std::vector<Step>> steps;  // by process; one process at most waits for a graph
};

struct OpRecord {
  double start = -1, end = -1;
  std::size_t last_dependency = kNone;
  bool operator==(const OpRecord&) const = default;
};
struct GraphRecord {
  double submitted_at = -1, finished_at = -1;
  std::size_t started = 0, last = kNone;
  std::vector<OpRecord> ops;
  bool operator==(const GraphRecord&) const = default;
};
struct Records {
  double end = 0;
  std::uint64_t operations = 0;
  std::vector<GraphRecord> graphs;
  std::vector<double> busy_seconds;  // by resource; the naive engine counts what operations take alone
  bool operator==(const Records&) const = default;
};

class NaiveEngine {
 public:
  explicit NaiveEngine(const EnginePlan& plan) : plan_(plan), scripts_(plan.steps.size()) {
    records_.busy_seconds.assign(plan.slots.size(), 0);
    for (const PlanGraph& graph : plan.graphs) {
      records_.graphs.push_back({});
      records_.graphs.back().ops.resize(graph.ops.size());
      graphs_.push_back({graph.priority, kNone, false, std::vector<Op>(graph.ops.size())});
    }
  }

  Records run() {
    for (;;) {
      while (const std::optional<std::size_t> script = who_decides()) play(*script);
      start_what_is_ready();
      const double next = next_instant();
      if (next == kNever) break;
      advance_to(next);
      complete();
    }
    records_.end = now_;
    return records_;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Op {
    enum { waiting, ready, running, done, removed } state = waiting;
    std::vector<std::size_t> awaits;  // graphs unfinished at submission
    // Of one that uses a capacity, while it runs: when it begins to share, and seconds of full speed to go.
    double shares_from = 0, left = 0;
  };
  struct GraphState {
    int priority;
    std::size_t submission;
    bool finished;
    std::vector<Op> ops;
  };
  struct Script {
    enum { fresh, resumable, until, graph, over } waits = fresh;
    std::size_t next = 0, on = kNone, since = 0;
    double time = 0;
  };
  struct Ref {
    std::size_t graph, op;
  };

  const PlanOp& planned(const Ref& r) const { return plan_.graphs[r.graph].ops[r.op]; }
  Op& state(const Ref& r) { return graphs_[r.graph].ops[r.op]; }
  OpRecord& record(const Ref& r) { return records_.graphs[r.graph].ops[r.op]; }

  template <class Predicate>
  std::vector<Ref> all(Predicate holds) {  // in the order of submission, then of addition
    std::vector<Ref> found;
    for (const std::size_t g : submitted_)
      for (std::size_t i = 0; i < graphs_[g].ops.size(); ++i)
        if (holds(Ref{g, i})) found.push_back({g, i});
    return found;
  }
  std::vector<Ref> running() {
    return all([this](const Ref& r) { return state(r).state == Op::running; });
  }

  bool uses(const Ref& r, std::size_t capacity) const { return planned(r).capacity == capacity; }
  bool shares(const Ref& r) {
    return planned(r).capacity != kNone && planned(r).shared_seconds > 0 && state(r).shares_from <= now_;
  }
  /// Seconds that one of full speed takes the capacity's users now.
  double stretch(std::size_t capacity) {
    const std::vector<Ref> there = running();
    const auto count = [&](auto holds) {
      return static_cast<std::size_t>(std::count_if(there.begin(), there.end(), holds));
    };
    const std::vector<double>& slowdown = plan_.slowdowns[capacity];
    const std::size_t users = count([&](const Ref& r) { return uses(r, capacity) && shares(r); });
    double factor = users <= slowdown.size()
                        ? slowdown[users - 1]
                        : slowdown.back() * static_cast<double>(users) / static_cast<double>(slowdown.size());
    for (const PlanInterference& i : plan_.interferences) {
      const auto disturbs = [&](const Ref& r) {
        return i.by_users ? uses(r, i.busy) : planned(r).resource == i.busy;
      };
      if (i.capacity == capacity && count(disturbs) > 0) factor *= i.factor;
    }
    return factor;
  }
  /// When something about it changes, if nothing else does.
  double next_change(const Ref& r) {
    if (planned(r).capacity == kNone || planned(r).shared_seconds <= 0) return record(r).end;
    return shares(r) ? now_ + state(r).left * stretch(planned(r).capacity) : state(r).shares_from;
  }

  void advance_to(double next) {
    std::vector<std::pair<Ref, double>> left;
    for (const Ref& r : running()) {
      if (!shares(r)) continue;
      const bool ends = next_change(r) <= next;
      if (ends) record(r).end = next;
      left.emplace_back(r, ends ? 0 : state(r).left - (next - now_) / stretch(planned(r).capacity));
    }
    for (const auto& [r, seconds] : left) state(r).left = seconds;
    now_ = next;
  }

  double next_instant() {
    double next = kNever;
    for (const Ref& r : running()) next = std::min(next, next_change(r));
    for (const Script& s : scripts_)
      if (s.waits == Script::until) next = std::min(next, s.time);
    return next;
  }

  void complete() {
    const std::vector<Ref> ended =
        all([this](const Ref& r) { return state(r).state == Op::running && record(r).end == now_; });
    for (const Ref& r : ended) {
      state(r).state = Op::done;
      ++records_.operations;
      see_what_is_ready(r.op);
      if (!unfinished(r.graph)) finish(r.graph, r.op);
    }
    for (const Ref& r : ended) {
      const Ref next{r.graph, r.op + 1};
      if (next.op == graphs_[r.graph].ops.size() || !planned(next).continues) continue;
      if (state(next).state != Op::waiting) continue;
      record(next).last_dependency = r.op;
      start(next);
    }
  }

  bool unfinished(std::size_t graph) {
    const std::vector<Op>& ops = graphs_[graph].ops;
    return std::any_of(ops.begin(), ops.end(),
                       [](const Op& op) { return op.state != Op::done && op.state != Op::removed; });
  }

  void see_what_is_ready(std::size_t because_of) {
    for (const Ref& r : all([this](const Ref& x) { return state(x).state == Op::waiting; })) {
      if (planned(r).continues) continue;
      const auto done = [&](std::size_t need) { return graphs_[r.graph].ops[need].state == Op::done; };
      const auto finished = [&](std::size_t graph) { return graphs_[graph].finished; };
      if (!std::all_of(planned(r).needs.begin(), planned(r).needs.end(), done)) continue;
      if (!std::all_of(state(r).awaits.begin(), state(r).awaits.end(), finished)) continue;
      state(r).state = Op::ready;
      record(r).last_dependency = because_of;
    }
  }

  void finish(std::size_t graph, std::size_t last) {
    graphs_[graph].finished = true;
    records_.graphs[graph].finished_at = now_;
    records_.graphs[graph].last = last;
    see_what_is_ready(kNone);
    for (std::size_t s = 0; s < scripts_.size(); ++s)
      if (scripts_[s].waits == Script::graph && scripts_[s].on == graph) {
        scripts_[s].waits = Script::resumable;
        resumable_.push_back(s);
      }
  }

  std::optional<std::size_t> who_decides() {
    if (!resumable_.empty()) {
      const std::size_t script = resumable_.front();
      resumable_.pop_front();
      return script;
    }
    std::optional<std::size_t> best;
    for (std::size_t s = 0; s < scripts_.size(); ++s) {
      if (scripts_[s].waits != Script::until || scripts_[s].time > now_) continue;
      if (!best || std::pair(scripts_[s].time, scripts_[s].since) <
                       std::pair(scripts_[*best].time, scripts_[*best].since))
        best = s;
    }
    for (std::size_t s = 0; s < scripts_.size() && !best; ++s)
      if (scripts_[s].waits == Script::fresh) best = s;
    return best;
  }

  void play(std::size_t number) {
    Script& script = scripts_[number];
    while (script.next < plan_.steps[number].size()) {
      const Step& step = plan_.steps[number][script.next++];
      if (step.kind == Step::wait_for && !graphs_[step.graph].finished) {
        script.waits = Script::graph;
        script.on = step.graph;
        return;
      }
      if (step.kind == Step::wait_until && step.time > now_) {
        script.waits = Script::until;
        script.time = step.time;
        script.since = waits_++;
        return;
      }
      act(step);
    }
    script.waits = Script::over;
  }

  void act(const Step& step) {
    GraphState& graph = graphs_[step.graph];
    if (step.kind == Step::submit) return submit(step.graph);
    if (graph.submission == kNone || graph.finished) return;
    if (step.kind == Step::set_priority) graph.priority = step.priority;
    if (step.kind == Step::cancel) {
      bool in_flight = false;
      for (Op& op : graph.ops) {
        in_flight |= op.state == Op::running;
        if (op.state == Op::waiting || op.state == Op::ready) op.state = Op::removed;
      }
      if (!in_flight) finish(step.graph, kNone);
    }
  }

  void submit(std::size_t number) {
    GraphState& graph = graphs_[number];
    for (std::size_t i = 0; i < graph.ops.size(); ++i)
      for (const std::size_t other : plan_.graphs[number].ops[i].awaits)
        if (graphs_[other].submission != kNone) graph.ops[i].awaits.push_back(other);
    graph.submission = submitted_.size();
    submitted_.push_back(number);
    records_.graphs[number].submitted_at = now_;
    see_what_is_ready(kNone);
    if (graph.ops.empty()) finish(number, kNone);
  }

  void start_what_is_ready() {
    for (std::size_t resource = 0; resource < plan_.slots.size(); ++resource)
      for (;;) {
        const std::vector<Ref> there = running();
        const auto used = std::count_if(there.begin(), there.end(),
                                        [&](const Ref& r) { return planned(r).resource == resource; });
        if (static_cast<std::size_t>(used) >= plan_.slots[resource]) break;
        const std::vector<Ref> ready = all([&](const Ref& r) {
          return state(r).state == Op::ready && planned(r).resource == resource;
        });  // the first is the most urgent one among equal priorities
        if (ready.empty()) break;
        start(*std::min_element(ready.begin(), ready.end(), [this](const Ref& a, const Ref& b) {
          return graphs_[a.graph].priority < graphs_[b.graph].priority;
        }));
      }
  }

  void start(const Ref& r) {
    const double seconds = planned(r).seconds;
    state(r).state = Op::running;
    record(r).start = now_;
    const bool sharing = planned(r).capacity != kNone && planned(r).shared_seconds > 0;
    record(r).end = sharing ? kNever : now_ + seconds;
    state(r).shares_from = now_ + (seconds - planned(r).shared_seconds);
    state(r).left = planned(r).shared_seconds;
    records_.busy_seconds[planned(r).resource] += seconds;
    ++records_.graphs[r.graph].started;
  }

  const EnginePlan& plan_;
  Records records_;
  std::vector<GraphState> graphs_;
  std::vector<std::size_t> submitted_;  // graphs, in order
  std::vector<Script> scripts_;
  std::deque<std::size_t> resumable_;
  std::size_t waits_ = 0;
  double now_ = 0;
};

}  // namespace moelab::engine_reference
