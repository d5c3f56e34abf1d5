// Prefetch family: which experts of later layers to fetch while this layer computes.
//
// The serving loop reports each layer's routing once its gate has run, then asks what to fetch. Fetches run
// at a priority below every demand load; what has not started when its layer comes up is cancelled and
// demanded instead.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "policies/cache/cache.hpp"
#include "policies/policy_info.hpp"
#include "policies/policy_table.hpp"

namespace moelab {

struct PrefetchShape {
  std::uint32_t layers = 0;   // MoE layers that run in a step
  std::uint32_t experts = 0;  // routed experts a layer
  std::uint32_t top_k = 0;
  std::uint64_t seed = 1;  // of what a policy draws
  // Seconds of one expert, where the memory that computes is not the one that stores; else 0.
  double load_s = 0;            // over the link
  double gpu_s = 0;             // on the GPU, for one token
  std::vector<double> cpu_s{};  // on the CPU, by tokens from 0; empty: it does not compute
};

/// What the gate of a layer that has not run yet will say of one token, as recorded. A policy that predicts
/// gates degrades it to the accuracy that it states.
struct GateAhead {
  std::span<const std::uint16_t> chosen;  // [k] as the model will choose
  std::span<const float> scores;          // [experts]
  /// [k] what the recording itself predicted one layer ahead; empty where it did not.
  std::span<const std::uint16_t> predicted;
};

/// A wish: expert `expert` of MoE layer `layer` (counted over the trace's layer axis). Listed most urgent
/// first.
struct Fetch {
  std::uint32_t layer;
  std::uint32_t expert;
  bool operator==(const Fetch&) const = default;
};

class PrefetchPolicy {
 public:
  virtual ~PrefetchPolicy() = default;
  virtual void begin_request() {}  // a new request (or batch of requests) begins
  virtual void begin_step() {}     // a new forward pass begins
  /// How many layers ahead of the running one it wants to know of; 0: none.
  virtual std::uint32_t gates_ahead() const { return 0; }
  /// Of one layer ahead: every token of the pass, and which experts are on the GPU ([experts], 1: there).
  /// Called for each of them, nearest first, right before after_gate().
  virtual void gate_ahead(std::uint32_t layer, std::span<const GateAhead> tokens,
                          std::span<const std::uint8_t> resident) {
    (void)layer, (void)tokens, (void)resident;
  }
  /// MoE layer `layer` has routed; `uses` as in the cache family with objects numbered by expert within the
  /// layer. Appends what to fetch now to `fetches` (given empty).
  virtual void after_gate(std::uint32_t layer, std::span<const ExpertUse> uses,
                          std::vector<Fetch>& fetches) = 0;
};

struct PrefetchPolicyEntry {
  PolicyInfo info;
  bool needs_all_scores = false;  // GateAhead must be filled: traces that kept the scores of the chosen
                                  // experts alone, or none, cannot be used
  /// It predicts by running the next layer's attention ahead of that layer, on the GPU: what it wishes can be
  /// fetched once that is done.
  bool runs_attention_ahead = false;
  std::function<std::unique_ptr<PrefetchPolicy>(const PrefetchShape& shape,
                                                const PolicyParameters& parameters)>
      make;
};
/// The family's one table.
PolicyTable<PrefetchPolicyEntry>& prefetch_policies();
const PrefetchPolicyEntry* find_prefetch_policy(std::string_view name);

}  // namespace moelab
