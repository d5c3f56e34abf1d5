// Ranks over paired values: which is smallest, and what chance may have made.
#include "sim/results/paired_ranks.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <stdexcept>

#include "tests/random_runs.hpp"

namespace moelab::paired_ranks_test {

TEST_CASE("paired ranks: Student's own example") {
  // Hours of sleep gained by ten patients under two drugs (Student, The probable error of a mean, Biometrika
  // 6, 1908; data set `sleep` of R). R 4: t.test(extra ~ group, data = sleep, paired = TRUE) says a mean
  // difference of -1.58 and a 95 % interval from -2.4598858 to -0.7001142.
  const std::vector<double> first = {0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0};
  const std::vector<double> second = {1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4};
  const std::vector<PairedRank> ranks = rank_paired({second, first});
  CHECK(ranks[1].rank == 1);
  CHECK(ranks[1].behind.mean == 0);
  CHECK(ranks[0].rank == 2);
  CHECK(ranks[0].behind.mean == Approx(1.58));
  CHECK(ranks[0].behind.half_width == Approx(2.4598858 - 1.58).epsilon(1e-4));  // the table has three digits
  CHECK_FALSE(ranks[0].noise());
  CHECK((ranks[0].best_rank == 2U && ranks[0].worst_rank == 2U));
  // The same figures not paired say nothing: R's t.test(extra ~ group, data = sleep) has -3.3654832 to
  // 0.2054832, so pairing is what tells them apart. Reversed in time, the pairs are lost:
  const std::vector<double> mixed(second.rbegin(), second.rend());
  CHECK(rank_paired({mixed, first})[0].behind.half_width > ranks[0].behind.half_width);
}

TEST_CASE("paired ranks: a shift common to all seeds is no noise, whatever the seeds differ") {
  // Differences 1, 1, 1: no width at all. Differences -1, 0, 1 and 0, 1, 2: half width t sqrt(1 / 3), with
  // Student's 0.975 quantile for two degrees of freedom, 4.303: 2.484, which is more than their means.
  const std::vector<double> base = {10, 200, 3000};
  const std::vector<PairedRank> ranks =
      rank_paired({{11, 201, 3001}, base, {10, 201, 3002}, {10, 200, 3000}});
  CHECK(ranks[1].rank == 1);
  CHECK((ranks[0].behind.mean == 1 && ranks[0].behind.half_width == 0 && !ranks[0].noise()));
  CHECK(ranks[2].behind.mean == 1);
  CHECK(ranks[2].behind.half_width == Approx(4.303 / std::sqrt(3.0)));
  CHECK(ranks[2].noise());
  CHECK((ranks[3].rank == 1 && ranks[3].place == 2 && ranks[3].noise()));  // the same as the best
  // The first is surely behind the second and the fourth, and like the third.
  CHECK((ranks[0].best_rank == 3U && ranks[0].worst_rank == 4U));
  CHECK((ranks[1].best_rank == 1U && ranks[1].worst_rank == 3U));
  CHECK((ranks[2].best_rank == 1U && ranks[2].worst_rank == 4U));
}

TEST_CASE("paired ranks: what is equal shares its ranks, in whatever order it is given") {
  const std::vector<double> same = {2, 4}, better = {1, 3}, worse = {5, 5};
  std::vector<std::vector<double>> values = {same, worse, same, better, same};
  std::vector<std::size_t> order = {0, 1, 2, 3, 4};
  do {
    std::vector<std::vector<double>> given;
    for (const std::size_t i : order) given.push_back(values[i]);
    const std::vector<PairedRank> ranks = rank_paired(given);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const bool first = order[i] == 3, last = order[i] == 1;
      CHECK(ranks[i].rank == (first ? 1U : last ? 5U : 2U));
      CHECK(ranks[i].mean_rank == (first ? 1 : last ? 5 : 3));  // of places 2, 3 and 4
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("paired ranks: one seed gives an order and no interval") {
  const std::vector<PairedRank> ranks = rank_paired({{3}, {1}, {2}});
  CHECK((ranks[0].rank == 3 && ranks[1].rank == 1 && ranks[2].rank == 2));
  CHECK((ranks[0].behind.mean == 2 && !ranks[0].best_rank && !ranks[0].noise()));
  CHECK(rank_paired({}).empty());
  CHECK_THROWS_AS(rank_paired({{1, 2}, {1}}), std::logic_error);
  CHECK_THROWS_AS(rank_paired({{}}), std::logic_error);
}

TEST_CASE("paired ranks: seeds that change nothing are one measurement") {
  const std::vector<PairedRank> ranks = rank_paired({{3, 3, 3}, {1, 1, 1}});
  CHECK((ranks[0].rank == 2 && ranks[0].behind.mean == 2));
  CHECK((!ranks[0].best_rank && !ranks[1].best_rank && !ranks[0].noise()));
  // One value that differs says that seeds matter, and that the others do not move with them.
  CHECK((rank_paired({{3, 3, 3}, {1, 1, 1}, {8, 8, 9}})[0].best_rank == 2U));
}

TEST_CASE("intervals of means: the quantiles of a table, and beyond it") {
  // NIST/SEMATECH e-Handbook, table 1.3.6.7.2: 2.042 for 30 degrees of freedom, 2.040, 2.021, 2.000 and 1.984
  // for 31, 40, 60 and 100. Of n values +1 and n values -1 the standard error is sqrt(2n / (2n - 1) / 2n).
  const std::pair<std::size_t, double> rows[] = {
      {30, 2.042}, {31, 2.040}, {40, 2.021}, {60, 2.0}, {100, 1.984}};
  for (const auto& [freedom, quantile] : rows) {
    std::vector<double> values(freedom + 1, 0.0);  // one of them 1: variance 1 / n, error 1 / n
    values.front() = 1;
    const auto n = static_cast<double>(values.size());
    CHECK(interval95(values).half_width * n == Approx(quantile).margin(5e-4 + 1e-9));
  }
}

TEST_CASE("intervals of means: they hold the mean 95 times of 100") {
  // The definition, by Monte Carlo with normal values: of 20,000 intervals of 5 values 95 % hold 0, give or
  // take five standard deviations, sqrt(0.95 0.05 / 20000) each.
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  const int runs = moelab::test::random_runs(20'000);
  int holds = 0;
  for (int i = 0; i < runs; ++i) {
    std::vector<double> values(5);
    for (double& v : values) v = normal(random);
    const Interval interval = interval95(values);
    holds += std::abs(interval.mean) <= interval.half_width;
  }
  CHECK(std::abs(static_cast<double>(holds) / runs - 0.95) < 5 * std::sqrt(0.95 * 0.05 / runs));
}

}  // namespace moelab::paired_ranks_test
