#include "cli/load_classes.hpp"

#include <functional>

#include "cli/layer_table.hpp"
#include "cli/load_values.hpp"

namespace moelab::cli {
namespace {

bool is_shown(const ShownLatency& shown) {
  return shown.latency != Latency::itl && shown.latency != Latency::queueing;
}
constexpr std::array<double Summary::*, 3> kPercentiles = {&Summary::p50, &Summary::p95, &Summary::p99};

std::vector<std::string> head(bool level) {
  std::vector<std::string> row = {"by class", "requests/s", "class", "served/s"};
  for (const ShownLatency& shown : kShownLatencies)
    if (is_shown(shown)) row.insert(row.end(), {std::string(shown.title) + " p50", "p95", "p99"});
  if (level) row.insert(row.end(), {"meets %", "goodput/s"});
  return row;
}

using ClassValue = std::function<std::optional<double>(const LoadSample&, const ClassSample&)>;

std::optional<double> class_mean(const LoadPoint& point, std::size_t of_class, const ClassValue& value) {
  return mean_over_seeds(point, [&](const LoadSample& s) -> std::optional<double> {
    return s.classes.empty() ? std::nullopt : value(s, s.classes[of_class]);
  });
}

std::vector<std::string> class_row(const LoadReport& r, const LoadPoint& point, std::size_t of_class,
                                   const std::string& name) {
  std::vector<std::string> row = {one_line(r.runs->scenario().systems[point.system].name),
                                  significant(point.rate), one_line(name)};
  const auto add = [&](double scale, int digits, const ClassValue& value) {
    const std::optional<double> mean = class_mean(point, of_class, value);
    row.push_back(mean ? three_digits(scale * *mean, digits) : "-");
  };
  add(1, 2, [](const LoadSample& s, const ClassSample& c) { return s.a_second(c.answered); });
  for (const ShownLatency& shown : kShownLatencies) {
    if (!is_shown(shown)) continue;
    for (double Summary::*percentile : kPercentiles)
      add(shown.scale, shown.digits, [&](const LoadSample&, const ClassSample& c) -> std::optional<double> {
        const Summary* const summary = c.of(shown.latency);
        return summary == nullptr ? std::nullopt : std::optional(summary->*percentile);
      });
  }
  if (r.runs->level().clauses.empty()) return row;
  const auto met =
      class_mean(point, of_class, [](const LoadSample&, const ClassSample& c) { return c.met_share(); });
  row.push_back(met ? fixed(100 * *met, 1) : "-");
  add(1, 2, [](const LoadSample& s, const ClassSample& c) { return s.a_second(c.good); });
  return row;
}

}  // namespace

TextTable load_class_table(const LoadReport& r) {
  std::vector<std::vector<std::string>> rows = {head(!r.runs->level().clauses.empty())};
  const std::vector<std::string> names = class_names(r.runs->scenario().workload);
  for (const LoadPoint& point : r.points)
    for (std::size_t i = 0; i < names.size(); ++i) rows.push_back(class_row(r, point, i, names[i]));
  return {rows};
}

}  // namespace moelab::cli
