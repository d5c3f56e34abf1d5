#include "cli/plot/point_thinning.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

namespace moelab::plot {
namespace {

constexpr std::size_t most_spots = 2000;

// Marks the extremes of the spots with the given places in `spots`; comparisons with NaN leave things be.
template <typename Iterator>
void keep_extremes(const std::vector<Spot>& spots, Iterator begin, Iterator end, std::vector<bool>& keep) {
  for (const auto member : {&Spot::y, &Spot::low, &Spot::high}) {
    const auto absent = spots.size();
    std::size_t least = absent;
    std::size_t most = absent;
    for (Iterator at = begin; at != end; ++at) {
      const double value = spots[*at].*member;
      if (std::isnan(value)) continue;
      if (least == absent || value < spots[least].*member) least = *at;
      if (most == absent || value > spots[most].*member) most = *at;
    }
    if (least == absent) continue;
    keep[least] = true;
    keep[most] = true;
  }
}

// Calls `run(first, last)` for each stretch of `order` that lies in one column; gaps are in no stretch.
template <typename Run>
void for_each_column(const std::vector<Spot>& spots, const std::vector<std::size_t>& order, Run run) {
  for (std::size_t begin = 0; begin < order.size();) {
    const Spot& first = spots[order[begin]];
    std::size_t end = begin + 1;
    while (!first.gap() && end < order.size() && !spots[order[end]].gap() &&
           std::floor(spots[order[end]].x) == std::floor(first.x))
      ++end;
    if (!first.gap()) run(begin, end);
    begin = end;
  }
}

// One of the spots in each square that holds any.
void keep_squares(const std::vector<Spot>& spots, std::vector<bool>& keep) {
  std::set<std::pair<double, double>> taken;
  for (std::size_t i = 0; i < spots.size(); ++i)
    if (!spots[i].gap() && taken.emplace(std::floor(spots[i].x / 2), std::floor(spots[i].y / 2)).second)
      keep[i] = true;
}

}  // namespace

std::vector<Spot> thinned(std::vector<Spot> spots, Mark mark) {
  if (spots.size() <= most_spots) return spots;
  const bool connected = mark == Mark::line || mark == Mark::level || mark == Mark::step;
  std::vector<std::size_t> order(spots.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<bool> keep(spots.size(), false);
  if (connected) {
    for (std::size_t i = 0; i < spots.size(); ++i) keep[i] = spots[i].gap();
  } else {
    std::erase_if(order, [&](std::size_t i) { return spots[i].gap(); });
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::floor(spots[a].x) < std::floor(spots[b].x);
    });
    if (mark == Mark::dots) keep_squares(spots, keep);
  }
  for_each_column(spots, order, [&](std::size_t begin, std::size_t end) {
    keep_extremes(spots, order.data() + begin, order.data() + end, keep);
    if (connected) keep[order[begin]] = keep[order[end - 1]] = true;
  });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < spots.size(); ++i)
    if (keep[i]) spots[kept++] = spots[i];
  spots.resize(kept);
  return spots;
}

}  // namespace moelab::plot
