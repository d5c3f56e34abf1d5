// Axes: which numbers stand along them, on random ranges against the rules themselves.
#include "cli/plot/chart_scale.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/random_runs.hpp"
#include "traces/random.hpp"

namespace moelab::chart_scale_test {

using namespace moelab::plot;

namespace {

// The number that a tick's text says: its digits times what k, M, µ or e-7 mean, which stand behind it, in
// the scale's unit, or before a unit of its own.
double spoken(const Scale& scale, std::string text) {
  if (const std::size_t unit = text.find(' '); unit != text.npos)
    text = text.substr(0, unit) + text.substr(unit + 1, text.size() - unit - 2);  // "10 ms": "10m"
  text += scale.prefix;
  const std::vector<std::pair<std::string, int>> prefixes{{"µ", -6}, {"a", -18}, {"f", -15}, {"p", -12},
                                                          {"n", -9}, {"m", -3},  {"k", 3},   {"M", 6},
                                                          {"G", 9},  {"T", 12},  {"P", 15},  {"E", 18}};
  for (const auto& [prefix, power] : prefixes)
    if (text.ends_with(prefix))
      return std::stod(text.substr(0, text.size() - prefix.size()) + "e" + std::to_string(power));
  return std::stod(text);
}

// 1, 2 or 5 times a power of ten, within rounding.
bool is_preferred(double value) {
  const double digits = value / std::pow(10.0, std::floor(std::log10(value) + 1e-9));
  for (const double wanted : {1.0, 2.0, 5.0})
    if (std::abs(digits - wanted) < 1e-6) return true;
  return false;
}

double random_magnitude(Random& random, double decades) {
  return std::pow(10.0, decades * (2 * random.uniform() - 1));
}

AxisRange random_range(Random& random) {
  const double middle = (random.uniform() - 0.5) * random_magnitude(random, 12);
  const double half = std::abs(middle) * random_magnitude(random, 3) + 1e-13;
  switch (random.below(4)) {
    case 0:
      return {0, half};
    case 1:
      return {-half, 0};
    default:
      return {middle - half, middle + half};
  }
}

void check_texts(const Scale& scale) {
  for (const Tick& tick : scale.ticks) {
    const double extent = std::max(std::abs(scale.low), std::abs(scale.high));
    if (std::abs(spoken(scale, tick.text) - tick.value) > 1e-12 * extent)
      FAIL(tick.text << " stands at " << tick.value);
  }
}

void check_equal_steps(const Scale& scale) {
  const double step = scale.ticks[1].value - scale.ticks[0].value;
  const double rounding = 1e-9 * std::max(std::abs(scale.low), std::abs(scale.high)) / step;
  if (rounding < 1e-6) CHECK(is_preferred(step));
  for (const Tick& tick : scale.ticks) {
    const double steps = tick.value / step;
    if (std::abs(steps - std::round(steps)) > 1e-6 + rounding)
      FAIL(tick.value << " is no multiple of " << step);
  }
}

}  // namespace

TEST_CASE("linear axes: 3 to 8 ticks at multiples of 1, 2 or 5 cover the data") {
  Random random(1);
  for (int i = 0; i < moelab::test::random_runs(5000); ++i) {
    const AxisRange data = random_range(random);
    const Axis axis{.unit = random.below(2) == 0 ? "s" : ""};
    const Scale scale = make_scale(data, axis, false);
    CAPTURE(data.low, data.high);
    REQUIRE(scale.ticks.size() >= 3);
    REQUIRE(scale.ticks.size() <= 8);
    const double step = scale.ticks[1].value - scale.ticks[0].value;
    const bool covers = scale.low <= data.low && scale.high >= data.high &&
                        scale.ticks.front().value <= data.low + 1e-4 * step &&
                        scale.ticks.back().value >= data.high - 1e-4 * step;
    REQUIRE(covers);
    // And no further than needed.
    REQUIRE(scale.ticks[1].value > data.low);
    REQUIRE(scale.ticks[scale.ticks.size() - 2].value < data.high);
    check_equal_steps(scale);
    check_texts(scale);
  }
}

TEST_CASE("axes with given ends: 3 to 8 ticks between them") {
  Random random(2);
  for (int i = 0; i < moelab::test::random_runs(5000); ++i) {
    AxisRange data = random_range(random);
    Axis axis{.scale = random.below(2) == 0 ? ScaleKind::linear : ScaleKind::log};
    if (axis.scale == ScaleKind::log) {
      data.low = random_magnitude(random, 9);
      data.high = data.low * (1.01 + random_magnitude(random, 6));
    }
    const Scale scale = make_scale(data, axis, true);
    CAPTURE(data.low, data.high);
    REQUIRE(scale.low == data.low);
    REQUIRE(scale.high == data.high);
    REQUIRE(scale.ticks.size() >= 3);
    REQUIRE(scale.ticks.size() <= 8);
    const double slack = 1e-4 * (data.high - data.low);
    REQUIRE(scale.ticks.front().value >= data.low - slack);
    REQUIRE(scale.ticks.back().value <= data.high + slack);
    check_texts(scale);
  }
}

TEST_CASE("log axes: decades, or 1, 2, 5 within them, or equal steps") {
  Random random(3);
  for (int i = 0; i < moelab::test::random_runs(5000); ++i) {
    const double low = random_magnitude(random, 9);
    const double high = low * (1 + random_magnitude(random, 9));
    const Scale scale = make_scale({low, high}, {.unit = "s", .scale = ScaleKind::log}, false);
    CAPTURE(low, high);
    REQUIRE(scale.low <= low);
    REQUIRE(scale.high >= high);
    REQUIRE(scale.low > 0);
    REQUIRE(scale.ticks.size() >= 3);
    REQUIRE(scale.ticks.size() <= 8);
    check_texts(scale);
    if (high <= 2.5 * low) {
      check_equal_steps(scale);
      continue;
    }
    REQUIRE(is_preferred(scale.low));
    REQUIRE(is_preferred(scale.high));
    for (const Tick& tick : scale.ticks) REQUIRE(is_preferred(tick.value));
  }
}

TEST_CASE("positions follow the equation of the axis") {
  const Scale linear = make_scale({-2, 6}, {}, true);
  CHECK(linear.position(0) == Approx((0.0 + 2) / 8));
  const Scale log = make_scale({1e-3, 1e3}, {.scale = ScaleKind::log}, true);
  CHECK(log.position(0.02) == Approx((std::log10(0.02) + 3) / 6));
  CHECK_FALSE(log.can_place(0));
  CHECK_FALSE(log.can_place(NAN));
  CHECK_FALSE(linear.can_place(INFINITY));
  CHECK_FALSE(linear.can_place(2e300));
  CHECK(linear.can_place(-7));
  CHECK_FALSE(linear.shows(-7));
}

TEST_CASE("data without extent, and the largest and smallest there are") {
  for (const double value : {0.0, 1.0, -3.5, 1e300, -1e300, 1e-300, 5e-324, 123456789.0}) {
    const Scale scale = make_scale({value, value}, {}, false);
    CAPTURE(value);
    CHECK(scale.low <= value);
    CHECK(scale.high >= value);
    CHECK(scale.low < scale.high);
    CHECK(scale.ticks.size() >= 3);
  }
  const Scale widest = make_scale({-1e300, 1e300}, {}, false);
  CHECK(widest.position(0) == Approx(0.5));
  const Scale decades = make_scale({1e-280, 1e280}, {.scale = ScaleKind::log}, false);
  CHECK(decades.position(1) == Approx(0.5));
  CHECK(decades.ticks.size() >= 3);
  CHECK(decades.ticks.size() <= 8);
}

TEST_CASE("numbers along an axis read as people write them") {
  const auto texts = [](AxisRange data, const Axis& axis) {
    std::string joined;
    const Scale scale = make_scale(data, axis, false);
    for (const Tick& tick : scale.ticks) joined += tick.text + " ";
    return joined + (axis.unit.empty() ? "" : "in " + scale.prefix + axis.unit);
  };
  CHECK(texts({0, 1}, {}) == "0 0.2 0.4 0.6 0.8 1.0 ");
  CHECK(texts({0, 50000}, {.unit = "B"}) == "0 10 20 30 40 50 in kB");
  CHECK(texts({0, 0.003}, {.unit = "s"}) == "0 0.5 1.0 1.5 2.0 2.5 3.0 in ms");
  CHECK(texts({0, 0.003}, {}) == "0 0.0005 0.0010 0.0015 0.0020 0.0025 0.0030 ");
  CHECK(texts({-3e-7, 0}, {}) == "-3.0e-7 -2.5e-7 -2.0e-7 -1.5e-7 -1.0e-7 -0.5e-7 0 ");
  CHECK(texts({1, 1e6}, {.scale = ScaleKind::log}) == "1 10 100 1000 10k 100k 1M ");
  CHECK(texts({0.001, 0.1}, {.unit = "s", .scale = ScaleKind::log}) == "1 10 100 in ms");
  CHECK(texts({1e-5, 1}, {.unit = "s", .scale = ScaleKind::log}) ==
        "10 µs 100 µs 1 ms 10 ms 100 ms 1 s in s");
  CHECK(texts({0, 5e10}, {.unit = "B/s"}) == "0 10 20 30 40 50 in GB/s");
  CHECK(texts({0, 50000}, {.unit = "requests"}) == "0 10k 20k 30k 40k 50k in requests");
  CHECK(texts({0, 3}, {.integers = true}) == "0 1 2 3 ");
}

}  // namespace moelab::chart_scale_test
