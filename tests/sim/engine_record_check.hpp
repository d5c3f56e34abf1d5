// What must hold of any run's records, looked at by themselves.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/engine_reference.hpp"

namespace moelab::engine_reference {

/// wrong(): an empty text, or what is wrong with the records.
class RecordCheck {
 public:
  RecordCheck(const EnginePlan& plan, const Records& records) : plan_(plan), records_(records) {
    for (std::size_t g = 0; g < plan.graphs.size(); ++g)
      for (std::size_t i = 0; i < plan.graphs[g].ops.size(); ++i) check_operation(g, i);
    for (std::size_t r = 0; r < plan.slots.size(); ++r) check_resource(r);
  }
  const std::string& wrong() const { return wrong_; }

 private:
  void require(bool holds, const char* what) {
    if (!holds && wrong_.empty()) wrong_ = what;
  }

  void check_operation(std::size_t g, std::size_t i) {
    const PlanOp& op = plan_.graphs[g].ops[i];
    const GraphRecord& graph = records_.graphs[g];
    const OpRecord& record = graph.ops[i];
    if (record.start < 0) return require(record.end < 0, "what never started has ended");
    require(record.end <= graph.finished_at, "a graph ends with its last operation");
    double ready = graph.submitted_at, last_need = -1;
    if (op.continues) {
      require(record.start == graph.ops[i - 1].end, "a continuation follows at once");
      require(record.last_dependency == i - 1, "a continuation depends on what it continues");
      return;
    }
    for (const std::size_t need : op.needs) last_need = std::max(last_need, graph.ops[need].end);
    ready = std::max(ready, last_need);
    bool known = true;  // of two graphs submitted at one instant the records do not tell the first
    for (const std::size_t other : op.awaits) {
      if (records_.graphs[other].submitted_at < graph.submitted_at)
        ready = std::max(ready, records_.graphs[other].finished_at);
      known = known && records_.graphs[other].submitted_at != graph.submitted_at;
    }
    require(record.start >= ready, "an operation waits for its dependencies");
    if (record.last_dependency != kNone)
      require(graph.ops[record.last_dependency].end == last_need, "the last dependency is the last");
    if (known && record.start > ready) waits_.push_back({op.resource, ready, record.start});
  }

  /// Operations that take no time hold no slot for any length of time: [start, end) is empty.
  void check_resource(std::size_t resource) {
    std::vector<std::pair<double, double>> taken;
    double busy = 0;
    for (std::size_t g = 0; g < plan_.graphs.size(); ++g)
      for (std::size_t i = 0; i < plan_.graphs[g].ops.size(); ++i)
        if (const OpRecord& r = records_.graphs[g].ops[i];
            plan_.graphs[g].ops[i].resource == resource && r.start >= 0) {
          taken.emplace_back(r.start, r.end);
          busy += r.end - r.start;
        }
    require(busy == records_.busy_seconds[resource], "busy time is the sum of the durations");
    const auto used = [&](double t) {
      return static_cast<std::size_t>(std::count_if(
          taken.begin(), taken.end(), [t](const auto& slot) { return slot.first <= t && t < slot.second; }));
    };
    for (const auto& slot : taken)
      require(used(slot.first) <= plan_.slots[resource], "no more operations than slots");
    for (const Wait& wait : waits_) {
      if (wait.resource != resource) continue;
      bool full = used(wait.from) == plan_.slots[resource];
      for (const auto& slot : taken)
        if (slot.second > wait.from && slot.second < wait.to)
          full = full && used(slot.second) == plan_.slots[resource];
      require(full, "nothing ready waits while a slot is free");
    }
  }

  struct Wait {
    std::size_t resource;
    double from, to;
  };
  const EnginePlan& plan_;
  const Records& records_;
  std::vector<Wait> waits_;
  std::string wrong_;
};

}  // namespace moelab::engine_reference
