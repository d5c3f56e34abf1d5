#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "models/input_error.hpp"
#include "policies/prefetch/gate_predictor.hpp"
#include "tests/policies/gates_ahead.hpp"
#include "tests/random_runs.hpp"

namespace moelab::gate_prediction_test {
namespace {

using Random = std::mt19937_64;
using Wishes = std::vector<Fetch>;
const PrefetchShape kShape{.layers = 4, .experts = 8, .top_k = 3, .seed = 7};

std::unique_ptr<PrefetchPolicy> make(const PolicyParameters& parameters,
                                     const PrefetchShape& shape = kShape) {
  return find_prefetch_policy("gate-prediction")->make(shape, parameters);
}
const std::vector<std::uint8_t> kNoneThere(8, 0);

// Scores in 64ths; k = 3, so S(4) = 16 and with alpha = 1/4: T = 20, L = 16 exactly.
// Expert:                           0   1   2   3   4   5   6   7
OwnedGate one_token(std::vector<float> in64ths = {40, 18, 17, 16, 13, 12, 11, 1}) {
  for (float& score : in64ths) score /= 64;
  return gate_of(in64ths, 3);
}

Wishes wishes(const PolicyParameters& parameters, const std::vector<OwnedGate>& gates,
              const std::vector<std::uint8_t>& resident = kNoneThere) {
  return wishes_after(*make(parameters), 0, {gates}, {resident});
}

/// `hits` of `trials` are within 5 standard deviations of a binomial with `share`: a correct program fails
/// one time in a million.
void check_share(std::uint64_t hits, std::uint64_t trials, double share) {
  const double n = static_cast<double>(trials);
  INFO(hits << " of " << trials << ", expected " << share);
  CHECK(std::abs(static_cast<double>(hits) - n * share) <= 5 * std::sqrt(n * share * (1 - share)) + 1e-6 * n);
}

/// By the definition: active and not in [S(k+1), (1 + alpha) S(k+1)).
std::set<std::uint32_t> top_score(const OwnedGate& gate, double alpha) {
  std::vector<double> sorted(gate.scores.begin(), gate.scores.end());
  std::sort(sorted.rbegin(), sorted.rend());
  std::set<std::uint32_t> top(gate.chosen.begin(), gate.chosen.end());
  if (gate.chosen.size() == sorted.size()) return top;
  const double next = sorted[gate.chosen.size()];
  for (const std::uint16_t e : gate.chosen)
    if (gate.scores[e] >= next && gate.scores[e] < (1 + alpha) * next) top.erase(e);
  return top;
}

}  // namespace

TEST_CASE("gate-prediction asks for the next layer only and says what it is") {
  const PrefetchPolicyEntry* const entry = find_prefetch_policy("gate-prediction");
  REQUIRE(entry != nullptr);
  CHECK(entry->needs_all_scores);
  CHECK(entry->runs_attention_ahead);
  CHECK(entry->info.help.find("not a prediction from hidden states") != std::string_view::npos);
  CHECK(parameter(entry->info, {}, "accuracy") == 0.82);  // row S9
  // The paper: 95 % of those that are not top-score.
  CHECK(parameter(entry->info, {}, "active") == Approx(0.82 + 0.18 * 0.95).epsilon(1e-12));
  CHECK(make({})->gates_ahead() == 1);
}

TEST_CASE("gate-prediction, all right: top-score experts that are not on the GPU, best score first") {
  const PolicyParameters right{{"alpha", 0.25}, {"accuracy", 1}, {"active", 1}};
  CHECK(wishes(right, {one_token()}) == Wishes{{1, 0}});
  std::vector<std::uint8_t> there = kNoneThere;
  there[0] = 1;
  CHECK(wishes(right, {one_token()}, there).empty());

  // alpha = 0: all active ones are top-score. alpha just below 1: T = 32, expert 0 is still above.
  PolicyParameters all = right;
  all["alpha"] = 0;
  CHECK(wishes(all, {one_token()}) == Wishes{{1, 0}, {1, 1}, {1, 2}});
  all["alpha"] = 0.999999;
  CHECK(wishes(all, {one_token()}) == Wishes{{1, 0}});
  // A score of just T = 20 is top-score, one of just L = S(4) is low-score.
  CHECK(wishes(right, {one_token({16, 20, 19, 16, 1, 1, 1, 1})}) == Wishes{{1, 1}});

  // Summed over tokens: expert 2 has 30 + 24 = 54 and comes before expert 0 with 40; 5 and 6 tie with 30.
  const std::vector<OwnedGate> batch{one_token(), one_token({1, 1, 30, 1, 1, 30, 30, 1}),
                                     one_token({1, 2, 24, 1, 1, 1, 1, 1})};
  // Third token: S(4) = 1, T = 1.25: expert 0 (score 1, third by number) is low-score, 1 (score 2) is top.
  CHECK(wishes(right, batch) == Wishes{{1, 2}, {1, 0}, {1, 5}, {1, 6}, {1, 1}});
  PolicyParameters two = right;
  two["fetches"] = 2;
  CHECK(wishes(two, batch) == Wishes{{1, 2}, {1, 0}});
}

TEST_CASE("gate-prediction: wishes are made once, and only where a gate was told") {
  const auto policy = make({{"accuracy", 1}, {"active", 1}});
  policy->begin_step();
  CHECK_FALSE(wishes_after(*policy, 0, {{one_token()}}, {kNoneThere}).empty());
  CHECK(wishes_after(*policy, 1, {}, {}).empty());
  policy->gate_ahead(3, views({one_token()}), kNoneThere);
  policy->begin_step();
  CHECK(wishes_after(*policy, 0, {}, {}).empty());
}

TEST_CASE("gate-prediction, all wrong: a low-score expert, then an inactive one, then none") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<PredictedExpert> named;
    GatePredictor predictor(seed, 0.25);
    // Expert 0 is top-score, 1 and 2 are low-score: one of these takes its place, and its score.
    predictor.predict(0, 1, 0, one_token().ahead(), {0, 1}, named);
    REQUIRE(named.size() == 1);
    CHECK((named[0].expert == 1 || named[0].expert == 2));
    CHECK(named[0].score == 40.0 / 64);
    // None of the active ones.
    predictor.predict(0, 1, 0, one_token().ahead(), {0, 0}, named);
    REQUIRE(named.size() == 1);
    CHECK(named[0].expert >= 3);
    // Two are top-score and one is low-score: expert 2 serves once, then an inactive one.
    const OwnedGate two_top = one_token({40, 30, 17, 16, 13, 12, 11, 1});
    predictor.predict(0, 1, 0, two_top.ahead(), {0, 1}, named);
    REQUIRE(named.size() == 2);
    CHECK(named[0].expert == 2);
    CHECK(named[1].expert >= 3);
    // k = experts: all are top-score, and no expert is left to be named wrongly.
    const OwnedGate all = gate_of({0.5F, 0.25F, 0.25F}, 3);
    predictor.predict(0, 1, 0, all.ahead(), {0, 0}, named);
    CHECK(named.empty());
    predictor.predict(0, 1, 0, all.ahead(), {1, 1}, named);
    CHECK(named == std::vector<PredictedExpert>{{0, 0.5}, {1, 0.25}, {2, 0.25}});
  }
}

