// Knowledge of the future for oracles (Belady): when an expert is used next.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/cache/cache.hpp"
#include "sim/serving/drafts.hpp"
#include "sim/serving/served_request.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

/// Replays a trace's static batches once without time. Memory grows with the trace (4 bytes a use): oracles
/// only.
class FutureUses {
 public:
  FutureUses(const RoutingTrace& trace, std::uint32_t batch, const Prompts& prompts,
             std::uint32_t micro_batch = 0, const Drafts& drafts = {});
  /// Number of the pass that uses (layer, expert) next after pass `now`; kNeverUsedAgain if none does. `now`
  /// does not fall from call to call for the same expert.
  std::uint64_t next_use(std::uint32_t layer, std::uint32_t expert, std::uint64_t now);

 private:
  struct Uses {
    std::vector<std::uint32_t> steps;
    std::size_t next = 0;
  };
  std::uint32_t experts_;
  std::vector<Uses> uses_;  // by layer * experts + expert
};

}  // namespace moelab
