// How much expert residency to give up for KV cache: a paged system at one residency level after another
// (FluxMoE, Liu et al. 2026, section 4.3).
//
// A level keeps `experts - offloaded` of each layer's experts on the system's first storage backend, in the
// GPU's memory, and `offloaded` on its last, which takes none of it (storage policy `fixed`). What experts
// leave the KV cache takes. The knee is that of the paper's Figure 6, which plots over the residency level
// the time of a forward pass: flat while loading hides behind computing, and rising once a layer waits for
// its experts. "The planner targets operation at this knee (i.e., maximizing GPU memory reclamation while
// holding tau_comp at the theoretical minimum)."
//
// What a step is compared with. A level with more KV cache runs more requests at once, so its steps take
// longer for another reason than loads, and hide more of them; and a first backend that decodes makes layers
// wait at any level. Each level's steps are therefore held against the same steps, of the same requests,
// with all experts on the first backend, were there memory for them:
//
//   hidden(level)  =  step_s <= (1 + tolerance) * resident_step_s
//   knee           =  the lowest residency that is hidden, as all higher ones that fit are
//
// Steps are the same when they do not depend on the clock, so for this comparison all requests are there
// from the start.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/run_result.hpp"
#include "sim/scenario.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

/// One residency level, and what serving there came to. Memory is of one GPU.
struct ResidencyLevel {
  std::uint32_t offloaded = 0;  // experts of each layer on the last backend
  double residency = 1;         // share of the experts on the first
  MemoryPlan memory{};
  std::string refusal{};  // why it could not be run, where that is not memory.shortfall

  // 0 where it was not run.
  double tokens_per_s = 0;
  double requests_a_step = 0;  // tokens generated a step
  // Of the time that steps took, when these were on the critical path: loading or decoding of experts that
  // were waited for (Cause::prefetch), and swapping of blocks of the KV cache.
  double load_share = 0;
  double swap_share = 0;
  double step_s = 0;           // mean, with all requests there from the start
  double step_load_s = 0;      // of it, with experts' loading or decoding on the critical path
  double resident_step_s = 0;  // the same steps with all experts on the first backend

  bool fits() const { return refusal.empty() && memory.shortfall == Bytes(0); }
  /// Of step_s over resident_step_s. Precondition: fits().
  double slowdown() const { return step_s / resident_step_s; }
};

/// Experts of a layer to offload, ascending from 0 to `most` * experts in `steps` even steps, in whole
/// experts: fewer levels where a layer has fewer. `steps` >= 1, `most` in (0, 1].
std::vector<std::uint32_t> residency_grid(std::uint32_t experts, std::uint32_t steps, double most);

class ResidencyTuning {
 public:
  /// Told which of a level's runs goes on, and of its tokens.
  using Progress = std::function<void(std::string_view run, std::uint64_t tokens, std::uint64_t all_tokens)>;

  /// `trace` outlives it. Throws InputError for a system that does not page its experts, one with a single
  /// backend, or one whose last backend takes GPU memory.
  ResidencyTuning(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace);

  std::uint32_t experts() const { return experts_; }  // of a layer, but for those pinned for good
  /// The system with `offloaded` of each layer's experts on its last backend and the others on its first,
  /// throughout a run.
  SystemConfig system_at(std::uint32_t offloaded) const;
  /// Runs a level. What does not fit, for the GPU, the host or a single request, is a result.
  ResidencyLevel level(std::uint32_t offloaded, const Progress& progress = {});
  /// Of the last level that was run: what a reader must know.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  RunResult run(const Scenario& scenario, std::uint32_t offloaded, std::string_view what,
                const Progress& progress) const;
  Scenario with_memory_for_all(const MemoryPlan& level) const;

  Scenario scenario_;
  Scenario at_once_;  // all requests are there from the start
  bool requests_come_later_;
  SystemConfig system_;
  const RoutingTrace& trace_;
  std::uint32_t experts_;
  std::vector<std::string> warnings_;
};

/// Places among the levels; none where nothing fits.
struct ResidencyChoice {
  std::optional<std::size_t> highest;    // residency that fits
  std::optional<std::size_t> best;       // most tokens/s; of equal ones the highest residency
  std::optional<std::size_t> leanest;    // lowest residency of at least (1 - tolerance) * the best's tokens/s
  std::optional<std::size_t> knee;       // as above; none where even the highest that fits is not hidden
  std::optional<std::size_t> past_knee;  // the highest residency that fits and is not hidden
};

/// `levels` by falling residency, `tolerance` in [0, 1).
ResidencyChoice choose_residency(std::span<const ResidencyLevel> levels, double tolerance);

/// Experts to offload halfway between the knee and the level past it, to find the knee more exactly; none
/// where either is missing, or no whole expert lies between them.
std::optional<std::uint32_t> nearer_to_knee(std::span<const ResidencyLevel> levels,
                                            const ResidencyChoice& choice);

}  // namespace moelab
