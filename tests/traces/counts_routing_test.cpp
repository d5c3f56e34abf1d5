// Routing drawn from counts: who is chosen how often, and what is refused.
#include "traces/counts_routing.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "tests/traces/trace_files.hpp"
#include "traces/portable_math.hpp"
#include "traces/random.hpp"

namespace moelab::counts_routing_test {
namespace {

using test::error_of;

CountsRouting sizes(std::uint32_t layers, std::uint32_t experts, std::uint32_t top_k, std::uint64_t tokens) {
  CountsRouting p;
  p.model = "test";
  p.layers = layers;
  p.experts = experts;
  p.top_k = top_k;
  p.tokens = tokens;
  return p;
}

/// p_e = min(1, f * w_e) with the f at which they sum to k, found by bisection: the sum rises with f.
std::vector<double> bisected(std::span<const double> weights, std::uint32_t top_k) {
  const auto at = [&](double f) {
    std::vector<double> chances;
    for (const double weight : weights) chances.push_back(std::min(1.0, f * weight));
    return chances;
  };
  double low = 0, high = 1;
  const auto sum = [](const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); };
  while (sum(at(high)) < top_k && high < 1e300) high *= 2;
  for (int i = 0; i < 200; ++i) {
    const double middle = low + (high - low) / 2;
    (sum(at(middle)) < top_k ? low : high) = middle;
  }
  return at(high);
}

/// Weights of a layer from even to very skewed, some of them 0; at least top_k are not.
std::vector<double> random_weights(Random& random, std::uint32_t experts, std::uint32_t top_k) {
  const double skew = 12 * random.uniform() * random.uniform();
  const double zeros = random.below(3) == 0 ? random.uniform() : 0;
  std::vector<double> weights(experts);
  for (double& weight : weights) weight = portable_exp(skew * (random.uniform() - 1));
  std::vector<std::size_t> order(experts);
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(std::span(order));
  for (std::size_t i = top_k; i < order.size(); ++i)
    if (random.uniform() < zeros) weights[order[i]] = 0;
  return weights;
}

std::vector<std::uint64_t> uses(const RoutingTrace& trace, std::uint32_t layer) {
  std::vector<std::uint64_t> counts(trace.experts());
  for (std::uint64_t token = 0; token < trace.tokens(); ++token)
    for (const std::uint16_t expert : trace.experts_of(token, layer)) ++counts[expert];
  return counts;
}

TEST_CASE("routing by counts: the chance to be chosen is in proportion to the weight, and 1 at most",
          "[long]") {
  Random random(1);
  for (int i = 0; i < 5000; ++i) {
    const auto experts = static_cast<std::uint32_t>(1 + random.below(40));
    const auto top_k = static_cast<std::uint32_t>(1 + random.below(experts));
    const std::vector<double> weights = random_weights(random, experts, top_k);
    const std::vector<double> chances = inclusion_probabilities(weights, top_k);
    const std::vector<double> due = bisected(weights, top_k);
    REQUIRE(chances.size() == experts);
    for (std::size_t e = 0; e < experts; ++e)
      REQUIRE(chances[e] == Approx(due[e]).epsilon(1e-9).margin(1e-12));
    REQUIRE(std::accumulate(chances.begin(), chances.end(), 0.0) == Approx(top_k).epsilon(1e-12));
  }
}

TEST_CASE("routing by counts: experts are drawn with their chances", "[long]") {
  // A count of n rows is binomial, so by Bernstein's inequality it is farther from n p than
  // t / 3 + sqrt(t^2 / 9 + 2 n p (1 - p) t) with a probability of 2 exp(-t) at most: 2e-13 a count here, of
  // some 100,000. The squares of the deviations, over their variance, have a mean of 1 each.
  constexpr double kT = 30;
  Random random(2);
  double squares = 0;
  std::uint64_t terms = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto experts = static_cast<std::uint32_t>(2 + random.below(30));
    const auto top_k = static_cast<std::uint32_t>(1 + random.below(experts));
    CountsRouting p = sizes(2, experts, top_k, 200);
    p.seed = random.next();
    std::vector<double> weights;
    for (int layer = 0; layer < 2; ++layer)
      for (const double weight : random_weights(random, experts, top_k)) weights.push_back(weight);
    const RoutingTrace trace = draw_routing(p, weights);
    const auto n = static_cast<double>(trace.tokens());
    for (std::uint32_t layer = 0; layer < 2; ++layer) {
      const std::vector<double> due =
          bisected(std::span(weights).subspan(std::size_t{layer} * experts, experts), top_k);
      const std::vector<std::uint64_t> counts = uses(trace, layer);
      for (std::size_t e = 0; e < experts; ++e) {
        const double variance = n * due[e] * std::max(0.0, 1 - due[e]);
        const double off = static_cast<double>(counts[e]) - n * due[e];
        REQUIRE(std::abs(off) <= kT / 3 + std::sqrt(kT * kT / 9 + 2 * variance * kT));
        if (due[e] == 0) REQUIRE(counts[e] == 0);
        if (due[e] >= 1) REQUIRE(counts[e] == trace.tokens());
        if (variance < 1) continue;
        squares += off * off / variance;
        ++terms;
      }
    }
  }
  REQUIRE(terms > 30000);
  // Where the variance is at least 1, a squared deviation has one of at most 3; those of a layer are not
  // independent (of two experts they are the same), so twice that. Five standard deviations.
  CHECK(std::abs(squares / static_cast<double>(terms) - 1) < 5 * std::sqrt(6 / static_cast<double>(terms)));
}

