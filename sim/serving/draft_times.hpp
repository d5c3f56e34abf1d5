// How long drafting takes in a step, where a model or a head drafts.
//
//   model  one pass of it for each drafted token, one behind the other, over the requests that draft so many;
//          and one over the rows of prompts that the step runs, whose keys and values it needs too
//   head   the bytes that it reads and two FLOPs a weight (BF16) for each drafted token, likewise
//   time   what is stated, for each drafted token
//
// Each pass takes the kernels and, of a model, what the runtime takes for a layer and a pass. Where tensor
// parallelism divides the target, each GPU has all of the draft (vLLM: draft_tensor_parallel_size 1) and
// drafts the same, so that nothing is exchanged. After a step in which all drafts were accepted a draft model
// reads two tokens in its first pass; one is counted.
#pragma once

#include <cstdint>
#include <memory>

#include "models/timing.hpp"
#include "sim/serving/dense_times.hpp"

namespace moelab {

struct Scenario;
struct SpeculationConfig;
struct SystemConfig;

class DraftTimes {
 public:
  /// nullptr: drafting takes no time. Everything by reference outlives it.
  static std::unique_ptr<DraftTimes> make(const Scenario& scenario, const SystemConfig& system,
                                          const TimingModel& timing);
  /// On one GPU for the rows of `pass`, the host's part included. 0 seconds: nothing drafts.
  KernelTime time(const Pass& pass);

 private:
  DraftTimes(const Scenario& scenario, const SystemConfig& system, const TimingModel& timing);
  std::uint32_t begin_pass(const Pass& pass, std::uint32_t number);
  KernelTime pass_of_model();
  KernelTime prompt_time(const Pass& pass);
  KernelTime head_time(std::uint32_t requests) const;

  const SpeculationConfig& speculation_;
  const TimingModel& timing_;
  std::unique_ptr<DenseTimes> dense_;  // of a draft model
  double host_s_ = 0;                  // of a pass of it
  Pass pass_;                          // of it, that is reckoned
};

}  // namespace moelab
