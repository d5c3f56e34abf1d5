// What is planned once before a run: sizes of cache pools, and for how many requests the KV cache has room.
#include <algorithm>
#include <array>
#include <cmath>

#include "models/input_error.hpp"
#include "policies/check/trial.hpp"

namespace moelab {
namespace {

/// Probabilities min(1, c w), falling, with the c for which they sum to k.
std::vector<double> draw_inclusion(Draws& draws, std::uint32_t experts, std::uint32_t k) {
  const double spread = draws.uniform(0, 6);
  std::vector<double> weights(experts);
  for (double& w : weights) w = std::exp(-spread * draws.uniform(0, 1));
  double low = 0, high = experts * std::exp(spread);
  for (int i = 0; i < 200; ++i) {
    const double c = (low + high) / 2;
    double sum = 0;
    for (const double w : weights) sum += std::min(1.0, c * w);
    (sum < k ? low : high) = c;
  }
  for (double& w : weights) w = std::min(1.0, high * w);
  std::sort(weights.rbegin(), weights.rend());
  return weights;
}

PlanInput draw_plan_input(Trial& trial) {
  Draws& draws = trial.draws;
  PlanInput in;
  const std::uint32_t experts = trial.smallest ? 1 : draws.between(1, 12);
  in.k = draws.between(1, std::min(experts, 5U));
  in.inclusion = draw_inclusion(draws, experts, in.k);
  in.threads = draws.between(1, 6);
  in.shards = draws.between(1, 5);
  in.tensors = draws.between(1, 3);
  in.sm_read_s = draws.one_in(8) ? 0 : draws.uniform(0, 1);
  in.e_read_s = draws.one_in(8) ? 0 : draws.uniform(0, 1);
  in.decompress_s = draws.one_in(8) ? 0 : draws.uniform(0, 2);
  in.tensor_elements = 1000;
  in.tensor_bytes = draws.one_in(4) ? draws.uniform(200, 4000) : 2 * in.tensor_elements;
  in.ratio = draws.uniform(0.2, 0.9);
  if (!trial.smallest) in.memory_bytes = draws.uniform(0, 2.2) * experts * in.tensors * in.tensor_elements;
  in.step = std::array{1.0, 0.5, 0.25, 0.2, 0.1, 0.05}[draws.below(6)];
  for (std::size_t pool = 0; pool < 4; ++pool) in.pools[pool] = !draws.one_in(4);
  if (std::none_of(in.pools.begin(), in.pools.end(), [](bool used) { return used; })) in.pools[0] = true;
  if (draws.one_in(6)) return in;  // no shares of the user's
  double left = 1;
  std::size_t last = 0;
  for (std::size_t pool = 0; pool < 4; ++pool) {
    if (!in.pools[pool]) continue;
    last = pool;
    in.fixed_ratios[pool] = left * draws.below(5) / 4;
    left -= in.fixed_ratios[pool];
  }
  in.fixed_ratios[last] += left;
  return in;
}

void play_planning(Trial& trial, const PlanningPolicyEntry& entry) {
  const PlanInput input = draw_plan_input(trial);
  if (const std::string problem = check_plan_input(input); !problem.empty()) throw InputError("", problem);
  const Plan plan = plan_pools(entry, input, kClosely);
  trial.answers.add_all(plan.capacity);
  for (const double ratio : plan.ratios) trial.answers.add(ratio);
  trial.answers.add(plan.expected_makespan_s);
}

void play_pressure(Trial& trial, const PressurePolicyEntry& entry) {
  Draws& draws = trial.draws;
  PressureTerms terms;
  double kv = 0, used = 0, step = draws.uniform(0, 5);
  const double experts = draws.between(1, 64);
  for (std::uint32_t n = trial.smallest ? 1 : draws.between(1, 16); n > 0; --n) {
    terms.kv_bytes.push_back(kv += draws.uniform(0, 40));
    if (!entry.needs_costs) continue;
    terms.used.push_back(used += (experts - used) * draws.uniform(0, 1));
    terms.step_s.push_back(step += draws.uniform(0, 1));
  }
  if (entry.needs_costs) {
    terms.experts = experts;
    terms.expert_bytes = draws.uniform(1, 10);
    terms.load_s = draws.uniform(0, 2);
    if (!trial.smallest) terms.room_bytes = draws.uniform(0, 2) * experts * terms.expert_bytes;
  }
  trial.answers.add(std::uint64_t{requests_under_pressure(entry, terms, trial.parameters, kClosely)});
}

}  // namespace

PolicyCheck check_policy(const PlanningPolicyEntry& entry, const CheckOptions& options) {
  return play_trials("planning", entry.info, options, [&](Trial& trial) { play_planning(trial, entry); });
}

PolicyCheck check_policy(const PressurePolicyEntry& entry, const CheckOptions& options) {
  return play_trials("pressure", entry.info, options, [&](Trial& trial) { play_pressure(trial, entry); });
}

}  // namespace moelab
