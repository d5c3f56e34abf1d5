// Statistics of routing against the same figures worked out from their definitions, token by token and set by
// set, on thousands of small random traces; and slices of traces.
#include "traces/statistics/routing_statistics.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "tests/random_runs.hpp"
#include "tests/traces/naive_statistics.hpp"
#include "tests/traces/random_traces.hpp"
#include "traces/random.hpp"

namespace moelab::routing_statistics_test {
namespace {

using namespace test;

void check_popularity(const LayerStatistics& got, const Requests& requests, const PlainTrace& trace) {
  const std::uint32_t n = trace.about.experts, k = trace.about.top_k;
  std::vector<const std::vector<Set>*> all;
  for (const auto& request : requests) all.push_back(&request);
  std::vector<double> counts = counts_of(all, n);
  const double uses = total(counts), tokens = uses / k;
  REQUIRE(got.tokens == static_cast<std::uint64_t>(tokens));
  REQUIRE(std::equal(counts.begin(), counts.end(), got.uses.begin(), got.uses.end(),
                     [](double a, std::uint64_t b) { return a == static_cast<double>(b); }));
  double entropy = uses > 0 ? 0 : kNaN, independent = tokens > 0 ? 0 : kNaN;
  for (const double c : counts) {
    if (c > 0) entropy -= c / uses * std::log2(c / uses);
    if (tokens > 0) independent += c / tokens * c / tokens / k;
  }
  CHECK(same(got.entropy, entropy));
  CHECK(same(got.independent_reuse, independent));
  std::sort(counts.rbegin(), counts.rend());
  const auto quarter = static_cast<std::ptrdiff_t>(std::ceil(n / 4.0));
  CHECK(same(got.top_quarter, ratio(std::accumulate(counts.begin(), counts.begin() + quarter, 0.0), uses)));
}

void check_groups(const LayerStatistics& got, const Requests& requests, const PlainTrace& trace) {
  std::vector<std::vector<double>> prompts;
  std::map<std::uint16_t, std::vector<const std::vector<Set>*>> by_domain;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    prompts.push_back(counts_of({&requests[r]}, trace.about.experts));
    by_domain[trace.requests[r].domain].push_back(&requests[r]);
  }
  CHECK(same(got.prompt_divergence, divergence(prompts)));
  CHECK(same(got.prompt_chance, chance(prompts)));
  std::vector<std::vector<double>> domains;
  if (!trace.about.domains.empty())
    for (const auto& [domain, those] : by_domain) domains.push_back(counts_of(those, trace.about.experts));
  CHECK(same(got.domain_divergence, domains.empty() ? kNaN : divergence(domains)));
  CHECK(same(got.domain_chance, domains.empty() ? kNaN : chance(domains)));
}

/// Compares every figure but the curves; returns how many hits of the transitions were open.
double check_layer(const LayerStatistics& got, const PlainTrace& trace, std::uint32_t layer) {
  const Requests requests = layer_of(trace, layer);
  check_popularity(got, requests, trace);
  check_groups(got, requests, trace);
  CHECK(same(got.reuse, naive_reuse(requests, trace.about.top_k)));
  REQUIRE(got.distinct.size() == UseStatistics::kWindows.size());
  for (std::size_t w = 0; w < got.distinct.size(); ++w)
    CHECK(same(got.distinct[w], naive_distinct(requests, std::size_t{2} << w)));
  const Shares gates = naive_gates(trace, layer, static_cast<double>(got.tokens));
  CHECK(std::equal(gates.begin(), gates.end(), got.gates.begin(), got.gates.end(), same));
  const Recalls recalls = naive_recalls(trace, layer);
  const double experts = recalls.tokens * trace.about.top_k;
  CHECK(same(got.popularity_recall, ratio(recalls.popularity, experts)));
  if (experts == 0) {
    CHECK(std::isnan(got.transition_recall));
  } else {
    CHECK(got.transition_recall >= recalls.least / experts - 1e-12);
    CHECK(got.transition_recall <= recalls.most / experts + 1e-12);
  }
  return recalls.most - recalls.least;
}

/// All figures of a layer in one row.
std::vector<double> figures(const LayerStatistics& s) {
  std::vector<double> all{static_cast<double>(s.tokens),
                          s.top_quarter,
                          s.entropy,
                          s.reuse,
                          s.independent_reuse,
                          s.transition_recall,
                          s.popularity_recall,
                          s.prompt_divergence,
                          s.prompt_chance,
                          s.domain_divergence,
                          s.domain_chance};
  all.insert(all.end(), s.uses.begin(), s.uses.end());
  for (const auto* list : {&s.distinct, &s.gates, &s.lru, &s.belady, &s.lfu, &s.fifo})
    all.insert(all.end(), list->begin(), list->end());
  return all;
}

}  // namespace

