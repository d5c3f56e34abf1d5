// What is drawn from a law: rows of the right form, the same whatever was drawn before and on how many cores,
// and as often alike as normal logits of these correlations must be.
#include "traces/law/law_generator.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <set>

#include "tests/traces/random_laws.hpp"
#include "traces/law/logit_law.hpp"

namespace moelab {
namespace {

using namespace test;

constexpr double kPi = 3.14159265358979323846;

/// A row's values, kept.
struct Row {
  Phase phase;
  std::vector<std::uint16_t> ids;
  std::vector<float> gates, scores;
  explicit Row(const TraceRow& row)
      : phase(row.phase),
        ids(row.ids.begin(), row.ids.end()),
        gates(row.gate_scores.begin(), row.gate_scores.end()),
        scores(row.router_scores.begin(), row.router_scores.end()) {}
  bool operator==(const Row&) const = default;
};

std::vector<Phase> random_phases(Random& random, const RoutingLaw& law) {
  const Phase prompt = law.has_encoder() ? Phase::encoder : Phase::prefill;
  std::vector<Phase> phases(random.below(8), prompt);
  phases.insert(phases.end(), random.below(8), Phase::decode);
  return phases;
}

std::vector<Row> drawn(LawGenerator& generator, const DrawnRequest& request) {
  std::vector<Row> rows;
  generator.begin_request(request.number, request.domain);
  for (const Phase phase : request.phases) rows.emplace_back(generator.next(phase));
  return rows;
}

void check_gates(std::span<const float> gates, const LayerLaw& layer) {
  double sum = 0;
  for (std::size_t i = 0; i < gates.size(); ++i) {
    sum += gates[i];
    REQUIRE(gates[i] > 0);
    if (i > 0) REQUIRE(gates[i] <= gates[i - 1]);
  }
  REQUIRE(sum == Approx(layer.gate_sum).epsilon(1e-5));
}

/// Gates are the softmax of the chosen ones' logits times gate_sum; everything else has lower logits.
void check_scores(std::span<const float> scores, std::span<const std::uint16_t> ids,
                  std::span<const float> gates, const LayerLaw& layer) {
  double sum = 0;
  for (const std::uint16_t e : ids) sum += std::exp(double{scores[e]});
  for (std::size_t i = 0; i < ids.size(); ++i)
    REQUIRE(gates[i] == Approx(std::exp(double{scores[ids[i]]}) / sum * layer.gate_sum).epsilon(1e-4));
  for (std::uint16_t e = 0; e < scores.size(); ++e)
    if (std::find(ids.begin(), ids.end(), e) == ids.end()) REQUIRE(scores[e] <= scores[ids.back()]);
}

void check_row(const Row& row, const RoutingLaw& law) {
  const std::size_t k = law.top_k;
  REQUIRE(row.ids.size() == law.layers.size() * k);
  REQUIRE(row.gates.size() == (law.has_gates() ? row.ids.size() : 0));
  for (std::size_t l = 0; l < law.layers.size(); ++l) {
    const auto ids = std::span(row.ids).subspan(l * k, k);
    const bool runs = !law.has_encoder() || law.layers[l].encoder == (row.phase == Phase::encoder);
    if (!runs) {
      REQUIRE(std::all_of(ids.begin(), ids.end(), [](auto e) { return e == kNoExpert; }));
      continue;
    }
    REQUIRE(std::set(ids.begin(), ids.end()).size() == k);
    REQUIRE(*std::max_element(ids.begin(), ids.end()) < law.experts);
    if (row.gates.empty()) continue;
    const auto gates = std::span(row.gates).subspan(l * k, k);
    check_gates(gates, law.layers[l]);
    if (!row.scores.empty())
      check_scores(std::span(row.scores).subspan(l * law.experts, law.experts), ids, gates, law.layers[l]);
  }
}

/// Two equally popular experts in one layer, of which one is chosen.
RoutingLaw coin() {
  RoutingLaw law;
  law.model = "coin";
  law.experts = 2;
  law.top_k = 1;
  LayerLaw& layer = law.layers.emplace_back();
  layer.bias = {0, 0};
  return law;
}

/// P(both choose alike) when the difference of their logits has correlation r.
double alike(double r) {
  return 0.5 + std::asin(r) / kPi;
}

std::uint16_t choice(LawGenerator& generator) {
  return generator.next(Phase::decode).ids[0];
}

}  // namespace

TEST_CASE("rows drawn from random laws are what rows must be") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    const RoutingLaw law = random_law(random);
    const bool scores = law.has_gates() && random.below(2) == 0;
    LawGenerator generator(law, seed, scores), plain(law, seed, false);
    const TraceDescription& about = generator.description();
    REQUIRE((about.layers == law.layers.size() && about.experts == law.experts && about.top_k == law.top_k));
    REQUIRE((about.synthetic && about.model == law.model && about.domains == law.domains));
    REQUIRE(about.provenance.find("synthetic: ") == 0);
    REQUIRE(about.provenance.find(law.provenance) != std::string::npos);
    INFO("seed " << seed);
    for (std::uint64_t number = 0; number < 4; ++number) {
      const DrawnRequest request{number, generator.domain_of(number), random_phases(random, law)};
      const std::vector<Row> rows = drawn(generator, request), same = drawn(plain, request);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        check_row(rows[i], law);
        REQUIRE(rows[i].scores.empty() == !scores);
        REQUIRE((rows[i].ids == same[i].ids && rows[i].gates == same[i].gates));
      }
    }
  }
}