TEST_CASE("routing by counts: a long draw shows no bias", "[long]") {
  // Weights 1 to 8, k = 3: 3 * 8 is at most their sum 36, so p_e = e / 12. Five standard deviations.
  constexpr std::uint64_t kTokens = 1000000;
  std::vector<double> weights(8);
  std::iota(weights.begin(), weights.end(), 1);
  const RoutingTrace trace = draw_routing(sizes(1, 8, 3, kTokens), weights);
  const std::vector<std::uint64_t> counts = uses(trace, 0);
  for (std::size_t e = 0; e < 8; ++e) {
    const double p = weights[e] / 12;
    CHECK(std::abs(static_cast<double>(counts[e]) - kTokens * p) < 5 * std::sqrt(kTokens * p * (1 - p)));
  }
}

TEST_CASE("routing by counts: with even weights every set of experts is as likely") {
  // By symmetry: a random order, and the same length for every expert. Of 5 experts 2 make 10 pairs; the
  // standard deviation is a binomial's.
  constexpr std::uint64_t kTokens = 100000;
  const RoutingTrace trace = draw_routing(sizes(1, 5, 2, kTokens), std::vector<double>(5, 7));
  std::map<std::set<std::uint16_t>, int> pairs;
  for (std::uint64_t token = 0; token < kTokens; ++token) {
    const auto row = trace.experts_of(token, 0);
    ++pairs[{row.begin(), row.end()}];
  }
  REQUIRE(pairs.size() == 10);
  for (const auto& [pair, count] : pairs)
    CHECK(std::abs(count - kTokens * 0.1) < 5 * std::sqrt(kTokens * 0.1 * 0.9));
}

