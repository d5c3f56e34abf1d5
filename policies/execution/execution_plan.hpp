// What execution policies share: how a plan is begun and filled, and the order of scores.
#pragma once

#include <cassert>

#include "policies/execution/execution.hpp"

namespace moelab {

/// An empty plan for `experts` experts.
inline void start_plan(ExecutionPlan& plan, std::size_t experts) {
  plan.places.assign(experts, Assignment::load);
  plan.loads.clear();
  plan.cpu.clear();
}
inline void give_to_link(ExecutionPlan& plan, std::uint32_t position) {
  plan.places[position] = Assignment::load;
  plan.loads.push_back(position);
}
inline void give_to_cpu(ExecutionPlan& plan, std::uint32_t position) {
  plan.places[position] = Assignment::cpu;
  plan.cpu.push_back(position);
}

/// The CPU's time for `expert`, seconds.
inline double cpu_seconds(const ExecutionCosts& costs, const MissingExpert& expert) {
  assert(expert.tokens < costs.cpu_s.size());
  return costs.cpu_s[expert.tokens];
}

/// Fills `order` with the positions of `missing`, best score first; among equals by position.
void sort_by_score(std::span<const MissingExpert> missing, std::vector<std::uint32_t>& order);

}  // namespace moelab
