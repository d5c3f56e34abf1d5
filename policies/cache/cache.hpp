// Cache family: which expert stays in memory in which compression state, and what leaves.
//
// A policy object manages one *domain*: the experts of one layer, or of the whole model. Objects are numbered
// 0..objects-1 (for a model-wide domain: moe_layer * experts + expert), so state is plain arrays and no
// hashing. The serving loop looks up states before a layer's loads, and reports every expert used, in
// ascending object order, once the layer is done; experts in use are therefore never evicted under the loop's
// feet. The policy counts nothing: hits are the loop's business. So a step of a domain is
//
//   begin_step(step); [observe(scores);] ...states()[object]...; use_all(uses);
//
// and insert() comes at any time between these calls.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "policies/compression_state.hpp"
#include "policies/policy_info.hpp"
#include "policies/policy_table.hpp"

namespace moelab {

inline constexpr std::uint64_t kNeverUsedAgain = std::numeric_limits<std::uint64_t>::max();

/// One expert used by a layer step.
struct ExpertUse {
  std::uint32_t object = 0;
  std::uint32_t tokens = 1;  // tokens routed to it in this step
  float score = 0;           // sum of their gate scores; 0 where the trace has none
  std::uint64_t next_use =
      kNeverUsedAgain;  // step of its layer at which it is used next, counted from 0; only for oracles
};

/// A layer step of a domain begins.
struct CacheStep {
  std::uint32_t layer = 0;          // the domain's own number of the layer: 0 where it has one
  std::uint32_t tokens = 1;         // that run through the layer
  std::uint32_t prompt_tokens = 0;  // of these, tokens of prompts: above 0 while the model prefills
};

/// What a policy manages. Capacity is a count of experts a pool for single-state policies, bytes for those
/// that mix states.
struct CacheShape {
  std::uint32_t objects = 0;            // experts in this domain
  std::uint32_t layers = 1;             // layers in this domain; objects = layers * experts a layer
  std::uint32_t first_layer = 0;        // the domain's first among the model's MoE layers
  std::uint32_t model_layers = 1;       // MoE layers in the model
  double capacity_bytes = 0;            // memory of this domain
  std::array<double, kStates> bytes{};  // of one expert in each state; 0 for M
  std::array<std::uint32_t, kStates>
      pool_experts{};        // planned pool sizes in experts (F, C, S, E); see policies/planning
  State kept_as = State::F;  // state in which a single-pool policy keeps what it keeps
  std::uint32_t top_k = 1;   // experts that a token chooses in a layer
  /// [objects] uses of each expert in an offline profile, of other requests to the same model; empty where
  /// the entry has no needs_profile. Read when the policy is made.
  std::span<const double> profile{};
};

class CachePolicy {
 public:
  virtual ~CachePolicy() = default;
  /// [objects], the state of each expert now. This memory is the policy's, who writes into it what changes;
  /// it stays where it is as long as the policy lives, since callers ask once for it.
  virtual std::span<const State> states() const = 0;
  /// Of one expert.
  State state(std::uint32_t object) const { return states()[object]; }
  /// An expert was used: it is full in memory at this moment, with whatever parts were loaded for it. The
  /// policy decides in which state it stays, and what leaves for it.
  virtual void use(const ExpertUse& use) = 0;
  /// All experts that a step used, in ascending object order; of a step that used none, an empty list. For
  /// policies that decide once a step; others get them one by one.
  virtual void use_all(std::span<const ExpertUse> uses) {
    for (const ExpertUse& each : uses) use(each);
  }
  /// For policies with a clock, and those that tell phases apart.
  virtual void begin_step(const CacheStep& step) { (void)step; }
  /// The gate has run for this step: `scores`, [objects], are those of all experts of the domain's layer,
  /// inactive ones too, summed over the step's tokens. Called once a step, before its uses, where the entry
  /// has needs_all_scores.
  virtual void observe(std::span<const float> scores) { (void)scores; }
  /// A new request (or batch of requests) begins. For policies with statistics a request.
  virtual void begin_request() {}
  /// An expert was prefetched in full: true when the policy takes it or held it already (state() then tells
  /// how it is kept: in kept_as by single-pool policies, in F by those with pools), false when it has no
  /// place for it.
  virtual bool insert(std::uint32_t object) {
    (void)object;
    return false;
  }
  /// Memory held now, bytes. Never above CacheShape::capacity_bytes.
  virtual double bytes_held() const = 0;
};

struct CachePolicyEntry {
  PolicyInfo info;
  bool per_model = false;       // one domain for the whole model instead of one a layer
  bool may_span_model = false;  // works with either: the system says which (`domain`), by default one a layer
  bool needs_future = false;    // ExpertUse::next_use must be filled
  bool needs_scores = false;    // ExpertUse::score must be filled: traces without gate scores cannot be used
  bool needs_all_scores = false;  // observe() must be called: traces that kept the scores of the chosen
                                  // experts alone, or none, cannot be used
  bool uses_pools = false;        // several states at once: sized by a planning policy
  bool needs_profile = false;     // CacheShape::profile must be filled
  bool preloads = false;          // holds experts from the start: its maker loads them before it serves
  std::function<std::unique_ptr<CachePolicy>(const CacheShape& shape, const PolicyParameters& parameters)>
      make;
};
/// The family's one table.
PolicyTable<CachePolicyEntry>& cache_policies();
/// nullptr when there is no such policy.
const CachePolicyEntry* find_cache_policy(std::string_view name);

}  // namespace moelab
