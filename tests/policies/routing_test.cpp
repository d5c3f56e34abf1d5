#include "policies/routing/routing.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "models/input_error.hpp"
#include "tests/policies/random_numbers.hpp"
#include "tests/random_runs.hpp"

namespace moelab::routing_test {

using namespace moelab::test;

namespace {

using Experts = std::vector<std::uint16_t>;
constexpr ExpertRole kTop = ExpertRole::top, kLow = ExpertRole::low, kSub = ExpertRole::substitute;

std::unique_ptr<RoutingPolicy> make(std::string_view name, const PolicyParameters& parameters = {}) {
  const RoutingPolicyEntry* const entry = find_routing_policy(name);
  REQUIRE(entry != nullptr);
  return entry->make(parameters);
}

struct Step {
  std::vector<std::vector<float>> scores;  // by token
  std::vector<Experts> chosen;             // by token
  std::vector<std::uint8_t> resident;
  double alpha = 0.25;

  std::vector<TokenGate> gates() const {
    std::vector<TokenGate> gates;
    for (std::size_t t = 0; t < chosen.size(); ++t) gates.push_back({chosen[t], scores[t]});
    return gates;
  }
  StepRouting route(std::string_view policy = "smoe") const {
    PolicyParameters parameters;
    if (policy == "smoe") parameters["alpha"] = alpha;
    StepRouting routing;
    make(policy, parameters)->route(gates(), resident, routing);
    return routing;
  }
};

std::vector<std::uint8_t> residency(std::size_t experts, std::initializer_list<std::size_t> there) {
  std::vector<std::uint8_t> resident(experts, 0);
  for (const std::size_t expert : there) resident[expert] = 1;
  return resident;
}

// One token, k = 3, alpha = 1/4. Scores in 64ths; the 4th highest is 16: T = 20, L = 16, R = 12 exactly.
// Expert:                 0   1   2   3   4   5   6   7
constexpr float k64ths[] = {40, 18, 17, 16, 13, 12, 11, 1};
Step one_token(std::initializer_list<std::size_t> there) {
  Step step;
  step.scores.emplace_back();
  for (const float score : k64ths) step.scores[0].push_back(score / 64);
  step.chosen = {{0, 1, 2}};
  step.resident = residency(8, there);
  return step;
}

// ---- The definitions of SMoE, IV-A and IV-B, with sets. ----

struct NaiveToken {
  std::set<std::uint16_t> active, low, top, substitutes;  // E_a, E_l, E_a \ E_l, E_s
};

std::vector<NaiveToken> naive_sets(const Step& step) {
  std::vector<NaiveToken> tokens;
  std::set<std::uint16_t> at_hand;
  for (std::size_t e = 0; e < step.resident.size(); ++e)
    if (step.resident[e] != 0) at_hand.insert(static_cast<std::uint16_t>(e));
  std::vector<double> next;
  for (std::size_t t = 0; t < step.chosen.size(); ++t) {
    NaiveToken token;
    token.active.insert(step.chosen[t].begin(), step.chosen[t].end());
    std::vector<double> sorted(step.scores[t].begin(), step.scores[t].end());
    std::sort(sorted.rbegin(), sorted.rend());
    const bool has_next = step.chosen[t].size() < sorted.size();
    next.push_back(has_next ? sorted[step.chosen[t].size()] : -1);
    for (const std::uint16_t e : token.active) {
      const double score = step.scores[t][e];
      if (has_next && score >= next[t] && score < (1 + step.alpha) * next[t])
        token.low.insert(e);
      else
        token.top.insert(e);
    }
    tokens.push_back(token);
  }
  for (const NaiveToken& token : tokens) at_hand.insert(token.top.begin(), token.top.end());
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    for (const std::uint16_t e : at_hand) {
      const double score = step.scores[t][e];
      if (tokens[t].active.count(e) == 0 && score >= (1 - step.alpha) * next[t] && score <= next[t])
        tokens[t].substitutes.insert(e);
      tokens[t].low.erase(e);  // |E_l \ G|: those that may be replaced
    }
  }
  return tokens;
}

/// Expected experts of token t, position by position.
Experts naive_experts(const Step& step, std::size_t t, const NaiveToken& sets) {
  std::vector<std::size_t> leaving;  // positions, worst first; of equals the later one first
  for (std::size_t i = 0; i < step.chosen[t].size(); ++i)
    if (sets.low.count(step.chosen[t][i]) != 0) leaving.push_back(i);
  const auto& scores = step.scores[t];
  std::stable_sort(leaving.begin(), leaving.end(), [&](std::size_t a, std::size_t b) {
    return scores[step.chosen[t][a]] > scores[step.chosen[t][b]];
  });
  std::reverse(leaving.begin(), leaving.end());
  Experts serving(sets.substitutes.begin(), sets.substitutes.end());
  std::stable_sort(serving.begin(), serving.end(),
                   [&](std::uint16_t a, std::uint16_t b) { return scores[a] > scores[b]; });
  const std::size_t n = std::min(leaving.size(), serving.size());
  Experts experts = step.chosen[t];
  for (std::size_t i = 0; i < n; ++i) experts[leaving[n - 1 - i]] = serving[i];
  return experts;
}

/// Scores of few or many distinct values, so that ties and scores on the thresholds are common in some steps.
Step random_step(Random& random) {
  Step step;
  const std::uint32_t experts = 1 + below(random, below(random, 8) == 0 ? 64 : 12);
  const std::uint32_t k = 1 + below(random, std::min(8U, experts));
  const std::uint32_t tokens = 1 + below(random, 4);
  const std::uint32_t values = 2 + below(random, 2) * below(random, 1000);
  const bool by_score = below(random, 5) != 0;  // or a gate that goes by something else
  step.alpha = below(random, 6) == 0 ? 0 : below(random, 64) / 64.0;
  for (std::uint32_t t = 0; t < tokens; ++t) {
    std::vector<float> scores(experts);
    for (float& score : scores) score = static_cast<float>(below(random, values) + t % 2) / 64.0F;
    Experts order(experts);
    std::iota(order.begin(), order.end(), std::uint16_t{0});
    std::shuffle(order.begin(), order.end(), random);
    if (by_score)
      std::stable_sort(order.begin(), order.end(),
                       [&](std::uint16_t a, std::uint16_t b) { return scores[a] > scores[b]; });
    order.resize(k);
    if (below(random, 2) == 0) std::shuffle(order.begin(), order.end(), random);
    step.scores.push_back(scores);
    step.chosen.push_back(order);
  }
  const std::uint32_t share = below(random, 5);
  for (std::uint32_t e = 0; e < experts; ++e) step.resident.push_back(below(random, 4) < share);
  return step;
}

}  // namespace

