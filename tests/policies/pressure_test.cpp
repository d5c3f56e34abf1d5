// Who gives way under memory pressure: the family's two ends, and what lies between them by cost, against a
// search over every number of requests written out from the rule.
#include "policies/pressure/pressure.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/policies/random_numbers.hpp"
#include "tests/random_runs.hpp"

namespace moelab::pressure_test {

using namespace moelab::test;

namespace {

PressureTerms random_terms(std::uint64_t seed) {
  Random random(seed);
  PressureTerms t;
  t.expert_bytes = 1 + 9 * uniform(random, 0, 1);
  t.experts = 1.0 + static_cast<double>(below(random, 64));
  t.load_s = 2 * uniform(random, 0, 1);
  double kv = 0, used = 0, step = 5 * uniform(random, 0, 1);
  for (std::uint64_t n = 1 + below(random, 12); n > 0; --n) {
    kv += 40 * uniform(random, 0, 1);
    used += (t.experts - used) * uniform(random, 0, 1);
    step += uniform(random, 0, 1);
    t.kv_bytes.push_back(kv);
    t.used.push_back(used);
    t.step_s.push_back(step);
  }
  t.room_bytes = t.kv_bytes.front() + uniform(random, 0, 1) * t.experts * t.expert_bytes * 1.2;
  return t;
}

std::size_t chosen(const char* policy, const PressureTerms& terms) {
  return find_pressure_policy(policy)->requests(terms, {});
}

/// Seconds that a step of n requests takes for each of its tokens.
double seconds_a_token(const PressureTerms& t, std::size_t n) {
  const double there = std::clamp((t.room_bytes - t.kv_bytes[n - 1]) / t.expert_bytes, 0.0, t.experts);
  const double lacking = t.used[n - 1] * (t.experts - there) / t.experts;
  return (t.step_s[n - 1] + lacking * t.load_s) / static_cast<double>(n);
}

}  // namespace

TEST_CASE("pressure: the cheapest number of requests is the one that a search finds") {
  std::size_t between = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(5000u); ++seed) {
    INFO("seed " << seed);
    const PressureTerms terms = random_terms(seed);
    const std::size_t n = chosen("cheapest-yields", terms), most = terms.kv_bytes.size();
    REQUIRE((n >= 1 && n <= most));
    CHECK(chosen("experts-yield", terms) == most);
    CHECK(chosen("requests-yield", terms) == 1);
    for (std::size_t other = 1; other <= most; ++other) {
      if (terms.kv_bytes[other - 1] > terms.room_bytes) continue;
      CHECK(seconds_a_token(terms, n) <= seconds_a_token(terms, other) * (1 + 1e-12));
    }
    between += n > 1 && n < most ? 1 : 0;
  }
  CHECK(between > random_runs(500u));
}

TEST_CASE("pressure: where loads cost nothing experts give way, where requests bring nothing they do") {
  for (std::uint64_t seed = 1; seed <= random_runs(1000u); ++seed) {
    INFO("seed " << seed);
    PressureTerms terms = random_terms(seed);
    terms.room_bytes = terms.kv_bytes.back() + 1;
    terms.load_s = 0;
    std::fill(terms.step_s.begin(), terms.step_s.end(), 1.0);  // a step takes as long for one as for all
    CHECK(chosen("cheapest-yields", terms) == terms.kv_bytes.size());
    for (std::size_t n = 1; n <= terms.step_s.size(); ++n)
      terms.step_s[n - 1] = 1.01 * static_cast<double>(n * n);
    CHECK(chosen("cheapest-yields", terms) == 1);
  }
}

TEST_CASE("pressure: dearer loads never make room for more requests where each uses as many experts more") {
  for (std::uint64_t seed = 1; seed <= random_runs(1000u); ++seed) {
    INFO("seed " << seed);
    PressureTerms terms = random_terms(seed);
    // Loads of a token grow with the number of requests, as each adds as many experts and takes room of them.
    for (std::size_t n = 1; n <= terms.used.size(); ++n) terms.used[n - 1] = static_cast<double>(n);
    std::size_t before = terms.kv_bytes.size();
    for (double load = 0; load < 4; load += 0.25) {
      terms.load_s = load;
      const std::size_t now = chosen("cheapest-yields", terms);
      if (load > 0) CHECK(now <= before);
      before = now;
    }
  }
}

}  // namespace moelab::pressure_test
