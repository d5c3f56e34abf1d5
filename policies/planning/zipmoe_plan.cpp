// ZipMoE's hierarchical cache planning (App. C, Alg. 2 to 4): of all splits of the memory over the pools in
// steps of delta, the one with the least expected makespan.
//
//   fit selection probabilities q to the inclusion probabilities f          (conditional_poisson.hpp)
//   for each split gamma, sum 1, in multiples of delta:
//     S_p = floor(gamma_p * memory / bytes_p), pools laid over the ranks in the order F, C, S, E
//     cost = sum over hits h of makespan(h) * Phi_M(k - |h|) / Phi_N(k) * prod_p Phi_p(h_p)
//   return the split of least cost
//
// The grid runs with the share of F falling from 1, then C's, then S's; the last pool allowed takes the rest.
// Of splits whose costs agree to 1e-12 of the makespan of k misses the first in this order is taken. That is
// exactly the grid's optimum, but most of the grid is never evaluated: splits that hold the same experts are
// one; the rest are sorted by their lower bound (max of expectations), and evaluated until the bound exceeds
// the best cost found.
//
// Cost for p pools: G = C(1/delta + p - 1, p - 1) splits, O(G log G) to sort them, then O(k^3 / 6) for each
// one examined and at most O(N^2 k) time and 4 N^2 (k + 1) bytes in all for the tables of hits.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "policies/planning/expected_makespan.hpp"
#include "policies/planning/planning.hpp"

namespace moelab {
namespace {

// In parts of the makespan of k misses, the scale on which costs and bounds are rounded.
constexpr double kTie = 1e-12;         // costs this near are equal
constexpr double kBoundSlack = 1e-11;  // a bound may be this much too high

struct Split {
  std::array<std::uint16_t, kPools> units{};  // share of memory in steps of delta
  std::array<std::uint16_t, kPools> sizes{};  // clipped experts
  std::uint32_t order = 0;                    // position in the grid
  double bound_s = 0;
};

PoolSizes sizes_of(const Split& split) {
  PoolSizes sizes{};
  std::copy(split.sizes.begin(), split.sizes.end(), sizes.begin());
  return sizes;
}

/// All splits of the memory, in grid order.
class Grid {
 public:
  Grid(const PlanInput& input, std::uint32_t steps) : experts_(input.inclusion.size()), fits_(kPools) {
    for (std::size_t p = 0; p < kPools; ++p) {
      if (!input.pools[p]) continue;
      last_ = p;
      std::array<double, kStates> ratios{};
      for (std::uint32_t units = 0; units <= steps; ++units) {
        ratios[p] = static_cast<double>(units) / steps;
        fits_[p].push_back(pool_sizes(input, ratios)[p]);
      }
    }
    enumerate(0, steps, Split{});
  }
  std::vector<Split> splits() && { return std::move(splits_); }

 private:
  void enumerate(std::size_t pool, std::uint32_t left, Split split) {
    const bool allowed = !fits_[pool].empty();
    for (std::uint32_t units = allowed ? left : 0;; --units) {
      split.units[pool] = static_cast<std::uint16_t>(units);
      if (pool == last_) return add(split);  // it takes all that is left
      enumerate(pool + 1, left - units, split);
      if (units == 0) return;
    }
  }
  void add(Split split) {
    PoolSizes sizes{};
    for (std::size_t p = 0; p <= last_; ++p)
      if (!fits_[p].empty()) sizes[p] = fits_[p][split.units[p]];
    sizes = clipped(sizes, experts_);
    for (std::size_t p = 0; p < kPools; ++p) split.sizes[p] = static_cast<std::uint16_t>(sizes[p]);
    split.order = static_cast<std::uint32_t>(splits_.size());
    splits_.push_back(split);
  }

  std::size_t experts_;
  std::size_t last_ = 0;                          // last pool allowed
  std::vector<std::vector<std::uint32_t>> fits_;  // [pool][units]: experts it holds; empty where not allowed
  std::vector<Split> splits_;
};

/// Keeps the first in grid order of those that hold the same experts.
void drop_duplicates(std::vector<Split>& splits) {
  std::sort(splits.begin(), splits.end(), [](const Split& a, const Split& b) {
    return a.sizes != b.sizes ? a.sizes < b.sizes : a.order < b.order;
  });
  const auto same = [](const Split& a, const Split& b) { return a.sizes == b.sizes; };
  splits.erase(std::unique(splits.begin(), splits.end(), same), splits.end());
}

struct Priced {
  double cost_s;
  const Split* split;
};

/// Costs of all splits that may be the cheapest.
std::vector<Priced> price(std::vector<Split>& splits, ExpectedMakespan& makespan, double slack_s) {
  for (Split& split : splits) split.bound_s = makespan.lower_bound(sizes_of(split));
  std::sort(splits.begin(), splits.end(), [](const Split& a, const Split& b) {
    return a.bound_s != b.bound_s ? a.bound_s < b.bound_s : a.order < b.order;
  });
  std::vector<Priced> priced;
  double best = std::numeric_limits<double>::infinity();
  for (const Split& split : splits) {
    if (split.bound_s > best + slack_s) break;
    priced.push_back({makespan.cost(sizes_of(split)), &split});
    best = std::min(best, priced.back().cost_s);
  }
  return priced;
}

Plan zipmoe_plan(const PlanInput& input) {
  assert(check_plan_input(input).empty());
  const auto steps = static_cast<std::uint32_t>(std::lround(1 / input.step));
  std::vector<Split> splits = Grid(input, steps).splits();
  drop_duplicates(splits);
  const double worst = estimated_makespan(input, {});  // nothing found
  ExpectedMakespan makespan(input);
  const std::vector<Priced> priced = price(splits, makespan, kBoundSlack * worst);
  const auto cheaper = [](const Priced& a, const Priced& b) { return a.cost_s < b.cost_s; };
  const double least = std::min_element(priced.begin(), priced.end(), cheaper)->cost_s;
  const Priced* best = nullptr;
  for (const Priced& p : priced)
    if (p.cost_s <= least + kTie * worst && (!best || p.split->order < best->split->order)) best = &p;
  Plan plan;
  for (std::size_t p = 0; p < kPools; ++p)
    plan.ratios[p] = static_cast<double>(best->split->units[p]) / steps;
  plan.capacity = sizes_of(*best->split);
  plan.expected_makespan_s = best->cost_s;
  plan.selection_probability = makespan.model().selection;
  plan.splits_examined = priced.size();
  return plan;
}

}  // namespace

PlanningPolicyEntry zipmoe_plan_entry() {
  return {.info = {.name = "zipmoe",
                   .help = "the split of memory with the least expected makespan of a layer's loading",
                   .source = "ZipMoE, appendices C and D (Alg. 2 to 4)"},
          .plan = zipmoe_plan};
}

}  // namespace moelab
