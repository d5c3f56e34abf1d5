// Execution family: who computes the experts of a layer that are not on the GPU. Each is loaded over the link
// and computed by the GPU, or stays in host memory and is computed by the CPU; link and CPU work at once.
//
// The serving loop asks once a layer step, when it knows which of the layer's experts are missing, and
// reports the time of each load it has seen end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "policies/policy_info.hpp"
#include "policies/policy_table.hpp"

namespace moelab {

struct MissingExpert {
  std::uint32_t expert = 0;
  float score = 0;           // sum of the gate scores of its tokens; 0 where the trace has none
  std::uint32_t tokens = 1;  // tokens of the step that it serves
};

/// Seconds, as profiled ahead of the run; and what else of the layer step there is to go by.
struct ExecutionCosts {
  double load_s = 0;              // to bring one expert over the link
  std::span<const double> cpu_s;  // by number of tokens, from 0: the CPU's time for one expert
  double gpu_s = 0;               // the GPU's time for one expert once it is there; 0 where not known
  std::uint32_t step_tokens = 1;  // that run through the layer
  std::uint32_t on_gpu = 0;       // experts that they use and that are not missing
};

enum class Assignment : std::uint8_t { load, cpu };

/// Who computes what. Every position of the input is in one of the two orders, once.
struct ExecutionPlan {
  std::vector<Assignment> places;    // by position in the input
  std::vector<std::uint32_t> loads;  // positions in the order in which the link takes them
  std::vector<std::uint32_t> cpu;    // positions in the order in which the CPU computes them
  bool operator==(const ExecutionPlan&) const = default;
};

class ExecutionPolicy {
 public:
  virtual ~ExecutionPolicy() = default;
  /// Fills `plan` (what it held is dropped; its memory is reused). `missing`: in ascending expert order, each
  /// with 1 to costs.cpu_s.size() - 1 tokens. Keeps its own scratch memory: allocates nothing once it has
  /// seen the largest layer.
  virtual void plan(std::span<const MissingExpert> missing, const ExecutionCosts& costs,
                    ExecutionPlan& plan) = 0;
  /// An expert came over the link in `seconds`, from its start on the link. For policies with statistics.
  virtual void observe_load(double seconds) { (void)seconds; }
};

struct ExecutionPolicyEntry {
  PolicyInfo info;
  bool needs_scores = false;  // MissingExpert::score must be filled: traces without scores cannot be used
  bool needs_cpu = false;     // ExecutionCosts::cpu_s must be filled: the device has to know these times
  std::function<std::unique_ptr<ExecutionPolicy>(const PolicyParameters& parameters)> make;
};
/// The family's one table.
PolicyTable<ExecutionPolicyEntry>& execution_policies();
/// nullptr when there is no such policy.
const ExecutionPolicyEntry* find_execution_policy(std::string_view name);

}  // namespace moelab