TEST_CASE("gate predictor: measured shares converge to the stated ones") {
  Random random(11);
  for (const PredictionAccuracy accuracy :
       {PredictionAccuracy{0.82, 0.95}, PredictionAccuracy{0.5, 0.5}, PredictionAccuracy{0.1, 0.9},
        PredictionAccuracy{1, 1}, PredictionAccuracy{0, 0.3}}) {
    GatePredictor predictor(random(), 0.5);
    std::uint64_t named_count = 0, top_count = 0, active_count = 0;
    std::vector<PredictedExpert> named;
    for (std::uint32_t token = 0; token < 6000; ++token) {
      // 24 experts, 6 active: 0..2 top-score, 3..5 low-score (S(7) = 0.1, T = 0.15), in random places.
      std::vector<float> scores(24, 0.05F);
      std::vector<std::size_t> places(24);
      std::iota(places.begin(), places.end(), std::size_t{0});
      std::shuffle(places.begin(), places.end(), random);
      for (std::size_t i = 0; i < 7; ++i) scores[places[i]] = i < 3 ? 0.3F : i < 6 ? 0.12F : 0.1F;
      const OwnedGate gate = gate_of(scores, 6);
      predictor.predict(token / 100, token % 5, token % 100, gate.ahead(), accuracy, named);
      REQUIRE(named.size() == 3);
      std::set<std::uint32_t> distinct;
      for (const PredictedExpert& one : named) {
        REQUIRE(distinct.insert(one.expert).second);
        ++named_count;
        if (scores[one.expert] == 0.3F) ++top_count;
        if (scores[one.expert] > 0.11F) ++active_count;
      }
    }
    check_share(top_count, named_count, accuracy.top);
    check_share(active_count, named_count, accuracy.active);
  }
}

