// Statistics of past routing for planning policies, and the call to them.
#pragma once

#include <cstdint>
#include <vector>

#include "models/units.hpp"
#include "policies/planning/planning.hpp"
#include "sim/serving/drafts.hpp"

namespace moelab {

class RoutingTrace;
struct ExpertCosts;
struct SystemConfig;

struct RankInclusion {
  std::vector<double> inclusion;  // by popularity rank, mean over layers; sums to k
  std::uint32_t k = 0;            // experts a decode step of the batch touches in a layer, rounded
  /// The same, ranks taken anew in each batch and layer: the expert of a rank is another one every time.
  std::vector<double> by_batch;
  /// How often a token uses the expert of a rank, whatever the batch: both again, of counts of tokens in
  /// place of steps. Sum to top_k.
  std::vector<double> token_inclusion, token_by_batch;
  std::uint32_t top_k = 1;  // experts that a token uses in a layer
};

/// How often the expert of each popularity rank is used in a decode step of a static batch (ZipMoE
/// section 3.4: rank-based workload model, "for a given batch size"). Identities do not matter, so another
/// trace of the same model serves. The paper aggregates the history's counts and ranks those; its published
/// code ranks the counts of each batch and layer before it adds them up, counts tokens, and plans with the
/// model's k at any batch (ObtainDistFromTrace() and PlanCache() in runtime/cache_planning.py). A step of
/// `drafts` has the rows that these add.
RankInclusion rank_inclusion(const RoutingTrace& history, std::uint32_t batch, bool encoder_decoder,
                             const Drafts& drafts = {});

/// What the planning policy of a system is asked for one layer's cache. Throws InputError when that is not
/// usable.
PlanInput plan_input(const SystemConfig& system, const ExpertCosts& costs, Bytes layer_memory,
                     const RankInclusion& use);
/// Sizes the pools of one layer's cache by the system's planning policy.
Plan plan_pools(const SystemConfig& system, const PlanInput& input);

}  // namespace moelab
