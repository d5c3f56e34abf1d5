// Random plans, and playing a plan with the engine.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "sim/engine/engine.hpp"
#include "tests/sim/engine_reference.hpp"

namespace moelab::engine_reference {

/// Draws plans. Times are whole numbers, so sums are exact and moments coincide often.
class RandomPlan {
 public:
  explicit RandomPlan(std::uint64_t seed) : random_(seed) {}

  EnginePlan draw() {
    EnginePlan plan;
    longest_ = below(3) == 0 ? 1 : 1 + below(8);
    for (std::size_t r = 1 + below(5); r > 0; --r)
      plan.slots.push_back(below(10) == 0 ? kNone : 1 + below(4));
    if (below(2) == 0) draw_capacities(plan);
    std::size_t operations = below(3) == 0 ? below(200) : below(50);
    for (std::size_t left = 1 + below(8); left > 0; --left) {
      const std::size_t size = left == 1 ? operations : below(operations + 1);
      operations -= size;
      plan.graphs.push_back(draw_graph(plan, size));
    }
    draw_steps(plan);
    return plan;
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  void draw_capacities(EnginePlan& plan) {
    static const std::vector<std::vector<double>> kSlowdowns = {{1}, {1, 1.5}, {1, 2}, {1, 1, 2, 3.5}};
    const std::size_t count = 1 + below(2);
    for (std::size_t c = 0; c < count; ++c) {
      plan.slowdowns.push_back(kSlowdowns[below(kSlowdowns.size())]);
      for (std::size_t i = below(3); i > 0; --i) {
        const bool by_users = below(2) == 0;  // those of the same capacity, now and then: always then
        plan.interferences.push_back({c, below(by_users ? count : plan.slots.size()),
                                      1 + 0.5 * static_cast<double>(below(4)), by_users});
      }
    }
  }

  PlanGraph draw_graph(const EnginePlan& plan, std::size_t size) {
    PlanGraph graph;
    graph.priority = static_cast<int>(below(3));
    const std::size_t density = below(4);  // dependencies for each operation, on average
    for (std::size_t i = 0; i < size; ++i) {
      PlanOp op;
      op.continues = i > 0 && below(8) == 0;
      op.resource = op.continues ? graph.ops.back().resource : below(plan.slots.size());
      op.seconds = below(4) == 0 ? 0 : static_cast<double>(below(longest_ + 1));
      if (!plan.slowdowns.empty() && below(2) == 0) {
        op.capacity = below(plan.slowdowns.size());
        op.shared_seconds = below(2) == 0 ? op.seconds : op.seconds / 2;
      }
      if (!op.continues && !plan.graphs.empty() && below(20) == 0)
        op.awaits.push_back(below(plan.graphs.size()));
      graph.ops.push_back(op);
    }
    draw_needs(graph, density);
    return graph;
  }

  /// Dependencies that go up in a random order of the operations, in which continuations follow at once.
  void draw_needs(PlanGraph& graph, std::size_t density) {
    std::vector<std::size_t> key(graph.ops.size()), order(graph.ops.size());
    for (std::size_t i = 0; i < key.size(); ++i) key[i] = graph.ops[i].continues ? key[i - 1] : random_();
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return key[a] < key[b]; });
    for (std::size_t i = 1; i < order.size(); ++i) {
      PlanOp& op = graph.ops[order[i]];
      if (op.continues) continue;
      for (std::size_t n = below(2 * density + 1); n > 0; --n) op.needs.push_back(order[below(i)]);
    }
  }

  void draw_steps(EnginePlan& plan) {
    plan.steps.resize(1 + below(3));
    std::vector<double> clock(plan.steps.size(), 0);
    for (std::size_t g = 0; g < plan.graphs.size(); ++g) {
      const std::size_t script = below(plan.steps.size());
      std::vector<Step>& steps = plan.steps[script];
      if (below(2) == 0)
        steps.push_back({Step::wait_until, 0, clock[script] += static_cast<double>(below(12)), 0});
      steps.push_back({Step::submit, g, 0, 0});
      if (below(3) == 0) steps.push_back({Step::wait_for, g, 0, 0});
      while (below(3) == 0) {  // meddle with any graph
        if (below(2) == 0)
          steps.push_back({Step::wait_until, 0, clock[script] += static_cast<double>(below(12)), 0});
        steps.push_back({below(2) == 0 ? Step::cancel : Step::set_priority, below(plan.graphs.size()), 0,
                         static_cast<int>(below(4))});
      }
    }
  }

  std::mt19937_64 random_;
  std::size_t longest_ = 1;
};

/// SimGrid merges events that are closer than this (its precision/timing).
inline constexpr double kPrecision = 1e-9;

/// Whether two completions or timers of a run lie closer than SimGrid tells apart, but not at the same
/// instant.
inline bool has_near_ties(const Records& records) {
  std::vector<double> times;
  for (const GraphRecord& g : records.graphs) {
    times.push_back(g.submitted_at);
    for (const OpRecord& op : g.ops) times.push_back(op.end);
  }
  std::sort(times.begin(), times.end());
  for (std::size_t i = 1; i < times.size(); ++i)
    if (const double gap = times[i] - times[i - 1]; gap > 0 && gap < 4 * kPrecision) return true;
  return false;
}

inline bool close_times(double a, double b) {
  return std::abs(a - b) <= std::max(kPrecision, 1e-9 * std::abs(a));
}

