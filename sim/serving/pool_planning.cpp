#include "sim/serving/pool_planning.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "models/input_error.hpp"
#include "sim/scenario/system_config.hpp"
#include "sim/serving/batch.hpp"
#include "sim/serving/expert_costs.hpp"

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

}  // namespace

RankInclusion rank_inclusion(const RoutingTrace& history, std::uint32_t batch, bool encoder_decoder) {
  const std::uint32_t layers = history.layers(), experts = history.experts();
  std::vector<std::vector<double>> counts(layers, std::vector<double>(experts, 0));
  std::vector<double> steps(layers, 0);
  Batch passes(history, encoder_decoder);
  LayerUses uses(experts, false);
  Pass pass;
  for (std::size_t first = 0; first < history.requests().size(); first += batch) {
    passes.start(first, std::min<std::size_t>(batch, history.requests().size() - first));
    while (passes.next(pass)) {
      if (pass.prompt) continue;
      for (std::uint32_t layer = 0; layer < layers; ++layer) {
        const auto used = uses.collect(history, pass, layer);
        if (!used.empty()) ++steps[layer];
        for (const ExpertUse& use : used) ++counts[layer][use.object];
      }
    }
  }
  RankInclusion out{std::vector<double>(experts, 0), 0};
  double seen = 0;
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    if (steps[layer] == 0) continue;
    ++seen;
    std::sort(counts[layer].begin(), counts[layer].end(), std::greater<>());
    for (std::uint32_t r = 0; r < experts; ++r) out.inclusion[r] += counts[layer][r] / steps[layer];
  }
  if (seen == 0) return out;
  for (double& f : out.inclusion) f /= seen;
  out.k = static_cast<std::uint32_t>(
      std::lround(std::accumulate(out.inclusion.begin(), out.inclusion.end(), 0.0)));
  scale_to(out.inclusion, out.k);
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
  input.inclusion = use.inclusion;
  input.k = use.k;
  input.threads = costs.timing.threads;
  input.shards = std::max(1u, costs.timing.shards);
  input.tensors = costs.tensors;
  const ExpertReads& reads = system.plan_for_page_cache ? costs.cached : costs.cold;
  input.sm_read_s = reads.sm_s;
  input.e_read_s = reads.e_s;
  input.decompress_s = costs.timing.decompress_s;
  input.memory_bytes = layer_memory.value();
  input.tensor_elements = costs.elements;
  input.ratio = costs.ratio;
  input.step = system.plan_step;
  input.pools = system.pools;
  input.fixed_ratios = system.ratios;
  if (const std::string problem = check_plan_input(input); !problem.empty())
    throw InputError("", planning + problem);
  return input;
}

Plan plan_pools(const SystemConfig& system, const PlanInput& input) {
  return find_planning_policy(system.planning.name)->plan(input);
}

}  // namespace moelab
