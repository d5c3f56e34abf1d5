#include "policies/planning/planning.hpp"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "models/input_error.hpp"
#include "policies/planning/conditional_poisson.hpp"
#include "policies/planning/expected_makespan.hpp"
#include "tests/policies/random_numbers.hpp"
#include "tests/random_runs.hpp"

namespace moelab::planning_test {
namespace {

using namespace moelab::test;

/// Probability of every k-subset (a bit mask) of few experts under the distribution of greatest entropy:
/// proportional to the product of its members' odds (App. D, Eq. 22).
std::vector<std::pair<std::uint32_t, double>> subsets(const std::vector<double>& q, std::uint32_t k) {
  std::vector<std::pair<std::uint32_t, double>> all;
  double total = 0;
  for (std::uint32_t set = 0; set < 1U << q.size(); ++set) {
    if (static_cast<std::uint32_t>(std::popcount(set)) != k) continue;
    double weight = 1;
    for (std::size_t i = 0; i < q.size(); ++i) weight *= (set >> i & 1) != 0 ? q[i] : 1 - q[i];
    all.emplace_back(set, weight);
    total += weight;
  }
  for (auto& [set, p] : all) p /= total;
  return all;
}

std::vector<double> inclusion_of(const std::vector<double>& q, std::uint32_t k) {
  std::vector<double> f(q.size());
  for (const auto& [set, p] : subsets(q, k))
    for (std::size_t i = 0; i < q.size(); ++i)
      if ((set >> i & 1) != 0) f[i] += p;
  return f;
}

/// Inclusion probability of one expert among any number: the table of all others, in extended precision.
double inclusion_by_others(const std::vector<double>& q, std::size_t i, std::uint32_t k) {
  std::vector<long double> others(k + 1);
  others[0] = 1;
  for (std::size_t j = 0; j < q.size(); ++j) {
    if (j == i) continue;
    for (std::uint32_t h = k; h > 0; --h) others[h] = others[h] * (1 - q[j]) + others[h - 1] * q[j];
    others[0] *= 1 - static_cast<long double>(q[j]);
  }
  const long double in = others[k - 1] * q[i], out = others[k] * (1 - static_cast<long double>(q[i]));
  return static_cast<double>(in / (in + out));
}

/// Probabilities min(1, c w) with the c for which they sum to k, in random order of magnitude.
std::vector<double> random_inclusion(Random& random, std::size_t n, std::uint32_t k) {
  const double spread = 1 + 12 * uniform(random, 0, 1);
  std::vector<double> w(n);
  for (double& x : w) x = std::exp(-spread * uniform(random, 0, 1));
  double low = 0, high = static_cast<double>(n) * std::exp(spread);
  for (int i = 0; i < 200; ++i) {
    const double c = (low + high) / 2;
    double sum = 0;
    for (const double x : w) sum += std::min(1.0, c * x);
    (sum < k ? low : high) = c;
  }
  for (double& x : w) x = std::min(1.0, high * x);
  return w;
}

PlanInput random_input(Random& random, std::uint32_t most_experts, std::uint32_t most_used) {
  PlanInput in;
  const std::uint32_t n = 1 + below(random, most_experts);
  in.k = 1 + below(random, std::min(most_used, n));
  in.inclusion = random_inclusion(random, n, in.k);
  std::sort(in.inclusion.rbegin(), in.inclusion.rend());
  in.threads = 1 + below(random, 6);
  in.shards = 1 + below(random, 5);
  in.tensors = 1 + below(random, 3);
  in.sm_read_s = below(random, 8) == 0 ? 0 : uniform(random, 0, 1);
  in.e_read_s = below(random, 8) == 0 ? 0 : uniform(random, 0, 1) / in.shards;
  in.decompress_s = below(random, 8) == 0 ? 0 : 4 * uniform(random, 0, 1) / in.shards;
  in.tensor_elements = 1000;
  in.tensor_bytes = below(random, 4) == 0 ? uniform(random, 300, 4000) : 2 * in.tensor_elements;
  in.ratio = 0.2 + 0.7 * uniform(random, 0, 1);
  in.memory_bytes = uniform(random, 0, 1) * 2.2 * n * in.tensors * in.tensor_elements;
  in.pools[index(State::M)] = false;
  do
    for (std::size_t p = 0; p < 4; ++p) in.pools[p] = below(random, 4) != 0;
  while (std::count(in.pools.begin(), in.pools.end(), true) == 0);
  return in;
}

/// Alg. 3, line by line.
double naive_makespan(const PlanInput& in, double hf, double hc, double hs, double he) {
  const double n_sm = in.tensors * (in.k - (hf + hc + hs));
  const double n_e = in.tensors * in.shards * (in.k - (hf + hc + he));
  const double t_io = n_sm * in.sm_read_s + n_e * in.e_read_s;
  const double n_d = in.tensors * in.shards * (in.k - hf);
  const double t_decomp = (n_e * in.e_read_s + n_d * in.decompress_s) / in.threads;
  return std::max(t_io, t_decomp);
}

/// Alg. 2, not truncated.
std::vector<double> naive_hits(const std::vector<double>& q, std::size_t begin, std::size_t end) {
  std::vector<double> phi = {1};
  for (std::size_t r = begin; r < end; ++r) {
    std::vector<double> next(phi.size() + 1);
    for (std::size_t h = 0; h < phi.size(); ++h) {
      next[h] += phi[h] * (1 - q[r]);
      next[h + 1] += phi[h] * q[r];
    }
    phi = next;
  }
  return phi;
}

/// Lines 7 to 29 of Alg. 4.
double naive_cost(const PlanInput& in, const std::vector<double>& q, const std::array<std::size_t, 4>& size) {
  std::array<std::vector<double>, 4> phi;
  std::size_t u = 0;
  for (std::size_t p = 0; p < 4; ++p) {
    phi[p] = naive_hits(q, u, u + size[p]);
    u += size[p];
  }
  const auto missed = naive_hits(q, u, q.size());
  const double all = naive_hits(q, 0, q.size())[in.k];
  double cost = 0;
  for (std::size_t f = 0; f <= size[0]; ++f)
    for (std::size_t c = 0; c <= size[1]; ++c)
      for (std::size_t s = 0; s <= size[2]; ++s)
        for (std::size_t e = 0; e <= size[3]; ++e) {
          if (f + c + s + e > in.k) break;
          const std::size_t rest = in.k - f - c - s - e;
          if (rest >= missed.size()) continue;
          cost += naive_makespan(in, static_cast<double>(f), static_cast<double>(c), static_cast<double>(s),
                                 static_cast<double>(e)) *
                  phi[0][f] * phi[1][c] * phi[2][s] * phi[3][e] * missed[rest] / all;
        }
  return cost;
}

/// Experts that shares of i / steps of memory hold, pools clipped in the order of ranks.
std::array<std::size_t, 4> naive_sizes(const PlanInput& in, const std::array<int, 4>& units, int steps) {
  const double weight[] = {in.tensor_bytes / in.tensor_elements, 1 + in.ratio, 1, in.ratio};
  std::array<std::size_t, 4> size{};
  std::size_t left = in.inclusion.size();
  for (std::size_t p = 0; p < 4; ++p) {
    const double bytes = weight[p] * in.tensors * in.tensor_elements;
    size[p] = std::min(left, static_cast<std::size_t>(in.memory_bytes * units[p] / steps / bytes));
    left -= size[p];
  }
  return size;
}

double largest_gap(const std::vector<double>& a, const std::vector<double>& b) {
  double gap = 0;
  for (std::size_t i = 0; i < a.size(); ++i) gap = std::max(gap, std::abs(a[i] - b[i]));
  return gap;
}

PlanInput usable_input() {
  PlanInput in;
  in.inclusion = {0.75, 0.75, 0.5};
  in.k = 2;
  in.sm_read_s = in.e_read_s = in.decompress_s = 1e-3;
  in.memory_bytes = 1e6;
  in.tensor_elements = 1e5;
  in.tensor_bytes = 2e5;
  in.ratio = 0.4;
  return in;
}

}  // namespace

TEST_CASE("hits in consecutive intervals of ranks are those of all k-subsets") {
  Random random(1);
  for (int instance = 0; instance < moelab::test::random_runs(1000); ++instance) {
    const std::size_t n = 1 + below(random, 12);
    const std::uint32_t k = 1 + below(random, static_cast<std::uint32_t>(std::min<std::size_t>(5, n)));
    std::vector<double> q(n);
    for (double& x : q) x = uniform(random, 0, 1);
    std::array<std::uint32_t, 6> ends{};  // F, C, S, E, missed
    for (std::size_t p = 1; p < 5; ++p) ends[p] = below(random, static_cast<std::uint32_t>(n) + 1);
    std::sort(ends.begin() + 1, ends.begin() + 5);
    ends[5] = static_cast<std::uint32_t>(n);

    std::vector<double> expected(6 * 6 * 6 * 6 * 6);  // joint, by hits in the five intervals
    for (const auto& [set, p] : subsets(q, k)) {
      std::size_t at = 0;
      for (std::size_t i = 0; i < 5; ++i) {
        const std::uint32_t interval = (1U << ends[i + 1]) - (1U << ends[i]);
        at = at * 6 + static_cast<std::size_t>(std::popcount(set & interval));
      }
      expected[at] += p;
    }
    HitTable table(q, k);
    const double all = table.hits(0, static_cast<std::uint32_t>(n))[k];
    REQUIRE(all == Approx(success_counts(q, k)[k]).epsilon(1e-13));
    for (std::size_t at = 0; at < expected.size(); ++at) {
      double p = 1 / all;
      std::size_t rest = at, sum = 0;
      for (std::size_t i = 5; i-- > 0; rest /= 6) {
        sum += rest % 6;
        p *= rest % 6 <= k ? table.hits(ends[i], ends[i + 1])[rest % 6] : 0;
      }
      if (std::abs((sum == k ? p : 0) - expected[at]) > 1e-12) FAIL("instance " << instance << " at " << at);
    }
  }
}

TEST_CASE("fitted draws are the true ones, up to a common factor on their odds") {
  Random random(2);
  for (int instance = 0; instance < moelab::test::random_runs(2000); ++instance) {
    const std::size_t n = 2 + below(random, 9);
    const std::uint32_t k = 1 + below(random, static_cast<std::uint32_t>(n) - 1);
    std::vector<double> q(n);
    for (double& x : q) x = 0.02 + 0.96 * uniform(random, 0, 1);
    const ConditionalPoisson fit = fit_conditional_poisson(inclusion_of(q, k), k);
    const auto odds = [](double p) { return p / (1 - p); };
    const double factor = odds(fit.selection[0]) / odds(q[0]);
    for (std::size_t i = 0; i < n; ++i)
      REQUIRE(odds(fit.selection[i]) / odds(q[i]) == Approx(factor).epsilon(1e-7));
    REQUIRE(std::accumulate(fit.selection.begin(), fit.selection.end(), 0.0) == Approx(k).epsilon(1e-12));
  }
}

TEST_CASE("fitted inclusion probabilities equal their targets") {
  Random random(3);
  for (int instance = 0; instance < moelab::test::random_runs(3000); ++instance) {
    const std::size_t n = 1 + below(random, instance % 20 == 0 ? 64 : 14);
    const std::uint32_t k = 1 + below(random, static_cast<std::uint32_t>(std::min<std::size_t>(8, n)));
    std::vector<double> f = random_inclusion(random, n, k);
    if (instance % 3 == 0) f.push_back(0);
    const ConditionalPoisson fit = fit_conditional_poisson(f, k);
    for (std::size_t i = 0; i < f.size(); ++i) {
      if (f[i] == 0 || f[i] == 1) REQUIRE(fit.selection[i] == f[i]);
      const double attained = inclusion_by_others(fit.selection, i, k);
      if (!(std::abs(attained - f[i]) < 1e-8))
        FAIL("instance " << instance << ": " << f[i] << " " << attained);
      if (!(std::abs(attained - fit.inclusion[i]) < 1e-11)) FAIL("instance " << instance << " inclusion");
    }
  }
}

TEST_CASE("fitting copes with probabilities near 0 and 1, and with large layers") {
  const std::vector<std::vector<double>> hard = {{1 - 1e-12, 1e-12},
                                                 {1 - 1e-3, 1 - 1e-9, 1e-3, 1e-9},
                                                 {1 - 1e-9, 1 - 1e-9, 1e-9, 1e-9},
                                                 {1, 1 - 1e-6, 0.5, 0.5, 5e-7, 5e-7, 0},
                                                 {1 - 1e-7, 1 - 1e-8, 1 - 1e-9, 1.11e-7},
                                                 {1, 1, 1e-7, 0},  // the ones leave nothing to draw
                                                 {1, 1 - 1e-7, 1 - 1e-8, 0},  // all that are left are needed
                                                 std::vector<double>(512, 64.0 / 512)};
  for (const auto& f : hard) {
    const auto k = static_cast<std::uint32_t>(std::lround(std::accumulate(f.begin(), f.end(), 0.0)));
    const ConditionalPoisson fit = fit_conditional_poisson(f, k);
    const bool forced = std::abs(std::accumulate(f.begin(), f.end(), 0.0) - k) > 1e-9;
    CHECK(largest_gap(fit.inclusion, f) < (forced ? 2e-7 : 1e-8));
    CHECK(std::abs(inclusion_by_others(fit.selection, 0, k) - f[0]) < (forced ? 2e-7 : 1e-8));
  }
  // Equal targets are met by equal draws of k / N: by symmetry.
  const ConditionalPoisson even = fit_conditional_poisson(hard.back(), 64);
  for (const double q : even.selection) CHECK(q == Approx(0.125).epsilon(1e-12));
}

TEST_CASE("estimated makespan is Algorithm 3's") {
  Random random(4);
  for (int instance = 0; instance < moelab::test::random_runs(1000); ++instance) {
    const PlanInput in = random_input(random, 12, 6);
    PoolSizes hits{};
    std::uint32_t left = in.k;
    for (std::size_t p = 0; p < 4; ++p) left -= hits[p] = below(random, left + 1);
    REQUIRE(estimated_makespan(in, hits) ==
            Approx(naive_makespan(in, hits[0], hits[1], hits[2], hits[3])).margin(1e-14));
  }
}

TEST_CASE("expected makespan is the mean over all k-subsets, and its bound lies below") {
  Random random(5);
  for (int instance = 0; instance < moelab::test::random_runs(1500); ++instance) {
    const PlanInput in = random_input(random, 11, 6);
    ExpectedMakespan makespan(in);
    PoolSizes size{};
    for (std::size_t p = 0; p < 4; ++p) size[p] = below(random, 6);
    size = clipped(size, in.inclusion.size());
    double expected = 0;
    for (const auto& [set, p] : subsets(makespan.model().selection, in.k)) {
      std::array<int, 4> hits{};
      std::uint32_t rank = 0;
      for (std::size_t pool = 0; pool < 4; ++pool)
        for (std::uint32_t i = 0; i < size[pool]; ++i) hits[pool] += set >> rank++ & 1;
      expected += p * naive_makespan(in, hits[0], hits[1], hits[2], hits[3]);
    }
    REQUIRE(makespan.cost(size) == Approx(expected).epsilon(1e-11).margin(1e-12));
    REQUIRE(makespan.lower_bound(size) <= expected * (1 + 1e-11) + 1e-12);
  }
}

TEST_CASE("the planned split is the first of the cheapest on the grid") {
  Random random(6);
  for (int instance = 0; instance < moelab::test::random_runs(600); ++instance) {
    PlanInput in = random_input(random, 12, 4);
    const int steps = 1 + static_cast<int>(below(random, 8));
    in.step = 1.0 / steps;
    REQUIRE(check_plan_input(in).empty());
    const Plan plan = find_planning_policy("zipmoe")->plan(in);

    std::vector<std::pair<double, std::array<int, 4>>>
        grid;  // in order: F's share falls first, then C's, S's
    for (int f = steps; f >= 0; --f)
      for (int c = steps - f; c >= 0; --c)
        for (int s = steps - f - c; s >= 0; --s) {
          const std::array<int, 4> units = {f, c, s, steps - f - c - s};
          bool allowed = true;
          for (std::size_t p = 0; p < 4; ++p) allowed = allowed && (units[p] == 0 || in.pools[p]);
          if (allowed)
            grid.emplace_back(naive_cost(in, plan.selection_probability, naive_sizes(in, units, steps)),
                              units);
        }
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [cost, units] : grid) least = std::min(least, cost);
    const auto first = std::find_if(grid.begin(), grid.end(), [&](const auto& split) {
      return split.first <= least + 1e-12 * naive_makespan(in, 0, 0, 0, 0);
    });
    REQUIRE(plan.expected_makespan_s == Approx(least).epsilon(1e-11).margin(1e-13));
    REQUIRE(plan.splits_examined <= grid.size());
    const auto size = naive_sizes(in, first->second, steps);
    for (std::size_t p = 0; p < 4; ++p) {
      if (plan.ratios[p] != Approx(static_cast<double>(first->second[p]) / steps).margin(1e-12))
        FAIL("instance " << instance << " pool " << p);
      REQUIRE(plan.capacity[p] == size[p]);
    }
  }
}

