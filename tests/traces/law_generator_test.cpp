// What is drawn from a law: rows of the right form, the same whatever was drawn before and on how many cores.
#include "traces/law/law_generator.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "tests/random_runs.hpp"
#include "tests/traces/known_laws.hpp"
#include "tests/traces/random_laws.hpp"

namespace moelab::law_generator_test {
namespace {

using namespace test;

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

/// Numbers of rows by phase.
std::array<std::uint64_t, 3> random_rows(Random& random, const RoutingLaw& law) {
  const std::uint64_t prompt = random.below(8), decode = random.below(8);
  if (law.has_encoder()) return {prompt, 0, decode};
  return {0, prompt, decode};
}

/// What draw_requests asks for the requests.
std::function<std::optional<DrawnRequest>()> one_by_one(const std::vector<DrawnRequest>& requests) {
  return [&requests, next = std::size_t{0}]() mutable {
    return next < requests.size() ? std::optional(requests[next++]) : std::nullopt;
  };
}

std::vector<Row> drawn(LawGenerator& generator, const DrawnRequest& request) {
  std::vector<Row> rows;
  generator.begin_request(request.number, request.domain);
  request.each_row([&](Phase phase) { rows.emplace_back(generator.next(phase)); });
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

}  // namespace

TEST_CASE("rows drawn from random laws are what rows must be") {
  for (std::uint64_t seed = 0; seed < random_runs(400u); ++seed) {
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
      const DrawnRequest request{number, generator.domain_of(number), random_rows(random, law)};
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
  for (std::uint64_t seed = 0; seed < moelab::test::random_runs(200u); ++seed) {
    Random random(seed, 9, 0);
    const RoutingLaw law = random_law(random);
    const bool scores = law.has_gates() && random.below(2) == 0;
    const auto domains = static_cast<std::uint16_t>(std::max<std::size_t>(1, law.domains.size()));
    const auto request = [&](std::uint64_t number) {
      return DrawnRequest{number, static_cast<std::uint16_t>(random.below(domains)),
                          random_rows(random, law)};
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
        law, seed, scores, one_by_one(requests),
        [&](const DrawnRequest& r) {
          REQUIRE(r.number == requests[got.size()].number);
          got.emplace_back();
        },
        [&](const TraceRow& row) { got.back().emplace_back(row); });
    REQUIRE(got == due);
  }
}

/// Draws requests of so many decode rows each and checks them against a generator that draws one after the
/// other.
void check_drawn_in_order(std::size_t layers, const std::vector<std::uint64_t>& lengths) {
  RoutingLaw law = coin();
  law.layers.resize(layers, law.layers[0]);
  std::vector<DrawnRequest> requests;
  for (const std::uint64_t rows : lengths) requests.push_back({requests.size(), 0, {0, 0, rows}});
  std::vector<std::uint64_t> rows_of;
  int different = 0;
  LawGenerator generator(law, 3);
  draw_requests(
      law, 3, false, one_by_one(requests),
      [&](const DrawnRequest& r) {
        REQUIRE(r.number == rows_of.size());
        rows_of.push_back(0);
        generator.begin_request(r.number, 0);
      },
      [&](const TraceRow& row) {
        ++rows_of.back();
        if (Row(row) != Row(generator.next(Phase::decode))) ++different;
      });
  CHECK(different == 0);
  CHECK(rows_of == lengths);
}

TEST_CASE("requests too large to wait for their turn are drawn as the others are", "[long]") {
  check_drawn_in_order(4000, {2, 2800, 2});  // 24 kB a row: the second request's rows have more than 64 MiB
}

TEST_CASE("requests that fill many cores' shares come in their order") {
  std::vector<std::uint64_t> lengths;  // 2.4 kB a row: 437 fill a share
  for (std::uint64_t i = 0; i < 60; ++i) lengths.push_back(i % 7 == 3 ? 900 : 1 + 5 * i);
  check_drawn_in_order(400, lengths);
}

}  // namespace moelab::law_generator_test