TEST_CASE("gate predictor: the shares are those of the experts that are not on the GPU") {
  Random random(17);
  const PredictionAccuracy accuracy{0.82, 0.95};
  GatePredictor predictor(5, 0.5);
  std::uint64_t fetched = 0, top_count = 0, active_count = 0;
  std::vector<PredictedExpert> named;
  for (std::uint32_t token = 0; token < 8000; ++token) {
    // 48 experts, 20 active: 4 top-score, 16 low-score (S(21) = 0.1, T = 0.15), half of all on the GPU.
    std::vector<float> scores(48, 0.05F);
    std::vector<std::size_t> places(48);
    std::iota(places.begin(), places.end(), std::size_t{0});
    std::shuffle(places.begin(), places.end(), random);
    for (std::size_t i = 0; i < 21; ++i) scores[places[i]] = i < 4 ? 0.3F : i < 20 ? 0.12F : 0.1F;
    std::vector<std::uint8_t> resident(48);
    for (std::size_t e = 0; e < 48; ++e) resident[places[e]] = e % 2 == 0 ? 1 : 0;  // 2 of the top-score ones
    const OwnedGate gate = gate_of(scores, 20);
    predictor.predict(token / 100, token % 5, token % 100, gate.ahead(), accuracy, named, resident);
    REQUIRE(named.size() == 4);
    std::set<std::uint32_t> there;
    for (const PredictedExpert& one : named) {
      if (resident[one.expert] != 0) {
        REQUIRE(scores[one.expert] == 0.3F);  // never by mistake
        there.insert(one.expert);
        continue;
      }
      ++fetched;
      if (scores[one.expert] == 0.3F) ++top_count;
      if (scores[one.expert] > 0.11F) ++active_count;
    }
    REQUIRE(there.size() == 2);  // nor ever forgotten
  }
  check_share(top_count, fetched, accuracy.top);
  check_share(active_count, fetched, accuracy.active);
}

// Without low-score experts a wrong name is an inactive expert: both shares are the first.
TEST_CASE("gate predictor: without low-score experts the active share falls to the top-score share") {
  GatePredictor predictor(3, 0);
  std::uint64_t active = 0;
  std::vector<PredictedExpert> named;
  for (std::uint64_t step = 0; step < 20000; ++step) {
    predictor.predict(step, 1, 0, one_token().ahead(), {0.82, 0.95}, named);
    for (const PredictedExpert& one : named) active += one.expert < 3 ? 1U : 0U;
  }
  check_share(active, 60000, 0.82);
}

