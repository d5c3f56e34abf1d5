// The lengths of a workload's requests, drawn from its distributions.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/scenario/request_mix.hpp"
#include "traces/random.hpp"

namespace moelab {

struct WorkloadConfig;

/// A number of tokens that a law gives: at least 1.
std::uint32_t draw_tokens(const TokenLaw& law, Random& random);

struct DrawnLengths {
  std::uint32_t prompt_tokens = 0, output_tokens = 0;
  std::uint16_t of_class = 0;  // place in WorkloadConfig::mix
  /// Of a conversation: tokens of its prompt that the request before it in the list had, in its prompt and
  /// its answer. 0: it begins one, or is alone.
  std::uint32_t said_before = 0;
};

/// Of each of the workload's requests, by number; those of a conversation follow each other. They depend on
/// the seed, the request's number and its class alone, in a conversation on those before it: not on when
/// requests come, nor on how many there are. Empty where the workload draws none.
std::vector<DrawnLengths> drawn_lengths(const WorkloadConfig& workload, std::uint64_t seed);

}  // namespace moelab
