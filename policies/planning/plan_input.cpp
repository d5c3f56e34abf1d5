// What planning policies share: the check of what they are given.
#include <algorithm>
#include <cmath>

#include "policies/planning/planning.hpp"

namespace moelab {
namespace {

constexpr std::size_t kMostExperts = 1024, kMostUsed = 128;  // bound the tables of hits to half a GB
constexpr double kMostSplits = 2e6, kFinestStep = 1e-4;      // bound the grid to some seconds

bool nonnegative(double x) {
  return std::isfinite(x) && x >= 0;
}
bool positive(double x) {
  return std::isfinite(x) && x > 0;
}

std::string check_inclusion(const PlanInput& input) {
  const std::size_t experts = input.inclusion.size();
  if (experts > kMostExperts || input.k > kMostUsed)
    return "planning takes at most " + std::to_string(kMostExperts) + " experts a layer and " +
           std::to_string(kMostUsed) + " used in a step";
  if (input.k == 0) return "k, the number of experts used in a step, must be at least 1";
  if (input.k > experts)
    return "k = " + std::to_string(input.k) + " experts used in a step, but there are only " +
           std::to_string(experts);
  double sum = 0;
  for (const double f : input.inclusion) {
    if (!(f >= 0 && f <= 1)) return "an inclusion probability of " + std::to_string(f) + " is outside [0, 1]";
    sum += f;
  }
  if (std::abs(sum - input.k) > 1e-6)
    return "the inclusion probabilities sum to " + std::to_string(sum) + ", but k is " +
           std::to_string(input.k);
  return {};
}

std::string check_pools(const PlanInput& input) {
  if (input.pools[index(State::M)]) return "M (missing) cannot be a pool";
  const auto pools = std::count(input.pools.begin(), input.pools.end(), true);
  if (pools == 0) return "no pool may be used: choose at least one of F, C, S, E";
  if (!(input.step > 0 && input.step <= 1))
    return "the step of the grid is " + std::to_string(input.step) + ", expected above 0, at most 1";
  const double steps = std::round(1 / input.step);
  if (input.step < kFinestStep || std::abs(steps * input.step - 1) > 1e-6)
    return "the step of the grid must be 1 over a whole number, at least " + std::to_string(kFinestStep);
  double splits = 1;
  for (int p = 1; p < pools; ++p) splits *= (steps + p) / p;
  if (splits > kMostSplits)
    return "the step of the grid is too fine: more than 2 million splits of the memory";
  double shares = 0;
  for (std::size_t p = 0; p < input.fixed_ratios.size(); ++p) {
    if (!nonnegative(input.fixed_ratios[p])) return "a fixed share of memory is negative or not finite";
    if (input.fixed_ratios[p] > 0 && !input.pools[p])
      return "a fixed share of memory is given to " + std::string(kStateNames[p]) + ", which may not be used";
    shares += input.fixed_ratios[p];
  }
  if (shares > 0 && std::abs(shares - 1) > 1e-6)
    return "the fixed shares of memory add up to " + std::to_string(shares) + ", expected 1";
  return {};
}

}  // namespace

double expert_bytes_in_state(State state, const PlanInput& input) {
  if (state == State::F) return input.tensor_bytes * input.tensors;
  const double plane = input.tensor_elements * input.tensors;  // one byte a weight
  return (has_sm(state) ? plane : 0) + (has_e(state) ? input.ratio * plane : 0);
}

std::string check_plan_input(const PlanInput& input) {
  if (std::string problem = check_inclusion(input); !problem.empty()) return problem;
  if (input.threads == 0 || input.shards == 0 || input.tensors == 0)
    return "threads, shards and tensors must each be at least 1";
  if (!nonnegative(input.sm_read_s) || !nonnegative(input.e_read_s) || !nonnegative(input.decompress_s))
    return "a read or decompression time is negative or not finite";
  if (!nonnegative(input.memory_bytes)) return "the memory is negative or not finite";
  if (!positive(input.tensor_elements) || !positive(input.tensor_bytes) || !positive(input.ratio))
    return "the weights and bytes of a tensor and the ratio of compression must be positive and finite";
  return check_pools(input);
}

}  // namespace moelab
