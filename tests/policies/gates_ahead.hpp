// Gates of tokens that own their memory, and random ones, for the policies that are told of gates ahead.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "policies/prefetch/prefetch.hpp"

namespace moelab {

struct OwnedGate {
  std::vector<float> scores;
  std::vector<std::uint16_t> chosen;
  std::vector<std::uint16_t> predicted;
  GateAhead ahead() const { return {chosen, scores, predicted}; }
};

inline std::vector<GateAhead> views(const std::vector<OwnedGate>& gates) {
  std::vector<GateAhead> all;
  for (const OwnedGate& gate : gates) all.push_back(gate.ahead());
  return all;
}

/// The k best of `scores`; of equals the lower first.
inline OwnedGate gate_of(std::vector<float> scores, std::size_t k) {
  OwnedGate gate{std::move(scores), {}, {}};
  gate.chosen.resize(gate.scores.size());
  std::iota(gate.chosen.begin(), gate.chosen.end(), std::uint16_t{0});
  std::stable_sort(gate.chosen.begin(), gate.chosen.end(),
                   [&](std::uint16_t a, std::uint16_t b) { return gate.scores[a] > gate.scores[b]; });
  gate.chosen.resize(k);
  return gate;
}

/// Scores of 1/64 to 1, so that ties and exact bounds happen.
inline OwnedGate random_gate(std::mt19937_64& random, std::size_t experts, std::size_t k) {
  std::vector<float> scores;
  for (std::size_t e = 0; e < experts; ++e) scores.push_back(static_cast<float>(1 + random() % 64) / 64);
  return gate_of(std::move(scores), k);
}

inline std::vector<OwnedGate> random_gates(std::mt19937_64& random, std::size_t tokens, std::size_t experts,
                                           std::size_t k) {
  std::vector<OwnedGate> gates;
  for (std::size_t t = 0; t < tokens; ++t) gates.push_back(random_gate(random, experts, k));
  return gates;
}

/// What the policy wishes after the gate of `layer`, of which it is told what `ahead` says of the next ones.
inline std::vector<Fetch> wishes_after(PrefetchPolicy& policy, std::uint32_t layer,
                                       const std::vector<std::vector<OwnedGate>>& ahead,
                                       const std::vector<std::vector<std::uint8_t>>& resident) {
  for (std::size_t i = 0; i < ahead.size(); ++i)
    policy.gate_ahead(layer + 1 + static_cast<std::uint32_t>(i), views(ahead[i]), resident[i]);
  std::vector<Fetch> fetches;
  policy.after_gate(layer, {}, fetches);
  return fetches;
}

}  // namespace moelab
