// What is drawn from a law is as often alike as normal logits of these correlations must be.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <vector>

#include "tests/traces/known_laws.hpp"
#include "tests/traces/random_laws.hpp"
#include "traces/law/law_generator.hpp"
#include "traces/law/logit_law.hpp"

namespace moelab::law_draws_test {
namespace {

using namespace test;

constexpr double kPi = 3.14159265358979323846;

/// P(both choose alike) when the difference of their logits has correlation r.
double alike(double r) {
  return 0.5 + std::asin(r) / kPi;
}

std::uint16_t choice(LawGenerator& generator) {
  return generator.next(Phase::decode).ids[0];
}

}  // namespace

TEST_CASE("other seeds and other numbers give other rows") {
  RoutingLaw law = coin();
  std::set<std::vector<std::uint16_t>> all;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (std::uint64_t number = 0; number < 20; ++number) {
      LawGenerator generator(law, seed);
      generator.begin_request(number, 0);
      std::vector<std::uint16_t> ids;
      for (int t = 0; t < 100; ++t) ids.push_back(choice(generator));
      all.insert(ids);
    }
  CHECK(all.size() == 400);
}

TEST_CASE("domains come by their shares") {
  RoutingLaw law = coin();
  law.domains = {"a", "b", "c", "never"};
  law.domain_shares = {0.5, 0.3, 0.2, 0};
  const LawGenerator generator(law, 4);
  std::array<double, 4> shares{};
  for (std::uint64_t r = 0; r < 20000; ++r) shares[generator.domain_of(r)] += 1.0 / 20000;
  for (std::size_t d = 0; d < 4; ++d)  // five standard errors
    CHECK(shares[d] ==
          Approx(law.domain_shares[d])
              .margin(5 * std::sqrt(law.domain_shares[d] * (1 - law.domain_shares[d]) / 20000) + 1e-9));
}

TEST_CASE("experts are as popular as their biases were found for", "[long]") {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Random random(seed, 10, 0);
    RoutingLaw law = coin();
    law.experts = between(random, 4, 24);
    law.top_k = between(random, 1, law.experts / 3);
    law.span_tokens = {1e-3};  // short enough for tokens to be independent: the term is noise like the rest
    // Shares that add up to k, none above 1: falling on a line.
    std::vector<double> shares;
    for (std::uint32_t e = 0; e < law.experts; ++e)
      shares.push_back(law.top_k * 2.0 * (law.experts - e - 0.5) / law.experts / law.experts);
    law.layers[0].spans = {0.4};
    law.layers[0].bias = LogitSample(law.experts, 8192, seed).bias(shares, law.top_k);
    LawGenerator generator(law, seed);
    generator.begin_request(0, 0);
    std::vector<double> got(law.experts);
    constexpr int kRows = 20000;
    for (int t = 0; t < kRows; ++t)
      for (const std::uint16_t e : generator.next(Phase::decode).ids) got[e] += 1.0 / kRows;
    std::sort(got.rbegin(), got.rend());
    for (std::uint32_t e = 0; e < law.experts; ++e)
      CHECK(got[e] == Approx(shares[e]).margin(5 * std::sqrt(0.25 / kRows + 0.25 / 8192)));
  }
}

TEST_CASE("tokens of a request are alike as far as prompt and spans make them") {
  RoutingLaw law = coin();
  law.span_tokens = {2, 20};
  law.layers[0].prompt = 0.25;
  law.layers[0].spans = {0.3, 0.35};
  constexpr int kRequests = 8000, kTokens = 20;
  std::array<double, kTokens> same{};
  LawGenerator generator(law, 5);
  for (int r = 0; r < kRequests; ++r) {
    generator.begin_request(static_cast<std::uint64_t>(r), 0);
    const std::uint16_t first = choice(generator);
    for (std::size_t lag = 1; lag < kTokens; ++lag) same[lag] += first == choice(generator);
  }
  for (int lag = 1; lag < kTokens; ++lag) {
    const double r = 0.25 + 0.3 * std::exp(-lag / 2.0) + 0.35 * std::exp(-lag / 20.0);
    CHECK(same[static_cast<std::size_t>(lag)] / kRequests ==
          Approx(alike(r)).margin(5 * 0.5 / std::sqrt(kRequests)));
  }
}

