#include "cli/repeated_points.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "cli/results_rows.hpp"

namespace moelab::cli {
namespace {

using Axes = std::vector<std::pair<std::string, std::string>>;

Axes without_seed(Axes axes) {
  std::erase_if(axes, [](const auto& axis) { return axis.first == kSeedAxis; });
  return axes;
}

/// The first of the repeats, with means for its metrics.
StoredOutcome mean_of(const std::vector<StoredOutcome>& repeats) {
  StoredOutcome mean = repeats.front();
  for (std::size_t m = 0; m < kMetricColumns.size(); ++m) {
    double sum = 0;
    int count = 0;
    for (const StoredOutcome& o : repeats)
      if (o.metrics[m]) sum += *o.metrics[m], ++count;
    mean.metrics[m] = count > 0 ? std::optional(sum / count) : std::nullopt;
  }
  return mean;
}

}  // namespace

std::vector<RepeatedPoint> over_seeds(std::vector<StoredOutcome> points) {
  std::vector<RepeatedPoint> groups;
  std::map<std::tuple<Axes, std::string, std::string>, std::size_t> places;
  for (StoredOutcome& o : points) {
    const auto [found, is_new] =
        places.try_emplace({without_seed(o.point.axes), o.point.series, o.point.system}, groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].repeats.push_back(std::move(o));
  }
  return groups;
}

std::vector<RepeatedPoint> each_alone(std::vector<StoredOutcome> points) {
  std::vector<RepeatedPoint> groups;
  for (StoredOutcome& o : points) groups.emplace_back().repeats.push_back(std::move(o));
  return groups;
}

void sort_by(std::vector<RepeatedPoint>& points, const std::string& column, bool falling) {
  std::vector<StoredOutcome> means;
  for (const RepeatedPoint& point : points) means.push_back(mean_of(point.repeats));
  std::vector<RepeatedPoint> sorted;
  for (const std::size_t place : places_sorted_by(means, column, falling))
    sorted.push_back(std::move(points[place]));
  points = std::move(sorted);
}

std::string numbers_text(const RepeatedPoint& point) {
  std::vector<std::uint64_t> numbers;
  for (const StoredOutcome& o : point.repeats) numbers.push_back(o.point.number);
  std::sort(numbers.begin(), numbers.end());
  const std::size_t last = numbers.size() - 1;
  if (last > 0 && numbers[last] - numbers[0] == last)
    return std::to_string(numbers[0]) + "–" + std::to_string(numbers[last]);
  std::string text;
  for (const std::uint64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

std::string status_text(const RepeatedPoint& point) {
  std::vector<std::pair<std::string, std::size_t>> counts;
  for (const StoredOutcome& o : point.repeats) {
    const std::string status = status_of(o);
    const auto found =
        std::find_if(counts.begin(), counts.end(), [&](const auto& c) { return c.first == status; });
    if (found == counts.end())
      counts.emplace_back(status, 1);
    else
      ++found->second;
  }
  if (counts.size() == 1) return counts.front().first;
  std::string text;
  for (const auto& [status, count] : counts)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + status;
  return text;
}

}  // namespace moelab::cli
