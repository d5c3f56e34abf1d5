#include "cli/results_report.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

#include "cli/layer_table.hpp"
#include "models/json.hpp"
#include "sim/results/request_file.hpp"
#include "sim/results/text_table.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

/// A metric of the table that people read.
struct ShownMetric {
  const char* heading;
  const char* column;
  double factor;
  int digits;
};
constexpr std::array<ShownMetric, 4> kShownMetrics = {{{"TTFT s", "ttft_s", 1, 2},
                                                       {"TPOT ms", "tpot_s", 1e3, 1},
                                                       {"tokens/s", "throughput_tokens_per_s", 1, 2},
                                                       {"end-to-end s", "end_to_end_s", 1, 1}}};

std::optional<double> metric_of(const StoredOutcome& o, std::string_view column) {
  for (std::size_t m = 0; m < kMetricColumns.size(); ++m)
    if (kMetricColumns[m].name == column) return o.metrics[m];
  return std::nullopt;
}

/// The mean over those that have the metric, with the least and the most where they do not read the same.
std::string metric_text(const std::vector<StoredOutcome>& repeats, const ShownMetric& shown) {
  std::vector<double> values;
  for (const StoredOutcome& o : repeats)
    if (const std::optional<double> value = metric_of(o, shown.column)) values.push_back(*value);
  if (values.empty()) return "-";
  const auto text = [&](double value) { return three_digits(shown.factor * value, shown.digits); };
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const std::string mean = text(sum / static_cast<double>(values.size()));
  return text(*low) == text(*high) ? mean : mean + " (" + text(*low) + "–" + text(*high) + ")";
}

/// Shown where points do not answer as many: some have other workloads, or requests failed on their clusters.
constexpr const char* kAnswered = "answered";

/// The least and the most requests that those which ran answered; nothing where none ran.
std::optional<std::pair<double, double>> answered_by(const std::vector<StoredOutcome>& repeats) {
  std::optional<std::pair<double, double>> span;
  for (const StoredOutcome& o : repeats) {
    const std::optional<double> answered = metric_of(o, "requests");
    if (!answered || is_unfit(o)) continue;
    if (!span) span.emplace(*answered, *answered);
    span = {std::min(span->first, *answered), std::max(span->second, *answered)};
  }
  return span;
}

bool answers_differ(const std::vector<RepeatedPoint>& points) {
  std::vector<StoredOutcome> all;
  for (const RepeatedPoint& point : points) all.insert(all.end(), point.repeats.begin(), point.repeats.end());
  const auto span = answered_by(all);
  return span && span->first < span->second;
}

std::string answered_text(const std::vector<StoredOutcome>& repeats) {
  const auto span = answered_by(repeats);
  if (!span) return "-";
  return fixed(span->first, 0) + (span->first < span->second ? "–" + fixed(span->second, 0) : "");
}

std::vector<std::string> row_of(const RepeatedPoint& point, const std::vector<std::string>& axes, bool series,
                                bool repeated) {
  const StoredPoint& first = point.repeats.front().point;
  std::vector<std::string> row = {numbers_text(point)};
  for (const std::string& axis : axes) {
    const std::string* const value = axis_value(first, axis);
    row.push_back(value != nullptr ? one_line(*value) : "-");
  }
  if (series) row.push_back(first.series.empty() ? "-" : one_line(first.series));
  row.push_back(one_line(first.system));
  if (repeated) row.push_back(std::to_string(point.repeats.size()));
  row.push_back(status_text(point));
  for (const ShownMetric& shown : kShownMetrics) row.push_back(metric_text(point.repeats, shown));
  return row;
}

std::string cell_text(const ResultCell& cell) {
  if (const auto* const number = std::get_if<double>(&cell)) return exact(*number);
  const auto* const text = std::get_if<std::string>(&cell);
  return text != nullptr ? csv_cell(*text) : "";
}

Json point_json(const StoredOutcome& o) {
  Json axes = Json::object(), settings = Json::array(), metrics = Json::object();
  for (const auto& [name, value] : o.point.axes) axes[name] = value;
  for (const auto& [path, value] : o.point.settings) settings.push_back(Json::array({path, value}));
  for (std::size_t m = 0; m < kMetricColumns.size(); ++m)
    metrics[kMetricColumns[m].name] = o.metrics[m] ? Json(*o.metrics[m]) : Json();
  Json point = {{"point", o.point.number},  {"axes", axes},         {"series", o.point.series},
                {"system", o.point.system}, {"settings", settings}, {"run", o.point.run},
                {"status", status_of(o)}};
  if (!o.run) return point;
  point["metrics"] = metrics;
  point["error"] = o.run->error;
  point["scenario"] = o.run->scenario;
  point["executor"] = o.run->executor;
  point["seed"] = o.run->seed;
  point["version"] = o.run->version;
  point["started"] = o.run->started;
  point["wall_s"] = o.run->wall_s;
  point["cpu_s"] = o.run->cpu_s;
  point["peak_bytes"] = o.run->peak_bytes;
  point["host"] = o.run->host;
  return point;
}

}  // namespace