TEST_CASE("the fixed plan keeps the shares it is given") {
  Random random(7);
  for (int instance = 0; instance < moelab::test::random_runs(300); ++instance) {
    PlanInput in = random_input(random, 12, 4);
    in.pools = {true, true, true, true, false};
    std::array<int, 4> units{};
    for (int unit = 0; unit < 8; ++unit) ++units[below(random, 4)];
    for (std::size_t p = 0; p < 4; ++p) in.fixed_ratios[p] = units[p] / 8.0;
    REQUIRE(check_plan_input(in).empty());
    const Plan plan = find_planning_policy("fixed")->plan(in);
    const auto size = naive_sizes(in, units, 8);
    REQUIRE(plan.ratios == in.fixed_ratios);
    REQUIRE(plan.expected_makespan_s ==
            Approx(naive_cost(in, plan.selection_probability, size)).epsilon(1e-11).margin(1e-13));
    for (std::size_t p = 0; p < 4; ++p) REQUIRE(plan.capacity[p] == size[p]);
  }
  CHECK_THROWS_AS(find_planning_policy("fixed")->plan(usable_input()), InputError);  // no shares given
}

TEST_CASE("more memory never costs more, and memory for everything costs nothing") {
  PlanInput in = usable_input();
  Random random(8);
  in.inclusion = random_inclusion(random, 64, 6);
  std::sort(in.inclusion.rbegin(), in.inclusion.rend());
  in.k = 6;
  double before = std::numeric_limits<double>::infinity();
  // Each grid contains splits that hold what the one before held, also of every fifth share alone.
  constexpr int kStep = moelab::test::random_runs(1, 5);
  for (int share = 0; share <= 10; share += kStep) {
    in.memory_bytes = share * 0.1 * 64 * expert_bytes_in_state(State::F, in);
    in.step = share == 0 ? 0.1 : 0.1 / share;
    const double cost = find_planning_policy("zipmoe")->plan(in).expected_makespan_s;
    CHECK(cost <= before * (1 + 1e-9));
    before = cost;
  }
  CHECK(before == Approx(0).margin(1e-12));
}