TEST_CASE("routing by counts: a token uses experts of the one before again as often as the header says",
          "[long]") {
  // Of the k experts of a token, reuse + (1 - reuse) * (sum of p^2) / k are the next one's: rows are repeated
  // or independent. Weights 1 to 8 and k = 3: the sum of p^2 is 204 / 144. A row's share has a variance of
  // 1/4 at most, and the chain of shares mixes within 1 / (1 - reuse) tokens: 40 for the last.
  constexpr std::uint64_t kTokens = 200000;
  std::vector<double> weights(8);
  std::iota(weights.begin(), weights.end(), 1);
  for (const double reuse : {0.0, 0.3, 0.7, 0.95}) {
    CountsRouting p = sizes(1, 8, 3, kTokens);
    p.reuse = reuse;
    const RoutingTrace trace = draw_routing(p, weights);
    std::uint64_t again = 0;
    for (std::uint64_t token = 1; token < kTokens; ++token) {
      const auto row = trace.experts_of(token, 0), before = trace.experts_of(token - 1, 0);
      for (const std::uint16_t expert : row) again += std::ranges::count(before, expert);
    }
    const double share = static_cast<double>(again) / 3 / (kTokens - 1);
    const double due = reuse + (1 - reuse) * 204 / 144 / 3;
    INFO(reuse);
    CHECK(std::abs(share - due) < 5 * std::sqrt(0.25 * 2 / (1 - reuse) / kTokens));
    const std::vector<std::uint64_t> counts = uses(trace, 0);
    for (std::size_t e = 0; e < 8; ++e) {  // still with their chances
      const double chance = weights[e] / 12;
      CHECK(std::abs(static_cast<double>(counts[e]) - kTokens * chance) <
            5 * std::sqrt(kTokens * chance * (1 - chance) * 2 / (1 - reuse)));
    }
  }
}

TEST_CASE("routing by counts: extremes") {
  const auto rows = [](std::uint32_t top_k, const std::vector<double>& weights) {
    const RoutingTrace trace =
        draw_routing(sizes(1, static_cast<std::uint32_t>(weights.size()), top_k, 1000), weights);
    return uses(trace, 0);
  };
  using Uses = std::vector<std::uint64_t>;
  CHECK(rows(1, {0, 5, 0}) == Uses{0, 1000, 0});          // one has all the weight
  CHECK(rows(2, {0, 5, 1e-300}) == Uses{0, 1000, 1000});  // two are above 0, however little
  CHECK(rows(3, {1, 2, 3}) == Uses{1000, 1000, 1000});    // all are chosen
  CHECK(rows(1, {1}) == Uses{1000});
  // The heaviest is always chosen; the two others share the second place evenly, though far below it.
  const Uses shared = rows(2, {1e300, 1e-300, 1e-300});
  CHECK(shared[0] == 1000);
  CHECK(shared[1] + shared[2] == 1000);
  CHECK(std::abs(static_cast<double>(shared[1]) - 500) < 5 * std::sqrt(1000 * 0.25));
  // As many as a trace can have. Experts of a row are distinct, or the builder would refuse it.
  const RoutingTrace many = draw_routing(sizes(1, 65535, 2000, 3), std::vector<double>(65535, 0.1));
  CHECK(std::set<std::uint16_t>(many.experts_of(2, 0).begin(), many.experts_of(2, 0).end()).size() == 2000);
}

TEST_CASE("routing by counts: what it says of itself, and what depends on what") {
  CountsRouting p = sizes(3, 6, 2, 50);
  p.source = "by hand";
  p.seed = 9;
  p.reuse = 0.5;
  const std::vector<double> weights{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1};
  const RoutingTrace trace = draw_routing(p, weights);
  CHECK(trace.synthetic());
  CHECK(trace.model() == "test");
  CHECK(trace.provenance() == "synthetic: moelab routing by counts 1, seed 9, reuse 0.5, weights: by hand");
  CHECK_FALSE(trace.has_scores());
  REQUIRE(trace.requests().size() == 1);
  CHECK(trace.requests()[0].decode_begin == 50);
  CHECK(trace.phase_of(49) == Phase::prefill);
  const auto same = [&](const RoutingTrace& other, std::uint32_t layer, std::uint32_t others) {
    for (std::uint64_t token = 0; token < std::min(trace.tokens(), other.tokens()); ++token)
      if (!std::ranges::equal(trace.experts_of(token, layer), other.experts_of(token, others))) return false;
    return true;
  };
  CountsRouting longer = p, other_seed = p;
  longer.tokens = 80;
  other_seed.seed = 10;
  for (std::uint32_t layer = 0; layer < 3; ++layer) {
    CHECK(same(draw_routing(longer, weights), layer, layer));  // fewer tokens are the first ones of more
    CHECK_FALSE(same(draw_routing(other_seed, weights), layer, layer));
  }
  CHECK_FALSE(same(trace, 0, 1));  // the same weights, but layers of their own
}

