// Routing family: which experts serve each token, given the gate's scores and what is on the GPU.
//
// The serving loop asks once a layer step, with all tokens of the step, before it looks up what to load: a
// policy may give a token other experts than the model's gate chose, and so change what the model computes.
// What it changed is reported token by token, so that a run can say what its speed costs in quality.
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

/// One token at one layer.
struct TokenGate {
  std::span<const std::uint16_t> chosen;  // [k] the model's own choice, distinct, in the model's order
  std::span<const float> scores;  // [experts] gate scores of all experts of the layer, no NaN; empty where
                                  // the trace has none and the policy does not need them
};

/// What an expert is to the token that it serves.
enum class ExpertRole : std::uint8_t {
  top,        // top-score: always the model's own choice
  low,        // low-score, kept
  substitute  // takes the place of a low-score expert
};

struct TokenRouting {
  std::uint32_t top_score = 0;    // the model's experts for this token by class: top_score + low_score = k
  std::uint32_t low_score = 0;    // the replaced ones are among these
  std::uint32_t substituted = 0;  // of the low-score ones: how many were replaced
  double mass_moved = 0;  // sum over substitutions of |score of the replaced - score of the substitute|
  bool operator==(const TokenRouting&) const = default;
};

/// Experts by token, flat: token t has positions t * k to t * k + k - 1. A position holds the model's choice
/// of that position or its substitute; the experts of a token are distinct.
struct StepRouting {
  std::vector<std::uint16_t> experts;  // [tokens * k]
  std::vector<ExpertRole> roles;       // [tokens * k]
  std::vector<TokenRouting> tokens;    // [tokens]
  void clear() {
    experts.clear();
    roles.clear();
    tokens.clear();
  }
  bool operator==(const StepRouting&) const = default;
};

class RoutingPolicy {
 public:
  virtual ~RoutingPolicy() = default;
  /// Fills `routing` (cleared first; its memory is reused). `tokens`: all of the step, each with the same k
  /// and, if any, as many scores. `resident`: [experts] 1 for an expert on the GPU. Keeps its own scratch
  /// memory: allocates nothing once it has seen the largest step.
  virtual void route(std::span<const TokenGate> tokens, std::span<const std::uint8_t> resident,
                     StepRouting& routing) = 0;
};

struct RoutingPolicyEntry {
  PolicyInfo info;
  bool needs_all_scores = false;  // TokenGate::scores must be filled: traces that kept the scores of the
                                  // chosen experts alone, or none, cannot be used
  std::function<std::unique_ptr<RoutingPolicy>(const PolicyParameters& parameters)> make;
};
/// The family's one table.
PolicyTable<RoutingPolicyEntry>& routing_policies();
/// nullptr when there is no such policy.
const RoutingPolicyEntry* find_routing_policy(std::string_view name);

}  // namespace moelab