TEST_CASE("bytes of an expert in each state") {
  // 3 tensors of 1000 BF16 elements, exponents compressed to 40 %: planes of 3000 bytes.
  PlanInput in;
  in.tensors = 3;
  in.tensor_elements = 1000;
  in.tensor_bytes = 2000;
  in.ratio = 0.4;
  CHECK(expert_bytes_in_state(State::F, in) == 6000);
  CHECK(expert_bytes_in_state(State::C, in) == Approx(4200));
  CHECK(expert_bytes_in_state(State::S, in) == 3000);
  CHECK(expert_bytes_in_state(State::E, in) == Approx(1200));
  CHECK(expert_bytes_in_state(State::M, in) == 0);
  in.tensor_bytes = 562.5;  // GGUF's Q4_0: blocks of 32 weights are 18 bytes
  CHECK(expert_bytes_in_state(State::F, in) == 1687.5);
}

TEST_CASE("unusable plan inputs are told apart") {
  CHECK(check_plan_input(usable_input()).empty());
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<std::string, void (*)(PlanInput&, double)>> cases = {
      {"outside [0, 1]",
       [](PlanInput& in, double) {
         in.inclusion = {1.25, 0.75};
       }},
      {"outside [0, 1]", [](PlanInput& in, double nan_) { in.inclusion[0] = nan_; }},
      {"sum to", [](PlanInput& in, double) { in.inclusion[0] += 2e-6; }},
      {"only 3", [](PlanInput& in, double) { in.k = 4; }},
      {"at least 1", [](PlanInput& in, double) { in.k = 0; }},
      {"at most 1024", [](PlanInput& in, double) { in.inclusion.assign(2000, 0.001); }},
      {"must each be at least 1", [](PlanInput& in, double) { in.threads = 0; }},
      {"time", [](PlanInput& in, double nan_) { in.e_read_s = nan_; }},
      {"time", [](PlanInput& in, double) { in.decompress_s = -1; }},
      {"memory", [](PlanInput& in, double) { in.memory_bytes = -1; }},
      {"ratio of compression", [](PlanInput& in, double) { in.ratio = 0; }},
      {"no pool", [](PlanInput& in, double) { in.pools.fill(false); }},
      {"M (missing)", [](PlanInput& in, double) { in.pools.fill(true); }},
      {"step", [](PlanInput& in, double) { in.step = 0; }},
      {"step", [](PlanInput& in, double) { in.step = 1.5; }},
      {"whole number", [](PlanInput& in, double) { in.step = 0.3; }},
      {"2 million", [](PlanInput& in, double) { in.step = 0.001; }},
      {"add up to", [](PlanInput& in, double) { in.fixed_ratios[0] = 0.5; }},
      {"may not be used", [](PlanInput& in, double) {
         in.pools[1] = false;
         in.fixed_ratios[1] = 1;
       }}};
  for (const auto& [words, spoil] : cases) {
    PlanInput in = usable_input();
    spoil(in, nan);
    INFO("expected: " << words << ", got: " << check_plan_input(in));
    CHECK(check_plan_input(in).find(words) != std::string::npos);
  }
  PlanInput in = usable_input();
  in.memory_bytes = inf;
  CHECK_FALSE(check_plan_input(in).empty());
}

TEST_CASE("splits of the memory are counted before they are tried") {
  // n steps over 4 pools: (n + 1)(n + 2)(n + 3) / 6 splits; 1,975,354 of 226 steps, 2,001,460 of 227.
  PlanInput in = usable_input();
  in.pools = {true, true, true, true, false};
  in.step = 1.0 / 226;
  CHECK(check_plan_input(in).empty());
  in.step = 1.0 / 227;
  CHECK(check_plan_input(in).find("2 million") != std::string::npos);
}

TEST_CASE("the planning table") {
  CHECK(find_planning_policy("zipmoe") != nullptr);
  CHECK(find_planning_policy("random") == nullptr);
}

}  // namespace moelab::planning_test
