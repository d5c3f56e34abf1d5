// Serves a folder's requests anew, step by step, as the engine would.
#pragma once

#include <vector>

#include "experiments/load/step_times.hpp"

namespace moelab::replay {

/// Seconds since the first request was queued.
struct ReplayedRequest {
  double first_token_s = 0, last_token_s = 0;
};

/// What holds throughout one step.
struct ReplayedStep {
  double begin_s = 0, end_s = 0;
  std::uint64_t tokens = 0;         // that it generates
  std::uint64_t prompt_tokens = 0;  // that it runs
  std::uint64_t running = 0, waiting = 0;
  std::uint64_t kv_blocks = 0;
};

struct Replay {
  std::vector<ReplayedRequest> requests;  // as the folder has them
  std::vector<ReplayedStep> steps;
  std::uint64_t preempted = 0, recomputed_tokens = 0;
};

Replay serve_again(const Setup& setup, StepTimes& times);

}  // namespace moelab::replay