TEST_CASE("routing by counts: bad parameters and weights are refused") {
  const auto refused = [](const CountsRouting& p, const std::vector<double>& weights) {
    return error_of([&] { draw_routing(p, weights); });
  };
  const std::vector<double> good(12, 1);
  const CountsRouting p = sizes(3, 4, 2, 1);
  CHECK_NOTHROW(draw_routing(p, good));
  CountsRouting bad;
  bad.reuse = 1.5;
  const std::string all = refused(bad, good);
  for (const char* what : {"layers is 0", "experts is 0", "top_k is 0", "tokens is 0",
                           "reuse is 1.5, but must be between 0 and 1"})
    CHECK_THAT(all, Catch::Contains(what));
  bad = p;
  bad.top_k = 5;
  CHECK_THAT(refused(bad, good),
             Catch::Contains("top_k is 5, but must be between 1 and the number of experts, 4"));
  bad = p;
  bad.tokens = std::uint64_t{1} << 62;
  CHECK_THAT(refused(bad, good), Catch::Contains("too large, but must be below 16 GiB"));
  CHECK_THAT(refused(p, std::vector<double>(8, 1)),
             Catch::Contains("there are 8 weights, but 3 layers of 4 experts need 12"));
  std::vector<double> weights = good;
  weights[5] = -1;
  weights[8] = weights[9] = weights[11] = 0;
  const std::string both = refused(p, weights);
  CHECK_THAT(both,
             Catch::Contains("layer 1: the weight of expert 1 is -1, but must be between 0 and 1e+300"));
  CHECK_THAT(both, Catch::Contains("layer 2: 1 of 4 experts have a weight above 0, but a token takes 2"));
  for (const double value : {std::nan(""), HUGE_VAL, 1.1e300}) {
    weights = good;
    weights[0] = value;
    CHECK_THAT(refused(p, weights), Catch::Contains("layer 0: the weight of expert 0 is"));
  }
}

TEST_CASE("routing by counts: the counts of a domain are added up and drawn from") {
  // 3 prompts, 1 layer, 4 experts: expert 3 is never used for code, and experts 0 and 1 alone for chat.
  CountsDescription about;
  about.model = "tiny";
  about.prompts = 3;
  about.layers = 1;
  about.experts = 4;
  about.domains = {"code", "chat"};
  const CountsTrace counts(about, {1, 2, 3, 0, 5, 5, 0, 0, 10, 0, 1, 0}, {0, 1, 0});
  CHECK(domain_weights(counts, "code") == std::vector<double>{11, 2, 4, 0});
  CHECK(domain_weights(counts, "chat") == std::vector<double>{5, 5, 0, 0});
  CHECK(domain_weights(counts, "") == std::vector<double>{16, 7, 4, 0});
  CHECK_THAT(error_of([&] { domain_weights(counts, "chats"); }),
             Catch::Contains("counts of tiny: no domain 'chats' (did you mean 'chat'?)"));
  const CountsRouting p = sizes(1, 4, 2, 100);
  const RoutingTrace chat = draw_routing(p, counts, "chat");
  CHECK(uses(chat, 0) == std::vector<std::uint64_t>{100, 100, 0, 0});
  CHECK_THAT(chat.provenance(), Catch::EndsWith("weights: counts of tiny, domain chat"));
  CHECK_THAT(draw_routing(p, counts, "").provenance(), Catch::EndsWith("weights: counts of tiny"));
  // Of another shape, though of as many numbers.
  CHECK_THAT(error_of([&] { draw_routing(sizes(2, 2, 1, 1), counts, "chat"); }),
             Catch::Contains("they are of 1 layers of 4 experts, but the model has 2 MoE layers of 2"));
}

}  // namespace
}  // namespace moelab::counts_routing_test