/// "" when the other engine's records equal those of `fast`, else the first difference.
inline std::string difference(const Records& fast, const Records& other) {
  std::ostringstream out;
  for (std::size_t g = 0; g < fast.graphs.size(); ++g) {
    if (fast.graphs[g].started != other.graphs[g].started) {
      out << "graph " << g << " started " << fast.graphs[g].started << " and " << other.graphs[g].started
          << " operations";
      return out.str();
    }
    for (std::size_t i = 0; i < fast.graphs[g].ops.size(); ++i) {
      const OpRecord &a = fast.graphs[g].ops[i], &b = other.graphs[g].ops[i];
      if (close_times(a.start, b.start) && close_times(a.end, b.end)) continue;
      out.precision(17);
      out << "graph " << g << " operation " << i << ": " << a.start << " to " << a.end << ", the other "
          << b.start << " to " << b.end;
      return out.str();
    }
  }
  return "";
}

/// Times of no particular form: whole numbers would hide rounding.
inline EnginePlan with_rough_times(EnginePlan plan, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (PlanGraph& g : plan.graphs)
    for (PlanOp& op : g.ops) {
      const double factor = 1e-3 * (1 + static_cast<double>(random() >> 11) * 0x1p-53);
      op.seconds *= factor;
      op.shared_seconds *= factor;
    }
  for (auto& steps : plan.steps)
    for (Step& step : steps) step.time *= 1.37e-3;
  return plan;
}

/// The plan with nothing shared: each operation takes its time whatever else runs.
inline EnginePlan without_sharing(EnginePlan plan) {
  plan.slowdowns.clear();
  plan.interferences.clear();
  for (PlanGraph& g : plan.graphs)
    for (PlanOp& op : g.ops) op.capacity = kNone;
  return plan;
}

/// Plays a plan with the engine under test.
class PlayedPlan {
 public:
  explicit PlayedPlan(const EnginePlan& plan,
                      std::unique_ptr<engine::Engine> with = engine::make_fast_engine())
      : plan_(plan), engine_(std::move(with)) {
    for (const std::size_t slots : plan.slots)
      engine_->add_resource("resource",
                            slots == kNone ? engine::kUnlimitedSlots : static_cast<std::uint32_t>(slots));
    for (const auto& slowdown : plan.slowdowns) engine_->add_capacity("capacity", {.slowdown = slowdown});
    for (const PlanInterference& i : plan.interferences)
      engine_->add_interference({static_cast<engine::CapacityId>(i.capacity), busy(i), i.factor});
    for (std::size_t g = 0; g < plan.graphs.size(); ++g) graphs_.push_back(std::make_unique<engine::Graph>());
  }

  Records run() {
    for (std::size_t s = 0; s < plan_.steps.size(); ++s) processes_.push_back(play(s));
    for (engine::Process& process : processes_) engine_->spawn(process);
    engine_->run();
    return records();
  }

 private:
  static std::variant<engine::ResourceId, engine::UsersOf> busy(const PlanInterference& i) {
    if (i.by_users) return engine::UsersOf{static_cast<engine::CapacityId>(i.busy)};
    return static_cast<engine::ResourceId>(i.busy);
  }
  engine::Process play(std::size_t script) {
    for (const Step& step : plan_.steps[script]) {
      engine::Graph& graph = *graphs_[step.graph];
      switch (step.kind) {
        case Step::submit:
          build(step.graph);
          engine_->submit(graph, plan_.graphs[step.graph].priority);
          break;
        case Step::wait_for:
          co_await engine_->finished(graph);
          break;
        case Step::wait_until:
          co_await engine_->until(step.time);
          break;
        case Step::cancel:
          engine_->cancel(graph);
          break;
        case Step::set_priority:
          engine_->set_priority(graph, step.priority);
          break;
      }
    }
  }

  void build(std::size_t number) {
    engine::Graph& graph = *graphs_[number];
    const std::vector<PlanOp>& ops = plan_.graphs[number].ops;
    for (const PlanOp& op : ops) {
      const auto resource = static_cast<engine::ResourceId>(op.resource);
      const engine::OpIndex added =
          op.continues ? graph.add_continuation(static_cast<engine::OpIndex>(graph.size() - 1), op.seconds)
                       : graph.add(graph.lane(resource), op.seconds);
      if (op.capacity != kNone)
        graph.share(added, static_cast<engine::CapacityId>(op.capacity), op.shared_seconds);
    }
    for (engine::OpIndex i = 0; i < ops.size(); ++i) {
      for (const std::size_t need : ops[i].needs) graph.depend(i, static_cast<engine::OpIndex>(need));
      for (const std::size_t other : ops[i].awaits)
        if (graphs_[other]->submitted()) graph.depend_on(i, *graphs_[other]);
    }
  }

  Records records() const {
    const auto number = [](engine::OpIndex op) { return op == engine::kNoOp ? kNone : op; };
    Records records{engine_->now(), engine_->operations(), {}, {}};
    for (engine::ResourceId r = 0; r < engine_->resources(); ++r)
      records.busy_seconds.push_back(engine_->busy_seconds(r));
    for (const auto& graph : graphs_) {
      records.graphs.push_back(
          {graph->submitted_at(), graph->finished_at(), graph->started(), number(graph->last()), {}});
      for (engine::OpIndex i = 0; i < graph->size(); ++i)
        records.graphs.back().ops.push_back(
            {graph->start(i), graph->end(i), number(graph->last_dependency(i))});
    }
    return records;
  }

  const EnginePlan& plan_;
  std::unique_ptr<engine::Engine> engine_;
  std::vector<std::unique_ptr<engine::Graph>> graphs_;
  std::vector<engine::Process> processes_;
};

}  // namespace moelab::engine_reference
