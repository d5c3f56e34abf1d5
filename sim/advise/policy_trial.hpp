// What other policies than a runtime's own would do on the machine of an advice: simulated, since what a
// cache holds is decided as it runs. All stand on the same runtime, weights and synthetic routing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/advise/advice.hpp"

namespace moelab {

struct PolicyTrial {
  std::string system, title;          // of configs/systems, or made here
  std::string why_not;                // then it was not simulated, and nothing below is known
  double tpot_s = 0;                  // mean between tokens of one user
  std::optional<double> ttft_s = {};  // of a prompt alone, where the policy is the runtime's own
  double substituted = 0;  // share of the router's choices that the policy replaced by other experts
};

struct PolicyTrials {
  std::string runtime, weights;   // that all stand on: the advice's
  int gpus = 0;                   // its GPUs; several share each layer here, whatever the runtime does
  std::string why_none;           // then there are no rows
  std::vector<PolicyTrial> rows;  // fastest first, then those that were not simulated
};

/// On the GPUs of the advice and in its weights, each user with the request's context. Two requests a user,
/// four of few users, one after the other: the first fills the caches, tokens of the second are counted.
PolicyTrials try_policies(const AdviceRequest& request, const MachineText& machine, const Advice& base);

}  // namespace moelab
