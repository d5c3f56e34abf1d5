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
};

/// Of each of the workload's requests, by number. They depend on the seed, the request's number and its class
/// alone: not on when requests come, nor on how many there are. Empty where the workload draws none.
std::vector<DrawnLengths> drawn_lengths(const WorkloadConfig& workload, std::uint64_t seed);

}  // namespace moelab
