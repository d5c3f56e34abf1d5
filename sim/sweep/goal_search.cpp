#include "sim/sweep/goal_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace moelab {
namespace {

/// `points` of 0 .. last, or all where there are not so many.
std::vector<std::size_t> spread(std::size_t last, std::size_t points) {
  std::vector<std::size_t> places;
  const std::size_t count = std::min(points, last + 1);
  for (std::size_t i = 0; i < count; ++i) places.push_back(count == 1 ? 0 : i * last / (count - 1));
  return places;
}

/// Places between neighbours on different sides that can still be told apart.
std::vector<std::size_t> between_sides(const std::map<std::size_t, GoalSide>& asked, bool& noise) {
  std::vector<std::size_t> middles;
  noise = false;
  for (auto left = asked.begin(), right = std::next(left); right != asked.end(); ++left, ++right) {
    if (left->second.holds == right->second.holds || right->first - left->first == 1) continue;
    if (!left->second.sure && !right->second.sure)
      noise = true;
    else
      middles.push_back(left->first + (right->first - left->first) / 2);
  }
  return middles;
}

void enter_ranges(ThresholdFound& found) {
  bool before = false;
  for (const auto& [place, side] : found.asked) {
    if (place != found.asked.begin()->first && side.holds != before) ++found.changes;
    if (side.holds && !before) found.ranges.push_back({place, place});
    if (side.holds) found.ranges.back().last = place;
    before = side.holds;
  }
}

/// The values that were asked for.
class Values {
 public:
  explicit Values(const AskValues& ask) : ask_(ask) {}

  void ask(const std::vector<std::size_t>& places) {
    const std::vector<std::optional<double>> values = ask_(places);
    for (std::size_t i = 0; i < places.size(); ++i) known_[places[i]] = values[i];
  }
  const std::map<std::size_t, std::optional<double>>& known() const { return known_; }
  double at(std::size_t place) {
    if (!known_.contains(place)) ask({place});
    return known_.at(place).value_or(-std::numeric_limits<double>::infinity());
  }
  bool has(std::size_t place) const { return known_.at(place).has_value(); }

 private:
  const AskValues& ask_;
  std::map<std::size_t, std::optional<double>> known_;
};

/// The best place that was asked for, with those beside it.
struct Bracket {
  std::size_t low = 0, best = 0, high = 0;
};

Bracket bracket_of(Values& values) {
  const auto& known = values.known();
  auto best = known.begin();
  for (auto it = known.begin(); it != known.end(); ++it)
    if (values.at(it->first) > values.at(best->first)) best = it;
  const auto after = std::next(best);
  return {best == known.begin() ? best->first : std::prev(best)->first, best->first,
          after == known.end() ? best->first : after->first};
}

/// Within the larger gap, at the golden section of it as seen from the best.
std::size_t probe_of(const Bracket& b) {
  const double section = (3 - std::sqrt(5.0)) / 2;
  const std::size_t left = b.best - b.low, right = b.high - b.best;
  const std::size_t gap = std::max(left, right);
  const auto part =
      std::clamp(static_cast<std::size_t>(section * static_cast<double>(gap)), std::size_t{1}, gap - 1);
  return right >= left ? b.best + part : b.best - part;
}

bool rises_then_falls(Values& values) {
  bool falls = false;
  double before = -std::numeric_limits<double>::infinity();
  const auto known = values.known();
  for (const auto& [place, value] : known) {
    if (!value) continue;
    const double here = *value;
    if (here > before && falls) return false;
    falls |= here < before;
    before = here;
  }
  return true;
}

}  // namespace

ThresholdFound find_threshold(std::size_t last, std::size_t points, const AskSides& ask,
                              const std::vector<std::size_t>& also) {
  ThresholdFound found;
  std::vector<std::size_t> places = spread(last, points);
  places.insert(places.end(), also.begin(), also.end());
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  for (; !places.empty(); places = between_sides(found.asked, found.noise)) {
    const std::vector<GoalSide> sides = ask(places);
    for (std::size_t i = 0; i < places.size(); ++i) found.asked[places[i]] = sides[i];
  }
  enter_ranges(found);
  return found;
}

std::optional<BestFound> find_best(std::size_t last, std::size_t points, const AskValues& ask) {
  Values values(ask);
  values.ask(spread(last, points));
  BestFound found;
  for (;;) {
    const Bracket b = bracket_of(values);
    found.place = b.best;
    if (!values.has(b.best)) return std::nullopt;
    if (b.best - b.low <= 1 && b.high - b.best <= 1) break;
    values.ask({probe_of(b)});
  }
  found.value = values.at(found.place);
  found.unimodal = rises_then_falls(values);
  return found;
}

}  // namespace moelab
