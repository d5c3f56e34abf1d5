#include "sim/results/paired_ranks.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace moelab {
namespace {

Interval paired_difference(const std::vector<double>& of, const std::vector<double>& less) {
  std::vector<double> differences;
  for (std::size_t seed = 0; seed < of.size(); ++seed) differences.push_back(of[seed] - less[seed]);
  return interval95(differences);
}

/// The ranks that intervals to all others leave to thing `i`.
void set_range(const std::vector<std::vector<double>>& values, std::size_t i, PairedRank& rank) {
  rank.best_rank = 1;
  rank.worst_rank = values.size();
  for (std::size_t other = 0; other < values.size(); ++other) {
    if (other == i) continue;
    const Interval apart = paired_difference(values[i], values[other]);
    if (apart.mean > apart.half_width) ++*rank.best_rank;
    if (apart.mean < -apart.half_width) --*rank.worst_rank;
  }
}

/// `order`: of things, by place.
void share_places(const std::vector<std::size_t>& order, std::vector<PairedRank>& ranks) {
  for (std::size_t first = 0, end = 0; first < order.size(); first = end) {
    while (end < order.size() && ranks[order[end]].mean == ranks[order[first]].mean) ++end;
    for (std::size_t place = first; place < end; ++place) {
      ranks[order[place]].rank = first + 1;
      ranks[order[place]].mean_rank = static_cast<double>(first + 1 + end) / 2;
    }
  }
}

bool seeds_matter(const std::vector<std::vector<double>>& values) {
  return std::any_of(values.begin(), values.end(), [](const std::vector<double>& of) {
    return std::any_of(of.begin(), of.end(), [&](double value) { return value != of.front(); });
  });
}

}  // namespace

std::vector<PairedRank> rank_paired(const std::vector<std::vector<double>>& values) {
  std::vector<PairedRank> ranks(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].empty() || values[i].size() != values.front().size())
      throw std::logic_error("paired values are not as many for each");
    ranks[i].mean = mean(values[i]);
  }
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return ranks[a].mean < ranks[b].mean; });
  const bool matter = seeds_matter(values);
  for (std::size_t place = 0; place < order.size(); ++place) {
    PairedRank& rank = ranks[order[place]];
    rank.place = place + 1;
    rank.behind = paired_difference(values[order[place]], values[order.front()]);
    if (matter) set_range(values, order[place], rank);
  }
  share_places(order, ranks);
  return ranks;
}

}  // namespace moelab