TEST_CASE("statistics are what their definitions say, on thousands of random traces") {
  double open = 0, experts = 0;
  for (std::uint64_t seed = 0; seed < random_runs(2000u); ++seed) {
    Random random(seed);
    const PlainTrace plain = random_plain_trace(random);
    const RoutingTrace trace = plain.built();
    INFO("seed " << seed);
    const RoutingStatistics got = routing_statistics(trace, {.curves = false, .threads = 1, .progress = {}});
    REQUIRE(got.layers.size() == plain.about.layers);
    REQUIRE(got.tokens == trace.tokens());
    REQUIRE(got.requests == plain.requests.size());
    REQUIRE(got.prompt_tokens == plain.prompt_rows());
    REQUIRE(got.description.experts == plain.about.experts);
    for (std::uint32_t l = 0; l < plain.about.layers; ++l) {
      open += check_layer(got.layers[l], plain, l);
      experts += static_cast<double>(got.layers[l].tokens) * plain.about.top_k;
      REQUIRE(got.layers[l].lru.empty());
    }
  }
  CHECK(open < 0.02 * experts);  // the bounds of the transitions are close together
}

TEST_CASE("statistics of requests longer than a block of tokens") {
  Random random(7);
  PlainTrace plain = random_plain_trace(
      random, {.layers = 2, .experts = 12, .top_k = 2, .requests = 3, .longest = 1, .encoder_layers = 0});
  for (auto& request : plain.requests) {
    request.rows.clear();
    for (int t = 0; t < 5000; ++t) request.rows.push_back(test::random_row(random, plain, Phase::decode));
  }
  const RoutingStatistics got =
      routing_statistics(plain.built(), {.curves = false, .threads = 2, .progress = {}});
  for (std::uint32_t l = 0; l < 2; ++l) check_layer(got.layers[l], plain, l);
}

TEST_CASE("statistics do not depend on the number of threads; progress comes in order") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed, 3, 0);
    const RoutingTrace trace = random_plain_trace(random).built();
    const RoutingStatistics one = routing_statistics(trace, {.curves = true, .threads = 1, .progress = {}});
    for (const unsigned threads : {2u, 3u, 16u, 0u}) {
      std::uint64_t last = 0;
      const RoutingStatistics more = routing_statistics(
          trace, {.curves = true, .threads = threads, .progress = [&](std::uint64_t done, std::uint64_t all) {
                    REQUIRE(done >= last);
                    REQUIRE(all == trace.tokens());
                    last = done;
                  }});
      CHECK(last == trace.tokens());
      REQUIRE(more.layers.size() == one.layers.size());
      for (std::size_t l = 0; l < one.layers.size(); ++l) {
        const auto a = figures(one.layers[l]), b = figures(more.layers[l]);
        REQUIRE(std::equal(a.begin(), a.end(), b.begin(), b.end(),
                           [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }));
      }
    }
  }
}