// One wrong rank, inactive experts 3 to 7 with 16, 13, 12, 11 and 1 of 53.
TEST_CASE("gate predictor: wrong names are drawn by score") {
  GatePredictor predictor(5, 0.25);
  std::map<std::uint32_t, std::uint64_t> drawn;
  std::vector<PredictedExpert> named;
  constexpr std::uint64_t kTrials = 40000;
  for (std::uint64_t step = 0; step < kTrials; ++step) {
    predictor.predict(step, 1, 0, one_token().ahead(), {0, 0}, named);
    ++drawn[named.at(0).expert];
  }
  const double weights[] = {16, 13, 12, 11, 1};
  for (std::uint32_t e = 3; e < 8; ++e) check_share(drawn[e], kTrials, weights[e - 3] / 53);

  // Half are right; of the wrong ones 18 of 35 are expert 1, the others expert 2.
  drawn.clear();
  for (std::uint64_t step = 0; step < kTrials; ++step) {
    predictor.predict(step, 1, 0, one_token().ahead(), {0.5, 1}, named);
    ++drawn[named.at(0).expert];
  }
  check_share(drawn[1], drawn[1] + drawn[2], 18.0 / 35);

  // No score above 0: uniformly over the 5 inactive ones.
  drawn.clear();
  const OwnedGate negative = gate_of({-1, -2, -3, -4, -5, -6, -7, -8}, 3);
  for (std::uint64_t step = 0; step < kTrials; ++step) {
    predictor.predict(step, 1, 0, negative.ahead(), {0, 0}, named);
    for (const PredictedExpert& one : named) ++drawn[one.expert];
  }
  for (std::uint32_t e = 3; e < 8; ++e) check_share(drawn[e], kTrials, 3.0 / 5);
}

TEST_CASE("gate predictor: a draw depends on seed, step, layer, token and rank, and on nothing else") {
  Random random(13);
  const PredictionAccuracy half{0.5, 0.7};
  for (int instance = 0; instance < moelab::test::random_runs(300); ++instance) {
    const std::uint64_t seed = random();
    const std::size_t experts = 2 + random() % 20, k = 1 + random() % (experts - 1);
    GatePredictor one(seed, 0.3), other(seed, 0.3);
    std::vector<OwnedGate> gates = random_gates(random, 4, experts, k);
    std::vector<std::vector<PredictedExpert>> forwards(4), named(4);
    for (std::size_t t = 0; t < 4; ++t) one.predict(9, 2, t, gates[t].ahead(), half, forwards[t]);
    for (std::size_t t = 4; t-- > 0;) {
      std::vector<PredictedExpert> elsewhere;
      other.predict(t, 1, 3 - t, random_gate(random, experts, k).ahead(), half, elsewhere);
      other.predict(9, 2, t, gates[t].ahead(), half, named[t]);
    }
    REQUIRE(named == forwards);

    // Names that are right stay right with more accuracy.
    for (std::size_t t = 0; t < 4; ++t) {
      const std::set<std::uint32_t> top = top_score(gates[t], 0.3);
      std::vector<PredictedExpert> better;
      one.predict(9, 2, t, gates[t].ahead(), {0.8, 0.8}, better);
      for (const PredictedExpert& right : named[t])
        if (top.count(right.expert) != 0)
          REQUIRE(std::find(better.begin(), better.end(), right) != better.end());
    }
  }
  // 64 ranks, half of them wrong: two keys that differ in one place draw differently.
  std::vector<float> scores(130, 0.001F);
  std::fill_n(scores.begin(), 64, 0.01F);
  const OwnedGate wide = gate_of(scores, 64);
  std::set<std::vector<std::uint32_t>> seen;
  const auto draw = [&](std::uint64_t seed, std::uint64_t step, std::uint32_t layer, std::uint64_t token) {
    std::vector<PredictedExpert> named;
    GatePredictor(seed, 0).predict(step, layer, token, wide.ahead(), half, named);
    std::vector<std::uint32_t> experts;
    for (const PredictedExpert& p : named) experts.push_back(p.expert);
    CHECK(seen.insert(experts).second);
  };
  draw(1, 1, 1, 1);
  draw(2, 1, 1, 1);
  draw(1, 2, 1, 1);
  draw(1, 1, 2, 1);
  draw(1, 1, 1, 2);
  draw(1, 0, 2, 1);
  draw(1, 2, 0, 1);
}

