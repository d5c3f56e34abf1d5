// Drawn lengths against the distributions that they are drawn from, and classes against their shares.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "sim/serving/drawn_lengths.hpp"
#include "sim/serving/served_request.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/paged_cases.hpp"

namespace moelab::drawn_lengths_test {

using namespace moelab::test;

namespace {

using Kind = TokenLaw::Kind;

double normal_below(double z) {
  return std::erfc(-z / std::sqrt(2.0)) / 2;
}

/// The k-th moment of a lognormal number, a number beyond a limit taken for that limit: what lies between the
/// limits by E[X^k; a < X < b] = m^k e^(k^2 s^2 / 2) (N(z_b - k s) - N(z_a - k s)), z_x = (ln x - ln m) / s.
double clamped_moment(const TokenLaw& law, int k) {
  const auto z = [&](double x) { return (std::log(x) - std::log(law.median)) / law.sigma; };
  const double low = z(law.least), high = z(law.most), s = law.sigma;
  return std::pow(law.least, k) * normal_below(low) + std::pow(law.most, k) * normal_below(-high) +
         std::pow(law.median, k) * std::exp(k * k * s * s / 2) *
             (normal_below(high - k * s) - normal_below(low - k * s));
}

std::vector<double> sample_of(const TokenLaw& law, std::size_t count) {
  Random random(5);
  std::vector<double> sample;
  for (std::size_t i = 0; i < count; ++i) sample.push_back(draw_tokens(law, random));
  return sample;
}

/// Of counts that are all expected to be the same: Pearson's sum over `count` draws.
double chi_squared(const std::map<std::uint64_t, double>& counts, double expected) {
  double sum = 0;
  for (const auto& [value, seen] : counts) sum += (seen - expected) * (seen - expected) / expected;
  return sum;
}

/// A value of chi-squared with so many degrees of freedom that 1 in 30,000 is beyond: Wilson and Hilferty.
double chi_squared_bound(double degrees) {
  const double spread = 2 / (9 * degrees);
  return degrees * std::pow(1 - spread + 4 * std::sqrt(spread), 3);
}

RequestClass one_class(const TokenLaw& prompt, const TokenLaw& output, double share = 1,
                       const std::string& name = "") {
  return {
      .name = name, .share = share, .prompt = prompt, .output = output, .lengths_file = "", .lengths = {}};
}

TokenLaw range(std::uint32_t least, std::uint32_t most) {
  return {.kind = Kind::uniform, .least = least, .most = most};
}

/// Of three classes that their prompts tell apart.
WorkloadConfig three_classes(std::uint32_t requests) {
  WorkloadConfig w;
  w.requests = requests;
  w.mix = {one_class(range(1, 10), range(1, 5), 0.5, "a"), one_class(range(11, 20), range(1, 5), 0.3, "b"),
           one_class(range(21, 30), range(1, 5), 0.2, "c")};
  return w;
}

}  // namespace

TEST_CASE("lengths: in a range each number comes equally often") {
  const std::size_t count = random_runs(20000u);
  std::map<std::uint64_t, double> seen;
  for (const double tokens : sample_of(range(7, 26), count)) ++seen[static_cast<std::uint64_t>(tokens)];
  REQUIRE(seen.size() == 20);
  CHECK(seen.begin()->first == 7);
  CHECK(seen.rbegin()->first == 26);
  CHECK(chi_squared(seen, count / 20.0) < chi_squared_bound(19));
  CHECK(sample_of(range(9, 9), 3) == std::vector<double>{9, 9, 9});
}

TEST_CASE("lengths: lognormal numbers have the moments of the law, within its limits") {
  struct Case {
    double median, sigma;
    std::uint32_t least, most;
  };
  for (const Case& c : {Case{1000, 0.5, 1, 1000000}, Case{1000, 1.2, 100, 8192}, Case{300, 0.8, 250, 600}}) {
    INFO("median " << c.median << ", sigma " << c.sigma);
    const TokenLaw law{
        .kind = Kind::lognormal, .median = c.median, .sigma = c.sigma, .least = c.least, .most = c.most};
    const std::size_t count = random_runs(20000u);
    double sum = 0, below_median = 0;
    for (const double tokens : sample_of(law, count)) {
      REQUIRE((tokens >= c.least && tokens <= c.most));
      sum += tokens;
      below_median += tokens < c.median ? 1 : tokens == c.median ? 0.5 : 0;
    }
    const auto n = static_cast<double>(count);
    const double mean = clamped_moment(law, 1);
    const double deviation = std::sqrt(clamped_moment(law, 2) - mean * mean);
    CHECK(std::abs(sum / n - mean) < 4.5 * deviation / std::sqrt(n) + 0.1);  // 0.1: rounding to whole tokens
    CHECK(std::abs(below_median / n - 0.5) < 4.5 * 0.5 / std::sqrt(n));
  }
}

TEST_CASE("lengths: of a log its requests' pairs come, each equally often") {
  WorkloadConfig w;
  w.requests = random_runs(10000u);
  w.mix.resize(1);
  std::map<std::uint64_t, double> seen;
  for (std::uint32_t i = 0; i < 10; ++i) {
    w.mix.front().lengths.push_back({double(i), 10 + i, 100 + 7 * i});
    seen[i] = 0;
  }
  for (const DrawnLengths& drawn : drawn_lengths(w, 3)) {
    REQUIRE(drawn.prompt_tokens >= 10);
    const std::uint32_t i = drawn.prompt_tokens - 10;
    REQUIRE(i < 10);
    CHECK(drawn.output_tokens == 100 + 7 * i);
    ++seen[i];
  }
  CHECK(chi_squared(seen, w.requests / 10.0) < chi_squared_bound(9));
}

TEST_CASE("lengths: classes have their shares and their own lengths") {
  const WorkloadConfig w = three_classes(random_runs(20000u));
  std::array<double, 3> seen{};
  for (const DrawnLengths& drawn : drawn_lengths(w, 8)) {
    REQUIRE(drawn.of_class < 3);
    CHECK((drawn.prompt_tokens - 1) / 10 == drawn.of_class);
    ++seen[drawn.of_class];
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const double share = w.mix[i].share, n = w.requests;
    CHECK(std::abs(seen[i] - share * n) < 4.5 * std::sqrt(share * (1 - share) * n));
  }
}

TEST_CASE("lengths: a request's depend on the seed, its number and its class alone") {
  const auto few = drawn_lengths(three_classes(50), 4), more = drawn_lengths(three_classes(200), 4);
  const auto same = [](const DrawnLengths& a, const DrawnLengths& b) {
    return a.prompt_tokens == b.prompt_tokens && a.output_tokens == b.output_tokens &&
           a.of_class == b.of_class;
  };
  CHECK(std::equal(few.begin(), few.end(), more.begin(), same));
  CHECK_FALSE(std::equal(few.begin(), few.end(), drawn_lengths(three_classes(50), 5).begin(), same));
  WorkloadConfig other = three_classes(200);
  other.mix[1].prompt = {.kind = Kind::lognormal, .median = 400, .sigma = 1, .least = 31, .most = 9999};
  const auto changed = drawn_lengths(other, 4);
  for (std::size_t i = 0; i < more.size(); ++i) {
    CHECK(changed[i].of_class == more[i].of_class);
    CHECK(changed[i].output_tokens == more[i].output_tokens);
    CHECK((changed[i].prompt_tokens == more[i].prompt_tokens) == (more[i].of_class != 1));
  }
}

TEST_CASE("lengths: the same requests come at another rate") {
  SmallRun run = paged_run(small_model({}), {"resident"});
  WorkloadConfig& w = run.scenario.workload;
  w.mix = three_classes(0).mix;
  w.requests = 40;
  std::vector<std::vector<ServedRequest>> at;
  for (const double rate : {2.0, 50.0}) {
    w.arrivals_per_s = rate;
    at.push_back(served_requests(run.scenario, run.trace));
  }
  REQUIRE(at[0].size() == 40);
  for (std::size_t i = 0; i < 40; ++i) {
    CHECK(at[0][i].prompt_tokens == at[1][i].prompt_tokens);
    CHECK(at[0][i].output_tokens == at[1][i].output_tokens);
    CHECK(at[0][i].of_class == at[1][i].of_class);
    CHECK(at[0][i].arrival_s / 25 == Approx(at[1][i].arrival_s));
  }
}

}  // namespace moelab::drawn_lengths_test