TEST_CASE("a request's rows depend on law, seed and number alone") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed, 9, 0);
    const RoutingLaw law = random_law(random);
    const bool scores = law.has_gates() && random.below(2) == 0;
    const auto domains = static_cast<std::uint16_t>(std::max<std::size_t>(1, law.domains.size()));
    const auto request = [&](std::uint64_t number) {
      return DrawnRequest{number, static_cast<std::uint16_t>(random.below(domains)),
                          random_phases(random, law)};
    };
    std::vector<DrawnRequest> requests;
    for (std::uint64_t n = random.below(9); n-- > 0;) requests.push_back(request(random.below(1000)));
    std::vector<std::vector<Row>> due;
    for (const DrawnRequest& r : requests) {
      LawGenerator fresh(law, seed, scores);
      due.push_back(drawn(fresh, r));
    }
    LawGenerator used = LawGenerator(law, seed, scores);
    for (std::size_t i = requests.size(); i-- > 0;) REQUIRE(drawn(used, requests[i]) == due[i]);
    std::vector<std::vector<Row>> got;
    draw_requests(
        law, seed, scores, requests,
        [&](const DrawnRequest& r) {
          REQUIRE(r.number == requests[got.size()].number);
          got.emplace_back();
        },
        [&](const TraceRow& row) { got.back().emplace_back(row); });
    REQUIRE(got == due);
  }
}

TEST_CASE("requests too large to wait for their turn are drawn as the others are") {
  RoutingLaw law = coin();
  law.layers.resize(4000, law.layers[0]);
  std::vector<DrawnRequest> requests;
  // 24 kB a row: the second request's rows have more than 64 MiB.
  for (const std::size_t rows : {2u, 2800u, 2u})
    requests.push_back({requests.size(), 0, std::vector(rows, Phase::decode)});
  std::vector<std::uint64_t> begun;
  int different = 0;
  LawGenerator generator(law, 3);
  draw_requests(
      law, 3, false, requests,
      [&](const DrawnRequest& r) {
        begun.push_back(r.number);
        generator.begin_request(r.number, 0);
      },
      [&](const TraceRow& row) {
        if (Row(row) != Row(generator.next(Phase::decode))) ++different;
      });
  CHECK(different == 0);
  CHECK(begun == std::vector<std::uint64_t>{0, 1, 2});
}

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

TEST_CASE("experts are as popular as their biases were found for") {
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
    double encoder = 0, decoder = 0;
    for (int t = 0; t < kRows; ++t) {
      const TraceRow row = generator.next(Phase::encoder);
      encoder += row.ids[0] == row.ids[1];
    }
    for (int t = 0; t < kRows; ++t) {
      const TraceRow row = generator.next(Phase::decode);
      decoder += row.ids[2] == row.ids[3];
    }
    // Which of the two is the more popular is drawn anew in each layer: alike, or the opposite.
    for (const double share : {encoder / kRows, decoder / kRows})
      CHECK(std::max(share, 1 - share) == Approx(alike(coupling)).margin(5 * 0.5 / std::sqrt(kRows)));
  }
}

}  // namespace moelab
