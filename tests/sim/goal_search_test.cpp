// The searches for a threshold and for a best place, held against looking at every place.
#include "sim/sweep/goal_search.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <set>

#include "tests/random_runs.hpp"

namespace moelab::goal_search_test {
namespace {

using Random = std::mt19937_64;

std::size_t drawn(Random& random, std::size_t low, std::size_t high) {
  return std::uniform_int_distribution<std::size_t>(low, high)(random);
}

/// Counts places, and fails for one that is asked for twice or is none.
template <class Answer, class Of>
std::function<std::vector<Answer>(const std::vector<std::size_t>&)> asked_once(std::set<std::size_t>& asked,
                                                                               std::size_t last,
                                                                               const Of& of) {
  return [&asked, last, of](const std::vector<std::size_t>& places) {
    std::vector<Answer> answers;
    for (const std::size_t place : places) {
      REQUIRE(place <= last);
      REQUIRE(asked.insert(place).second);
      answers.push_back(of(place));
    }
    return answers;
  };
}

/// Rises to its only top, then falls; by how much is drawn.
std::vector<double> drawn_hill(Random& random, std::size_t last, std::size_t top) {
  std::vector<double> hill(last + 1, 0);
  std::uniform_real_distribution<double> step(0.01, 1);
  for (std::size_t i = top; i-- > 0;) hill[i] = hill[i + 1] - step(random);
  for (std::size_t i = top + 1; i <= last; ++i) hill[i] = hill[i - 1] - step(random);
  return hill;
}

}  // namespace

TEST_CASE("goal search: the threshold of a condition that changes once is that of all places") {
  Random random(1);
  for (int run = 0; run < test::random_runs(5000, 500); ++run) {
    const std::size_t last = drawn(random, 0, 300), points = drawn(random, 2, 9);
    const std::size_t change = drawn(random, 0, last + 1);  // from there on it holds, or no longer
    const bool holds_above = drawn(random, 0, 1) == 1;
    const auto holds = [&](std::size_t place) { return (place >= change) == holds_above; };
    std::set<std::size_t> asked;
    const ThresholdFound found =
        find_threshold(last, points, asked_once<GoalSide>(asked, last, [&](std::size_t p) {
                         return GoalSide{holds(p), true};
                       }));
    std::vector<GoalRange> all;  // by looking at every place
    for (std::size_t p = 0; p <= last; ++p)
      if (holds(p)) {
        if (all.empty()) all.push_back({p, p});
        all.back().last = p;
      }
    CAPTURE(last, points, change, holds_above);
    REQUIRE(found.ranges == all);
    REQUIRE(found.changes == (change > 0 && change <= last ? 1U : 0U));
    REQUIRE_FALSE(found.noise);
    // The points, then one for each halving of the gap between two of them.
    const double gap = std::ceil(static_cast<double>(last) / static_cast<double>(points - 1)) + 1;
    REQUIRE(static_cast<double>(asked.size()) <= static_cast<double>(points) + std::ceil(std::log2(gap)) + 1);
  }
}

TEST_CASE("goal search: several ranges wider than the points' distance are all found, with their ends") {
  Random random(2);
  for (int run = 0; run < test::random_runs(2000, 200); ++run) {
    const std::size_t points = drawn(random, 4, 12), distance = drawn(random, 2, 30),
                      last = (points - 1) * distance;
    std::vector<bool> holds;  // stretches longer than the distance between points: each has a point in it
    for (bool side = drawn(random, 0, 1) == 1; holds.size() <= last; side = !side)
      holds.resize(holds.size() + drawn(random, distance + 1, 3 * distance), side);
    holds.resize(last + 1);
    std::vector<GoalRange> all;
    for (std::size_t p = 0; p <= last; ++p) {
      if (!holds[p]) continue;
      if (p == 0 || !holds[p - 1]) all.push_back({p, p});
      all.back().last = p;
    }
    // The last stretch is cut and may be shorter; the last place is a point, so that it has one all the same.
    std::set<std::size_t> asked;
    const ThresholdFound found =
        find_threshold(last, points, asked_once<GoalSide>(asked, last, [&](std::size_t p) {
                         return GoalSide{holds[p], true};
                       }));
    REQUIRE(found.ranges == all);
  }
}

TEST_CASE("goal search: a range between two points is found, with its ends, from any place of it") {
  Random random(4);
  for (int run = 0; run < test::random_runs(2000, 200); ++run) {
    const std::size_t distance = drawn(random, 4, 60), points = drawn(random, 2, 9),
                      last = (points - 1) * distance;
    const std::size_t gap = drawn(random, 0, points - 2) * distance;
    const std::size_t first = gap + drawn(random, 1, distance - 1),
                      end = drawn(random, first, gap + distance - 1);
    const auto side_of = [&](std::size_t p) { return GoalSide{first <= p && p <= end, true}; };
    std::set<std::size_t> without, with;
    REQUIRE(find_threshold(last, points, asked_once<GoalSide>(without, last, side_of)).ranges.empty());
    const std::vector<std::size_t> also = {drawn(random, first, end)};
    const ThresholdFound found =
        find_threshold(last, points, asked_once<GoalSide>(with, last, side_of), also);
    CAPTURE(last, points, first, end, also);
    REQUIRE(found.ranges == std::vector<GoalRange>{{first, end}});
    REQUIRE(found.changes == 2);
  }
}

TEST_CASE("goal search: with noise it ends between places on both sides, next to each other or both open") {
  Random random(3);
  for (int run = 0; run < test::random_runs(3000, 300); ++run) {
    const std::size_t last = drawn(random, 1, 400);
    const double limit = std::uniform_real_distribution<double>(0, static_cast<double>(last))(random);
    const double noise = std::uniform_real_distribution<double>(0, 30)(random);
    std::vector<double> curve;  // falls by 1 a place, and is off by up to `noise`
    for (std::size_t p = 0; p <= last; ++p)
      curve.push_back(static_cast<double>(last - p) +
                      std::uniform_real_distribution<double>(-noise, noise)(random));
    std::set<std::size_t> asked;
    const ThresholdFound found =
        find_threshold(last, 5, asked_once<GoalSide>(asked, last, [&](std::size_t p) {
                         return GoalSide{curve[p]<limit, std::abs(curve[p] - limit)> noise};
                       }));
    // The noiseless curve crosses the limit at last - limit: each end of a range is within the noise of it.
    const double crossing = static_cast<double>(last) - limit;
    for (const GoalRange& range : found.ranges) {
      CAPTURE(last, limit, noise, range.first, range.last);
      REQUIRE(curve[range.first] < limit);
      REQUIRE(static_cast<double>(range.first) > crossing - noise);
      const auto at = found.asked.find(range.first);
      if (at == found.asked.begin()) continue;
      const auto before = std::prev(at);
      REQUIRE_FALSE(before->second.holds);
      REQUIRE(static_cast<double>(before->first) < crossing + noise);
      REQUIRE((at->first - before->first == 1 || (!at->second.sure && !before->second.sure)));
    }
  }
}

TEST_CASE("goal search: the best place of a curve with one top is the best of all places") {
  Random random(4);
  std::size_t most = 0;
  for (int run = 0; run < test::random_runs(5000, 500); ++run) {
    const std::size_t last = drawn(random, 0, 250), top = drawn(random, 0, last),
                      points = drawn(random, 2, 9);
    const std::vector<double> hill = drawn_hill(random, last, top);
    std::set<std::size_t> asked;
    const auto found = find_best(last, points,
                                 asked_once<std::optional<double>>(
                                     asked, last, [&](std::size_t p) { return std::optional(hill[p]); }));
    CAPTURE(last, top, points);
    REQUIRE(found.has_value());
    REQUIRE(found->place == top);
    REQUIRE(found->value == *std::max_element(hill.begin(), hill.end()));
    REQUIRE(found->unimodal);
    most = std::max(most, asked.size());
  }
  // 9 points, then a bracket of 250 places, which each probe cuts to 0.618 at least once begun: log(250) /
  // log(1.618) is 11.5, and two more where the best stands at the bracket's end.
  CHECK(most <= 9 + 14 + 2);
}

TEST_CASE("goal search: places without a value are passed over, on either side or everywhere") {
  Random random(5);
  for (int run = 0; run < test::random_runs(2000, 200); ++run) {
    const std::size_t last = drawn(random, 8, 200), top = drawn(random, 0, last);
    const std::vector<double> hill = drawn_hill(random, last, top);
    const std::size_t refused = drawn(random, 0, last / 2);  // below it nothing runs: a budget too small
    std::set<std::size_t> asked;
    const auto found = find_best(last, 9, asked_once<std::optional<double>>(asked, last, [&](std::size_t p) {
                                   return p < refused ? std::optional<double>() : std::optional(hill[p]);
                                 }));
    REQUIRE(found.has_value());
    REQUIRE(found->place == std::max(top, refused));
  }
  const auto none = [](const std::vector<std::size_t>& places) {
    return std::vector<std::optional<double>>(places.size());
  };
  CHECK_FALSE(find_best(10, 3, none).has_value());
}

TEST_CASE("goal search: two tops are noticed where points show them") {
  const std::vector<double> tops = {0, 3, 1, 2, 0};
  const auto found = find_best(4, 5, [&](const std::vector<std::size_t>& places) {
    std::vector<std::optional<double>> values;
    for (const std::size_t p : places) values.emplace_back(tops[p]);
    return values;
  });
  CHECK(found->place == 1);
  CHECK_FALSE(found->unimodal);
}

TEST_CASE("goal search: with noise the best is as good as the best of all, less what noise hides") {
  Random random(6);
  for (int run = 0; run < test::random_runs(2000, 200); ++run) {
    const std::size_t last = drawn(random, 2, 250), top = drawn(random, 0, last);
    const double noise = std::uniform_real_distribution<double>(0, 5)(random);
    const auto clean = [&](std::size_t p) {
      return -std::abs(static_cast<double>(p) - static_cast<double>(top));
    };
    std::vector<double> curve;
    for (std::size_t p = 0; p <= last; ++p)
      curve.push_back(clean(p) + std::uniform_real_distribution<double>(-noise, noise)(random));
    std::set<std::size_t> asked;
    const auto found = find_best(last, 5, asked_once<std::optional<double>>(asked, last, [&](std::size_t p) {
                                   return std::optional(curve[p]);
                                 }));
    CAPTURE(last, top, noise, found->place);
    // A comparison that noise turns round is of clean values at most 2 noise apart. It cuts the top off where
    // best and probe stand on one side of it, at most 2 noise from each other: as the probe is at 0.382 of
    // the gap, the top is within 2 / 0.382 = 5.24 noise of the best, and by whole places 3 more. What is the
    // best in the end is no worse by the curve, so at most 2 noise worse without the noise: 7.24 in all.
    REQUIRE(clean(found->place) >= -7.24 * noise - 3);
  }
}

}  // namespace moelab::goal_search_test