TEST_CASE("requests of one domain are alike, of two unlike, by the domains' shares") {
  RoutingLaw law = coin();
  law.domains = {"a", "b"};
  law.domain_shares = {0.7, 0.3};
  law.layers[0].domain = 0.5;
  law.layers[0].prompt = 0.2;
  // What is left of a domain's term without the mean: for shares s and q = sum s^2, the variance of D_d less
  // sum_j s_j D_j is 1 - 2 s_d + q, scaled so that its mean over requests, 1 - q, becomes 1. Of two domains
  // the deviations are opposite.
  const double q = 0.7 * 0.7 + 0.3 * 0.3;
  const std::array<double, 2> variance{0.5 * (1 - 1.4 + q) / (1 - q), 0.5 * (1 - 0.6 + q) / (1 - q)};
  std::array<double, 2> within{}, between_requests{};
  double across = 0;
  constexpr int kLaws = 10000;  // each with domains of its own
  for (std::uint64_t seed = 0; seed < kLaws; ++seed) {
    LawGenerator generator(law, seed);
    std::array<std::uint16_t, 2> first{};
    for (std::uint16_t d = 0; d < 2; ++d) {
      generator.begin_request(d, d);
      first[d] = choice(generator);
      within[d] += first[d] == choice(generator);
      generator.begin_request(2u + d, d);
      between_requests[d] += first[d] == choice(generator);
    }
    across += first[0] == first[1];
  }
  const double error = 5 * 0.5 / std::sqrt(kLaws);
  for (std::size_t d = 0; d < 2; ++d) {
    CHECK(within[d] / kLaws == Approx(alike((variance[d] + 0.2) / (variance[d] + 0.5))).margin(error));
    CHECK(between_requests[d] / kLaws == Approx(alike(variance[d] / (variance[d] + 0.5))).margin(error));
  }
  const double r = -std::sqrt(variance[0] * variance[1] / (variance[0] + 0.5) / (variance[1] + 0.5));
  CHECK(across / kLaws == Approx(alike(r)).margin(error));
}

TEST_CASE("layers are coupled within a stack, not from the encoder to the decoder") {
  constexpr int kRows = 20000;
  for (const double coupling : {0.0, 0.6, 1.0}) {
    RoutingLaw law = coin();
    law.layers[0].coupling = coupling;
    law.layers.resize(4, law.layers[0]);
    law.layers[0].encoder = law.layers[1].encoder = true;
    LawGenerator generator(law, 6);
    generator.begin_request(0, 0);
    double encoder = 0, decoder = 0, first = 0;
    for (int t = 0; t < kRows; ++t) {
      const TraceRow row = generator.next(Phase::encoder);
      encoder += row.ids[0] == row.ids[1];
    }
    for (int t = 0; t < kRows; ++t) {
      const TraceRow row = generator.next(Phase::decode);
      decoder += row.ids[2] == row.ids[3];
      first += row.ids[2] == 0;
    }
    // The decoder's first layer follows nothing: not what the encoder's last layer was left with.
    CHECK(first / kRows == Approx(0.5).margin(5 * 0.5 / std::sqrt(kRows)));
    // Which of the two is the more popular is drawn anew in each layer: alike, or the opposite.
    for (const double share : {encoder / kRows, decoder / kRows})
      CHECK(std::max(share, 1 - share) == Approx(alike(coupling)).margin(5 * 0.5 / std::sqrt(kRows)));
  }
}

}  // namespace moelab::law_draws_test
