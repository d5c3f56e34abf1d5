#include "sim/serving/pool_planning.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "models/input_error.hpp"
#include "policies/guard/guarded_policies.hpp"
#include "sim/scenario/system_config.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/layer_uses.hpp"
#include "sim/serving/request_stream.hpp"

namespace moelab {
namespace {

/// Scales probabilities so that they sum to k, none above `ceiling`: what would exceed it goes to the others.
void scale_to(std::vector<double>& f, double k) {
  constexpr double ceiling = 1 - 1e-9;
  for (int round = 0; round < 100; ++round) {
    double fixed = 0, free = 0;
    for (const double x : f) (x >= ceiling ? fixed : free) += x;
    if (free <= 0 || std::abs(fixed + free - k) < 1e-12) return;
    const double factor = (k - fixed) / free;
    for (double& x : f)
      if (x < ceiling) x = std::clamp(x * factor, 0.0, ceiling);
  }
}

using Counts = std::vector<std::vector<double>>;  // [layers][experts]

/// Adds each layer's counts, largest first, to `ranked`, and empties them.
void add_ranked(Counts& counts, Counts& ranked) {
  for (std::size_t layer = 0; layer < counts.size(); ++layer) {
    std::sort(counts[layer].begin(), counts[layer].end(), std::greater<>());
    for (std::size_t r = 0; r < counts[layer].size(); ++r) ranked[layer][r] += counts[layer][r];
    std::fill(counts[layer].begin(), counts[layer].end(), 0.0);
  }
}

/// Uses by rank, ranks of the whole history's counts and of each batch's.
struct RankedCounts {
  Counts all, in_batch, ranked, ranked_by_batch;
  explicit RankedCounts(const Counts& none)
      : all(none), in_batch(none), ranked(none), ranked_by_batch(none) {}
  void add(std::uint32_t layer, std::uint32_t expert, double uses) {
    all[layer][expert] += uses;
    in_batch[layer][expert] += uses;
  }
  void end_batch() { add_ranked(in_batch, ranked_by_batch); }
  void end() { add_ranked(all, ranked); }
};

/// Uses at each rank over `per` of the layer, mean over the layers where that is not 0.
std::vector<double> inclusion_of(const Counts& ranked, const std::vector<double>& per) {
  std::vector<double> mean(ranked.empty() ? 0 : ranked.front().size(), 0);
  double seen = 0;
  for (std::size_t layer = 0; layer < ranked.size(); ++layer) {
    if (per[layer] == 0) continue;
    ++seen;
    for (std::size_t r = 0; r < mean.size(); ++r) mean[r] += ranked[layer][r] / per[layer];
  }
  if (seen > 0)
    for (double& f : mean) f /= seen;
  return mean;
}

}  // namespace

RankInclusion rank_inclusion(const RoutingTrace& history, std::uint32_t batch, bool encoder_decoder,
                             const Drafts& drafts) {
  const std::uint32_t layers = history.layers(), experts = history.experts();
  const Counts none(layers, std::vector<double>(experts, 0));
  RankedCounts by_step(none), by_token(none);
  std::vector<double> steps(layers, 0), tokens(layers, 0);
  StaticPasses passes(history, batch, {.encoded = encoder_decoder}, 0, drafts);
  LayerUses uses(experts, false);
  const auto end_batch = [&] {
    by_step.end_batch();
    by_token.end_batch();
  };
  bool any = false;
  for (Pass pass; passes.next(pass); any = true) {
    if (any && passes.begins()) end_batch();
    if (pass.prompt) continue;
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      const auto used = uses.collect(history, pass, layer);
      if (!used.empty()) ++steps[layer];
      for (const ExpertUse& use : used) {
        by_step.add(layer, use.object, 1);
        by_token.add(layer, use.object, use.tokens);
        tokens[layer] += static_cast<double>(use.tokens) / history.top_k();
      }
    }
  }
  if (any) end_batch();
  by_step.end();
  by_token.end();
  RankInclusion out;
  out.top_k = history.top_k();
  out.inclusion = inclusion_of(by_step.ranked, steps);
  out.k = static_cast<std::uint32_t>(
      std::lround(std::accumulate(out.inclusion.begin(), out.inclusion.end(), 0.0)));
  if (out.k == 0) return out;
  out.by_batch = inclusion_of(by_step.ranked_by_batch, steps);
  out.token_inclusion = inclusion_of(by_token.ranked, tokens);
  out.token_by_batch = inclusion_of(by_token.ranked_by_batch, tokens);
  scale_to(out.inclusion, out.k);
  scale_to(out.by_batch, out.k);
  scale_to(out.token_inclusion, out.top_k);
  scale_to(out.token_by_batch, out.top_k);
  return out;
}

PlanInput plan_input(const SystemConfig& system, const ExpertCosts& costs, Bytes layer_memory,
                     const RankInclusion& use) {
  const std::string planning = "system '" + system.name + "', planning '" + system.planning.name + "': ";
  if (use.k == 0)
    throw InputError("", planning +
                             "no request decodes a token, so nothing says which experts are used "
                             "while decoding");
  PlanInput input;
  const bool by_batch = system.plan_ranks_by_batch;
  if (system.plan_model_k)
    input.inclusion = by_batch ? use.token_by_batch : use.token_inclusion;
  else
    input.inclusion = by_batch ? use.by_batch : use.inclusion;
  input.k = system.plan_model_k ? use.top_k : use.k;
  input.threads = costs.timing.threads;
  input.shards = std::max(1u, costs.timing.shards);
  input.tensors = costs.tensors;
  const ExpertReads& reads = system.plan_for_page_cache ? costs.cached : costs.cold;
  input.sm_read_s = reads.sm_s;
  input.e_read_s = reads.e_s;
  input.decompress_s = costs.timing.decompress_s;
  input.memory_bytes = layer_memory.value();
  input.tensor_elements = costs.elements;
  input.tensor_bytes = costs.bytes[index(State::F)] / costs.tensors;
  input.ratio = costs.ratio;
  input.step = system.plan_step;
  input.pools = system.pools;
  input.fixed_ratios = system.ratios;
  if (const std::string problem = check_plan_input(input); !problem.empty())
    throw InputError("", planning + problem);
  return input;
}

Plan plan_pools(const SystemConfig& system, const PlanInput& input) {
  return plan_pools(*find_planning_policy(system.planning.name), input);
}

}  // namespace moelab
