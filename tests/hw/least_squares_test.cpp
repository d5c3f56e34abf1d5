// Fits against the equations that the points were made from, and against exhaustive search where there is
// noise.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "hw/calibrate/least_squares.hpp"
#include "tests/random_runs.hpp"
#include "traces/random.hpp"

namespace moelab::least_squares_test {
namespace {

/// Uniform in [low, high).
double between(Random& random, double low, double high) {
  return low + (high - low) * random.uniform();
}

/// By factors, as sizes and rates spread.
double spread_between(Random& random, double low, double high) {
  return low * std::pow(high / low, random.uniform());
}

double largest(const FitQuality& quality) {
  double most = 0;
  for (const double residual : quality.residuals) most = std::max(most, std::abs(residual));
  return most;
}

TEST_CASE("a fixed cost and a rate are found in points made of them") {
  Random random(1);
  for (int round = 0; round < moelab::test::random_runs(2000); ++round) {
    const double intercept = round % 4 == 0 ? 0 : spread_between(random, 1e-7, 1e-3);
    const double rate = spread_between(random, 1e6, 1e11);
    const double noise = round % 2 == 0 ? 0 : 0.05;
    std::vector<CurvePoint> points;
    for (double amount = spread_between(random, 1e3, 1e5); points.size() < 6; amount *= 4)
      points.push_back({amount, (intercept + amount / rate) * (1 + noise * between(random, -1, 1))});
    const auto fit = fit_affine(points);
    REQUIRE(fit);
    REQUIRE(fit->quality.residuals.size() == points.size());
    REQUIRE(fit->intercept >= 0);
    if (noise == 0) {
      // The worst conditioned are those whose cost is lost beside the smallest amount, or the other way
      // round.
      CHECK(largest(fit->quality) < 1e-9);
      CHECK(fit->intercept == Approx(intercept).epsilon(1e-6).margin(1e-9 * points.front().seconds));
    } else {
      // The equation itself is one of the candidates, and no further than this from any point.
      CHECK(fit->quality.error <= noise / (1 - noise) + 1e-12);
    }
  }
}

TEST_CASE("an affine fit is the best one: no neighbour of it is nearer") {
  Random random(2);
  for (int round = 0; round < moelab::test::random_runs(300); ++round) {
    std::vector<CurvePoint> points;
    for (double amount = 1e4; points.size() < 5; amount *= 3)
      points.push_back({amount, between(random, 0.5, 1.5) * (1e-5 + amount / 1e9)});
    const auto fit = fit_affine(points);
    REQUIRE(fit);
    const double slope = std::isfinite(fit->rate) ? 1 / fit->rate : 0;
    const auto squares = [&](double intercept, double by) {
      double sum = 0;
      for (const CurvePoint& p : points) sum += std::pow((intercept + by * p.amount) / p.seconds - 1, 2);
      return sum;
    };
    const double found = squares(fit->intercept, slope);
    CHECK(fit->quality.error == Approx(std::sqrt(found / 5)).margin(1e-12));
    for (const double intercept_step : {-1e-8, 0.0, 1e-8})
      for (const double slope_step : {-1e-13, 0.0, 1e-13})
        if (fit->intercept + intercept_step >= 0 && slope + slope_step >= 0)
          CHECK(squares(fit->intercept + intercept_step, slope + slope_step) >= found * (1 - 1e-12));
  }
}

TEST_CASE("times that do not rise are a fixed cost, and one amount is nothing to fit") {
  const auto flat = fit_affine(std::vector<CurvePoint>{{1, 4e-6}, {2, 2e-6}, {3, 2e-6}});
  REQUIRE(flat);
  CHECK(std::isinf(flat->rate));
  // Least squares of c / t - 1: c = sum(1 / t) / sum(1 / t^2) = (0.25 + 0.5 + 0.5) / (0.0625 + 0.25 + 0.25)
  // us.
  CHECK(flat->intercept == Approx(1.25 / 0.5625 * 1e-6));
  CHECK_FALSE(fit_affine(std::vector<CurvePoint>{{1, 4e-6}}));
  CHECK_FALSE(fit_affine(std::vector<CurvePoint>{{1, 4e-6}, {1, 5e-6}}));
}

TEST_CASE("a roofline is found in points made of it") {
  Random random(3);
  for (int round = 0; round < moelab::test::random_runs(1000); ++round) {
    const double bandwidth = spread_between(random, 1e9, 1e13);
    const double ridge = spread_between(random, 1.5, 60);  // FLOPs a byte; intensities are 1 ... 64
    const double peak = bandwidth * ridge;
    const double launch = round % 3 == 0 ? 0 : spread_between(random, 1e-7, 1e-4);
    const double noise = round % 2 == 0 ? 0 : 0.03;
    std::vector<RooflinePoint> points;
    for (const double bytes : {2e6, 16e6})
      for (const double tokens : {1.0, 2.0, 4.0, 16.0, 64.0})
        points.push_back({bytes * tokens, bytes,
                          (launch + std::max(bytes * tokens / peak, bytes / bandwidth)) *
                              (1 + noise * between(random, -1, 1))});
    const auto fit = fit_roofline(points);
    REQUIRE(fit);
    REQUIRE(fit->launch >= 0);
    if (noise == 0) {
      CHECK(largest(fit->quality) < 1e-7);
      const bool launch_is_all = launch > 100 * 16e6 / bandwidth;
      if (!launch_is_all) {
        CHECK(fit->peak == Approx(peak).epsilon(1e-4));
        CHECK(fit->bandwidth == Approx(bandwidth).epsilon(1e-4));
      }
    } else {
      CHECK(fit->quality.error <= 2 * noise);
    }
  }
}

TEST_CASE("any times at two intensities make a roofline, and how far off it is is known") {
  Random random(4);
  int without_launch = 0;
  for (int round = 0; round < moelab::test::random_runs(1000); ++round) {
    std::vector<RooflinePoint> points;
    for (const double bytes : {2e6, 16e6})
      for (const double intensity : {1.0, 2.0, 16.0})
        points.push_back({intensity * bytes, bytes, spread_between(random, 1e-4, 1e-2)});
    const auto fit = fit_roofline(points);
    REQUIRE(fit);
    REQUIRE((fit->peak > 0 && std::isfinite(fit->peak)));
    REQUIRE((fit->bandwidth > 0 && std::isfinite(fit->bandwidth)));
    REQUIRE(fit->launch >= 0);
    without_launch += fit->launch == 0;
    double squares = 0;
    for (const RooflinePoint& p : points) {
      const double seconds = fit->launch + std::max(p.flops / fit->peak, p.bytes / fit->bandwidth);
      squares += (seconds / p.seconds - 1) * (seconds / p.seconds - 1);
    }
    REQUIRE(fit->quality.error == Approx(std::sqrt(squares / 6)));
  }
  CHECK(without_launch > 0);
}

TEST_CASE("no roofline is made of points that show only one side") {
  CHECK_FALSE(fit_roofline({}));
  CHECK_FALSE(fit_roofline(std::vector<RooflinePoint>{{1e6, 1e6, 1e-3}, {2e6, 2e6, 2e-3}, {4e6, 4e6, 4e-3}}));
}

/// The nearest rising values by their definition: the value at i is the largest, over beginnings a <= i, of
/// the smallest, over ends b >= i, of the weighted mean of a ... b (Robertson, Wright and Dykstra, 1988).
/// Weights are the inverse squares of `sizes`.
std::vector<double> rising_by_definition(const std::vector<double>& values,
                                         const std::vector<double>& sizes) {
  const auto mean = [&](std::size_t a, std::size_t b) {
    double sum = 0, weights = 0;
    for (std::size_t i = a; i <= b; ++i) {
      sum += values[i] / (sizes[i] * sizes[i]);
      weights += 1 / (sizes[i] * sizes[i]);
    }
    return sum / weights;
  };
  std::vector<double> rising;
  for (std::size_t i = 0; i < values.size(); ++i) {
    double most = 0;
    for (std::size_t a = 0; a <= i; ++a) {
      double least = mean(a, i);
      for (std::size_t b = i; b < values.size(); ++b) least = std::min(least, mean(a, b));
      most = std::max(most, least);
    }
    rising.push_back(most);
  }
  return rising;
}

TEST_CASE("values are made rising as the definition has it") {
  Random random(4);
  for (int round = 0; round < moelab::test::random_runs(2000); ++round) {
    std::vector<double> values(1 + round % 9);
    for (double& value : values) value = between(random, 0.5, 2);
    const RisingValues rising = made_rising(values);
    const std::vector<double> due = rising_by_definition(values, values);
    REQUIRE(rising.values.size() == values.size());
    double correction = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      CHECK(rising.values[i] == Approx(due[i]).epsilon(1e-12));
      if (i > 0) CHECK(rising.values[i] >= rising.values[i - 1]);
      correction = std::max(correction, std::abs(due[i] / values[i] - 1));
    }
    CHECK(rising.largest_correction == Approx(correction).margin(1e-12));
  }
  // The last by so much at least: as if it were that much less, and that added again.
  for (int round = 0; round < moelab::test::random_runs(500); ++round) {
    std::vector<double> values(2 + round % 5);
    for (double& value : values) value = between(random, 0.5, 2);
    const double rise = between(random, 0, values.back());
    const RisingValues rising = made_rising(values, rise);
    const double step = rising.values.back() - rising.values[values.size() - 2];
    CHECK(step >= rise * (1 - 1e-12));
    std::vector<double> lowered = values;
    lowered.back() -= rise;
    const std::vector<double> due = rising_by_definition(lowered, values);
    for (std::size_t i = 0; i < values.size(); ++i)
      CHECK(rising.values[i] == Approx(due[i] + (i + 1 == values.size() ? rise : 0)).margin(1e-12));
  }
  const std::vector<double> sorted = {1, 1, 2, 5};
  CHECK(made_rising(sorted).values == sorted);
  CHECK(made_rising(sorted).largest_correction == 0);
}

}  // namespace
}  // namespace moelab::least_squares_test