// Against the definition, with sets; and the order of tokens does not matter where no draw does.
TEST_CASE("gate-prediction, all right, equals its definition on random gates in any order of tokens") {
  Random random(17);
  for (int instance = 0; instance < moelab::test::random_runs(2000); ++instance) {
    const std::size_t experts = 1 + random() % 16, k = 1 + random() % experts, tokens = 1 + random() % 4;
    const double alpha = static_cast<double>(random() % 4) / 4;
    std::vector<OwnedGate> gates = random_gates(random, tokens, experts, k);
    std::vector<std::uint8_t> resident(experts);
    for (std::uint8_t& there : resident) there = random() % 3 == 0;
    std::map<std::uint32_t, double> sums;
    for (const OwnedGate& gate : gates)
      for (const std::uint32_t e : top_score(gate, alpha))
        if (resident[e] == 0) sums[e] += gate.scores[e];  // 64ths: exact in any order
    std::vector<std::pair<double, std::uint32_t>> order;
    for (const auto& [e, sum] : sums) order.push_back({-sum, e});
    std::sort(order.begin(), order.end());
    Wishes expected;
    for (const auto& [minus, e] : order) expected.push_back({3, e});

    const PrefetchShape shape{
        .layers = 4, .experts = static_cast<std::uint32_t>(experts), .top_k = static_cast<std::uint32_t>(k)};
    const auto policy = make({{"alpha", alpha}, {"accuracy", 1}, {"active", 1}}, shape);
    for (int order_of_tokens = 0; order_of_tokens < 3; ++order_of_tokens) {
      policy->begin_step();
      REQUIRE(wishes_after(*policy, 2, {gates}, {resident}) == expected);
      std::shuffle(gates.begin(), gates.end(), random);
    }
  }
}

TEST_CASE("gate-prediction: equal seeds wish the same, steps and seeds differ") {
  Random random(19);
  const std::vector<OwnedGate> gates = random_gates(random, 3, 8, 3);
  const auto run = [&](std::uint64_t seed) {
    PrefetchShape shape = kShape;
    shape.seed = seed;
    const auto policy = make({{"alpha", 0}, {"accuracy", 0.5}, {"active", 0.5}}, shape);
    std::vector<Wishes> steps;
    for (int step = 0; step < 20; ++step) {
      policy->begin_step();
      steps.push_back(wishes_after(*policy, 0, {gates}, {kNoneThere}));
    }
    return steps;
  };
  const std::vector<Wishes> first = run(1);
  CHECK(first == run(1));
  CHECK(first != run(2));
  CHECK(std::any_of(first.begin(), first.end(), [&](const Wishes& w) { return w != first.front(); }));
}

TEST_CASE("gate-prediction, recorded: the trace's own prediction, as many as are top-score") {
  OwnedGate gate = one_token({40, 30, 17, 16, 13, 12, 11, 1});  // 0 and 1 are top-score
  gate.predicted = {6, 0, 2};
  const PolicyParameters recorded{{"alpha", 0.25}, {"recorded", 1}};
  CHECK(wishes(recorded, {gate}) == Wishes{{1, 6}, {1, 0}});  // with 40 and 30
  OwnedGate second = one_token({1, 1, 1, 1, 1, 1, 1, 60});    // 7 is top-score: 60
  second.predicted = {0, 1, 2};
  CHECK(wishes(recorded, {gate, second}) == Wishes{{1, 0}, {1, 6}});  // 90 and 40
  CHECK(wishes({{"alpha", 0.25}, {"accuracy", 1}, {"active", 1}}, {gate}) == Wishes{{1, 0}, {1, 1}});
  gate.predicted.clear();
  CHECK_THROWS_WITH(wishes(recorded, {second, gate}),
                    Catch::Contains("gate-prediction") && Catch::Contains("lookahead_ids"));
}

}  // namespace moelab::gate_prediction_test