TEST_CASE("routing table: names are unique and found, the null member is there") {
  std::set<std::string_view> names;
  for (const RoutingPolicyEntry& entry : routing_policies()) {
    CHECK(names.insert(entry.info.name).second);
    CHECK(find_routing_policy(entry.info.name) == &entry);
    CHECK_FALSE(entry.info.help.empty());
    CHECK_FALSE(entry.info.source.empty());
    CHECK(entry.needs_all_scores == (entry.info.name == "smoe"));
  }
  CHECK(names == std::set<std::string_view>{"model", "smoe"});
  CHECK(find_routing_policy("random") == nullptr);
}

TEST_CASE("smoe router: alpha below 0, or 1 and more, is refused") {
  for (const double alpha : {-0.01, 1.0, 1.5, std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_AS(make("smoe", {{"alpha", alpha}}), InputError);
  CHECK_THROWS_AS(make("smoe", {{"substitute", 0.5}}), InputError);
  CHECK_NOTHROW(make("smoe", {{"alpha", 0}}));
  CHECK_NOTHROW(make("smoe", {{"alpha", 0.99}}));
}

TEST_CASE("model routing is the model's choice, scores or not") {
  Step step = one_token({3});
  step.scores[0].clear();
  const StepRouting routing = step.route("model");
  CHECK(routing.experts == Experts{0, 1, 2});
  CHECK(routing.roles == std::vector<ExpertRole>(3, kTop));
  CHECK(routing.tokens == std::vector<TokenRouting>{{.top_score = 3}});
}

// By hand from the definitions: expert 0 (40 >= T) is top-score, 1 and 2 (18 and 17 of [16, 20)) low-score.
TEST_CASE("smoe router: every branch for one token") {
  const auto check = [](std::initializer_list<std::size_t> there, const Experts& experts,
                        const std::vector<ExpertRole>& roles, double mass_64ths) {
    const StepRouting routing = one_token(there).route();
    CHECK(routing.experts == experts);
    CHECK(routing.roles == roles);
    const auto substituted = static_cast<std::uint32_t>(std::count(roles.begin(), roles.end(), kSub));
    REQUIRE(routing.tokens.size() == 1);
    CHECK(routing.tokens[0] == TokenRouting{1, 2, substituted, mass_64ths / 64});
  };
  check({}, {0, 1, 2}, {kTop, kLow, kLow}, 0);  // no expert to stand in; the top-score one is not replaced
  check({0, 1, 2}, {0, 1, 2}, {kTop, kLow, kLow}, 0);     // all there
  check({1, 2, 3, 4}, {0, 1, 2}, {kTop, kLow, kLow}, 0);  // low-score ones that are there stay
  check({3}, {0, 1, 3}, {kTop, kLow, kSub}, 17 - 16);     // one substitute: the lowest low-score one leaves
  check({3, 4}, {0, 3, 4}, {kTop, kSub, kSub}, 18 - 16 + 17 - 13);
  check({2, 3, 4}, {0, 3, 2}, {kTop, kSub, kLow}, 18 - 16);  // 2 is there; the best-scored substitute serves
  check({1, 4, 5}, {0, 1, 4}, {kTop, kLow, kSub}, 17 - 13);
  check({5}, {0, 1, 5}, {kTop, kLow, kSub}, 17 - 12);  // just R: may stand in
  check({6, 7}, {0, 1, 2}, {kTop, kLow, kLow}, 0);     // below R: may not
  check({3, 4, 5, 6, 7}, {0, 3, 4}, {kTop, kSub, kSub}, 18 - 16 + 17 - 13);
}

TEST_CASE("smoe router: scores on the thresholds") {
  // k = 2, L = 16, T = 20: a score of T is top-score, one of L low-score.
  Step step;
  step.scores = {{20.0F / 64, 16.0F / 64, 16.0F / 64, 1.0F / 64}};
  step.chosen = {{0, 1}};
  step.resident = residency(4, {2});
  const StepRouting routing = step.route();
  CHECK(routing.experts == Experts{0, 2});
  CHECK(routing.roles == std::vector<ExpertRole>{kTop, kSub});
  CHECK(routing.tokens[0] == TokenRouting{1, 1, 1, 0});
}

TEST_CASE("smoe router: as many experts as the model chooses leave nothing to replace") {
  Step step;
  step.scores = {{0.25F, 0.25F, 0.5F}};
  step.chosen = {{2, 0, 1}};
  step.resident = residency(3, {});
  const StepRouting routing = step.route();
  CHECK(routing.experts == step.chosen[0]);
  CHECK(routing.tokens[0] == TokenRouting{.top_score = 3});
}

TEST_CASE("smoe router: an expert that the gate chose below S(k+1) is kept") {
  // k = 2; the third highest score is 16: expert 3 was chosen with 15, for its group or bias.
  Step step;
  step.scores = {{18.0F / 64, 17.0F / 64, 16.0F / 64, 15.0F / 64}};
  step.chosen = {{0, 3}};
  step.resident = residency(4, {2});
  const StepRouting routing = step.route();
  CHECK(routing.experts == Experts{2, 3});
  CHECK(routing.roles == std::vector<ExpertRole>{kSub, kTop});
}

TEST_CASE("smoe router: three tokens share their top-score experts") {
  // k = 2, alpha = 1/4, in 64ths, nothing on the GPU.
  // Token 0: third highest 16. 0 (40) top-score, 1 (18) low-score; may be replaced by 2 (16) or 3 (14).
  // Token 1: third highest 16. 3 (30) top-score, 2 (17) low-score; 1 (16) may stand in.
  // Token 2: third highest 8. 4 (50) and 1 (20) top-score.
  // C = {0, 3, 4, 1} for all three, also for token 0, which comes before those that put 3 and 1 in:
  // token 0's 1 is in token 2's top set and stays; token 1's 2 is in none, and 1 in token 2's stands in.
  Step step;
  step.scores = {{40, 18, 16, 14, 1}, {2, 16, 17, 30, 1}, {8, 20, 1, 1, 50}};
  for (auto& scores : step.scores)
    for (float& score : scores) score /= 64;
  step.chosen = {{0, 1}, {3, 2}, {4, 1}};
  step.resident = residency(5, {});
  const StepRouting routing = step.route();
  CHECK(routing.experts == Experts{0, 1, 3, 1, 4, 1});
  CHECK(routing.roles == std::vector<ExpertRole>{kTop, kLow, kTop, kSub, kTop, kTop});
  CHECK(routing.tokens == std::vector<TokenRouting>{{1, 1, 0, 0}, {1, 1, 1, 1.0 / 64}, {2, 0, 0, 0}});

  // Without token 2, expert 1 is in no top set: token 0's 1 gives way to 3, token 1's top-score expert, since
  // 2 is nowhere at hand; token 1 finds no substitute for its 2.
  step.scores.pop_back();
  step.chosen.pop_back();
  const StepRouting two = step.route();
  CHECK(two.experts == Experts{0, 3, 3, 2});
  CHECK(two.tokens == std::vector<TokenRouting>{{1, 1, 1, 4.0 / 64}, {1, 1, 0, 0}});
}

TEST_CASE("smoe router: experts are those of a naive implementation with sets") {
  Random random(1);
  std::uint32_t substituted = 0, kept_low = 0;
  for (int instance = 0; instance < moelab::test::random_runs(10000); ++instance) {
    const Step step = random_step(random);
    const StepRouting routing = step.route();
    const std::vector<NaiveToken> naive = naive_sets(step);
    for (std::size_t t = 0; t < step.chosen.size(); ++t) {
      const std::size_t k = step.chosen[t].size();
      const Experts got(routing.experts.begin() + static_cast<std::ptrdiff_t>(t * k),
                        routing.experts.begin() + static_cast<std::ptrdiff_t>((t + 1) * k));
      if (got != naive_experts(step, t, naive[t])) FAIL("instance " << instance << " token " << t);
      substituted += routing.tokens[t].substituted;
      kept_low += routing.tokens[t].low_score - routing.tokens[t].substituted;
    }
  }
  CHECK(substituted > moelab::test::random_runs(1000));
  CHECK(kept_low > moelab::test::random_runs(1000));
}

TEST_CASE("smoe router: what holds for every step") {
  Random random(2);
  for (int instance = 0; instance < moelab::test::random_runs(10000); ++instance) {
    const Step step = random_step(random);
    const StepRouting routing = step.route();
    const std::size_t k = step.chosen[0].size();
    REQUIRE(routing.experts.size() == k * step.chosen.size());
    REQUIRE(routing.roles.size() == routing.experts.size());
    for (std::size_t t = 0; t < step.chosen.size(); ++t) {
      const auto& scores = step.scores[t];
      std::vector<float> sorted = scores;
      std::sort(sorted.rbegin(), sorted.rend());
      const double next = k < sorted.size() ? sorted[k] : 0;
      std::array<std::uint32_t, 3> roles{};
      std::set<std::uint16_t> distinct;
      double mass = 0;
      for (std::size_t i = 0; i < k; ++i) {
        const std::uint16_t model = step.chosen[t][i], used = routing.experts[t * k + i];
        const ExpertRole role = routing.roles[t * k + i];
        distinct.insert(used);
        ++roles[static_cast<std::size_t>(role)];
        mass += std::abs(static_cast<double>(scores[model]) - scores[used]);
        if ((role == kSub) != (used != model)) FAIL("a role that is not what was done");
        if (scores[model] >= (1 + step.alpha) * next && used != model)
          FAIL("a top-score expert was replaced");
        if (step.resident[model] != 0 && used != model) FAIL("an expert that is there was replaced");
      }
      const TokenRouting& token = routing.tokens[t];
      REQUIRE(distinct.size() == k);
      REQUIRE(token.top_score == roles[0]);
      REQUIRE(token.low_score == roles[1] + roles[2]);
      REQUIRE(token.substituted == roles[2]);
      REQUIRE(token.mass_moved == Approx(mass).margin(1e-12));
      REQUIRE(token.mass_moved <= 2 * step.alpha * next * token.substituted * (1 + 1e-12));
      if (step.alpha == 0) REQUIRE(token.substituted == 0);
    }
    if (step.alpha == 0) REQUIRE(routing.experts == step.route("model").experts);
  }
}

TEST_CASE("smoe router: neither the order of tokens nor what it routed before changes a token's experts") {
  Random random(3);
  std::unique_ptr<RoutingPolicy> reused = make("smoe", {{"alpha", 0.5}});
  StepRouting first, again, reversed;
  for (int instance = 0; instance < moelab::test::random_runs(3000); ++instance) {
    Step step = random_step(random);
    step.alpha = 0.5;
    make("smoe", {{"alpha", 0.5}})->route(step.gates(), step.resident, first);
    reused->route(step.gates(), step.resident, again);
    REQUIRE(first == again);
    std::vector<TokenGate> gates = step.gates();
    std::reverse(gates.begin(), gates.end());
    reused->route(gates, step.resident, reversed);
    std::reverse(reversed.tokens.begin(), reversed.tokens.end());
    REQUIRE(reversed.tokens == first.tokens);
    const std::size_t k = step.chosen[0].size(), tokens = step.chosen.size();
    for (std::size_t t = 0; t < tokens; ++t)
      for (std::size_t i = 0; i < k; ++i)
        if (reversed.experts[(tokens - 1 - t) * k + i] != first.experts[t * k + i]) FAIL(instance);
  }
}

TEST_CASE("smoe router: with substitute 0 it sorts into the same classes and replaces nothing") {
  Random random(4);
  for (int instance = 0; instance < moelab::test::random_runs(2000); ++instance) {
    const Step step = random_step(random);
    const StepRouting routing = step.route();
    StepRouting sorted;
    make("smoe", {{"alpha", step.alpha}, {"substitute", 0}})->route(step.gates(), step.resident, sorted);
    REQUIRE(sorted.experts == step.route("model").experts);
    for (std::size_t t = 0; t < step.chosen.size(); ++t) {
      REQUIRE(sorted.tokens[t].top_score == routing.tokens[t].top_score);
      REQUIRE(sorted.tokens[t].low_score == routing.tokens[t].low_score);
      REQUIRE(sorted.tokens[t].substituted == 0);
    }
  }
}

}  // namespace moelab::routing_test