TextTable sweeps_table(const std::vector<ListedSweep>& sweeps) {
  Rows rows = {{"sweep", "points", "done", "failed", "missing", "created"}};
  for (const auto& [sweep, counts] : sweeps)
    rows.push_back({one_line(sweep.name), std::to_string(sweep.points), std::to_string(counts.done),
                    std::to_string(counts.failed), std::to_string(counts.missing), one_line(sweep.created)});
  return {rows};
}

TextTable points_table(const std::vector<RepeatedPoint>& points) {
  std::vector<StoredOutcome> firsts;
  for (const RepeatedPoint& point : points) firsts.push_back(point.repeats.front());
  std::vector<std::string> axes = axis_names(firsts);
  const auto any = [&](auto&& holds) { return std::any_of(points.begin(), points.end(), holds); };
  const bool repeated = any([](const RepeatedPoint& p) { return p.repeats.size() > 1; });
  const bool series = any([](const RepeatedPoint& p) { return !p.repeats.front().point.series.empty(); });
  if (repeated) std::erase(axes, kSeedAxis);
  Rows rows = {{repeated ? "points" : "point"}};
  for (const std::string& axis : axes) rows[0].push_back(one_line(axis));
  if (series) rows[0].emplace_back("series");
  rows[0].emplace_back("system");
  if (repeated) rows[0].emplace_back("seeds");
  rows[0].emplace_back("status");
  const std::size_t left = rows[0].size();
  for (const ShownMetric& shown : kShownMetrics) rows[0].emplace_back(shown.heading);
  const bool answered = answers_differ(points);
  if (answered) rows[0].emplace_back(kAnswered);
  for (const RepeatedPoint& point : points) {
    rows.push_back(row_of(point, axes, series, repeated));
    if (answered) rows.back().push_back(answered_text(point.repeats));
  }
  return {rows, left};
}

std::string description(const StoredPoint& point) {
  std::string text;
  for (const auto& [name, value] : point.axes) text += name + "=" + value + " ";
  if (!point.series.empty()) text += point.series + " ";
  return one_line(text + point.system);
}

std::string failed_list(const std::vector<StoredOutcome>& points) {
  std::string text;
  for (const StoredOutcome& o : points)
    if (is_failed(o))
      text += "point " + std::to_string(o.point.number) + " (" + description(o.point) + "): " + status_of(o) +
              " after " + fixed(o.run->wall_s, 1) + " s: " + one_line(o.run->error) + "\n";
  return text.empty() ? "no point failed\n" : text;
}

std::string points_csv(const std::vector<StoredOutcome>& points) {
  const std::vector<ResultColumn> columns = result_columns(points);
  std::string text;
  for (const ResultColumn& column : columns) text += (text.empty() ? "" : ",") + csv_cell(column.name);
  text += "\r\n";
  for (const StoredOutcome& o : points) {
    for (std::size_t c = 0; c < columns.size(); ++c) text += (c > 0 ? "," : "") + cell_text(columns[c].of(o));
    text += "\r\n";
  }
  return text;
}

Json sweeps_json(const std::vector<ListedSweep>& sweeps) {
  Json list = Json::array();
  for (const auto& [sweep, counts] : sweeps)
    list.push_back({{"name", sweep.name},
                    {"question", sweep.question},
                    {"created", sweep.created},
                    {"version", sweep.version},
                    {"points", sweep.points},
                    {"done", counts.done},
                    {"failed", counts.failed},
                    {"missing", counts.missing}});
  return list;
}

Json points_json(const std::vector<StoredOutcome>& points) {
  Json list = Json::array();
  for (const StoredOutcome& o : points) list.push_back(point_json(o));
  return list;
}

std::string exact(double value) {
  std::array<char, 64> text{};
  constexpr double kExactIntegers = 9007199254740992.0;  // 2^53: below, a whole number is written as one
  const auto end =
      std::trunc(value) == value && std::abs(value) < kExactIntegers
          ? std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed)
          : std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

}  // namespace moelab::cli