TEST_CASE("hit curves of the statistics are rates at the capacities that they name") {
  for (std::uint32_t experts = 1; experts <= 70; ++experts) {
    Random random(experts, 4, 0);
    const PlainTrace plain = random_plain_trace(
        random,
        {.layers = 1, .experts = experts, .top_k = 1, .requests = 2, .longest = 90, .encoder_layers = 0});
    const RoutingStatistics got = routing_statistics(plain.built());
    REQUIRE(got.capacities.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
      const double due = std::array{0.125, 0.25, 0.5, 0.75}[i] * experts;
      CHECK((got.capacities[i] == 1 || std::abs(got.capacities[i] - due) <= 0.5));
      CHECK((got.capacities[i] >= 1 && got.capacities[i] <= experts));
    }
    const LayerStatistics& layer = got.layers[0];
    REQUIRE(layer.lru.size() == experts);
    REQUIRE(layer.belady.size() == experts);
    REQUIRE((layer.lfu.size() == 4 && layer.fifo.size() == 4));
    // A cache of one expert hits where a token's expert is the one before's, in all requests together; one
    // of all experts misses each of them once.
    std::vector<std::uint16_t> order;
    for (const auto& request : plain.requests)
      for (const auto& row : request.rows) order.push_back(row.ids[0][0]);
    double again = 0;
    for (std::size_t t = 1; t < order.size(); ++t) again += order[t] == order[t - 1];
    const auto lookups = static_cast<double>(order.size());
    const std::set<std::uint16_t> distinct(order.begin(), order.end());
    const double all = 1 - static_cast<double>(distinct.size()) / lookups;
    CHECK(same(layer.lru.front(), again / lookups));
    CHECK(same(layer.belady.front(), again / lookups));
    CHECK(same(layer.lru.back(), all));
    CHECK(same(layer.belady.back(), all));
  }
}

TEST_CASE("more pairs of experts than can be counted are refused") {
  const auto row_of = [](std::uint32_t experts) {
    Random random(5);
    return random_plain_trace(random, {.layers = 1,
                                       .experts = experts,
                                       .top_k = 1,
                                       .requests = 1,
                                       .longest = 1,
                                       .encoder_layers = 0})
        .built();
  };
  // One more than the square root of the limit; the limit itself would take 4 GiB.
  CHECK_THROWS_WITH(routing_statistics(row_of(32769)), Catch::Contains("1 layers of 32769 experts"));
  CHECK_NOTHROW(routing_statistics(row_of(1024), {.curves = false, .threads = 1, .progress = {}}));
}

TEST_CASE("groups that differ by chance alone show the divergence that is foretold", "[long]") {
  // 40 groups of 600 independent uses of 16 experts with unequal shares; the mean of 300 such sets. Miller's
  // bias is of first order in 1 / n: what it leaves out is some n p of a twelfth of its square, below 2 %.
  Random random(11);
  std::vector<double> edge(16);
  for (std::size_t e = 0; e < 16; ++e) edge[e] = (e > 0 ? edge[e - 1] : 0) + 1.0 + static_cast<double>(e);
  double bits = 0, foretold = 0;
  for (int set = 0; set < 300; ++set) {
    GroupDivergence groups(16);
    for (int g = 0; g < 40; ++g) {
      std::vector<std::uint64_t> uses(16);
      for (int i = 0; i < 600; ++i)
        ++uses[static_cast<std::size_t>(
            std::upper_bound(edge.begin(), edge.end() - 1, random.uniform() * edge.back()) - edge.begin())];
      groups.add_group(uses);
    }
    bits += groups.bits() / 300;
    foretold += groups.chance_bits() / 300;
  }
  CHECK(bits == Approx(foretold).epsilon(0.03));
  CHECK(foretold == Approx(15 * 39 / (2 * std::log(2.0) * 24000)).epsilon(0.001));
  CHECK(std::isnan(GroupDivergence(4).bits()));
  CHECK(std::isnan(GroupDivergence(4).chance_bits()));
}

}  // namespace moelab::routing_statistics_test
