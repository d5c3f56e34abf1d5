#include "sim/store/store_rows.hpp"

#include <array>
#include <charconv>
#include <system_error>

#include "models/input_error.hpp"
#include "models/json.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;
using sqlite::Database;
using sqlite::Statement;

constexpr std::array<const char*, 4> kStatusNames = {"done", "failed", "timeout", "memory"};

std::string text_of(const Json& json, const Database& database, const std::string& what) {
  try {
    return json.dump();
  } catch (const Json::exception&) {
    throw InputError(database.file().string(), what + " is not UTF-8 and cannot be stored");
  }
}

std::string string_of(const Database& database, const Json& json) {
  if (!json.is_string()) database.fail_damaged("expected texts in the JSON of a point");
  return json.get<std::string>();
}

Json parsed(const Database& database, const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) database.fail_damaged("expected JSON in a point");
  return json;
}

RunStatus status_of(const Database& database, const std::string& name) {
  for (std::size_t s = 0; s < kStatusNames.size(); ++s)
    if (name == kStatusNames[s]) return static_cast<RunStatus>(s);
  database.fail_damaged("expected a run's status to be done, failed, timeout or memory");
}

std::uint64_t seed_of(const Database& database, const std::string& text) {
  std::uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, seed);
  if (error != std::errc() || rest != end) database.fail_damaged("expected digits as a run's seed");
  return seed;
}

}  // namespace

std::string to_string(RunStatus status) {
  return kStatusNames[static_cast<std::size_t>(status)];
}

std::string metric_columns() {
  std::string names;
  for (const MetricColumn& column : kMetricColumns) names += std::string(", run.") + column.name;
  return names;
}

std::string axes_text(const Database& database, const StoredPoint& point) {
  Json axes = Json::object();
  for (const auto& [name, value] : point.axes) axes[name] = value;
  return text_of(axes, database, "an axis of point " + std::to_string(point.number));
}

std::string settings_text(const Database& database, const StoredPoint& point) {
  Json settings = Json::array();
  for (const auto& [path, value] : point.settings) settings.push_back(Json::array({path, value}));
  return text_of(settings, database, "a setting of point " + std::to_string(point.number));
}

StoredPoint read_point(const Database& database, const Statement& row, int first) {
  StoredPoint point;
  point.number = static_cast<std::uint64_t>(row.integer(first));
  const Json axes = parsed(database, row.text(first + 1));
  if (!axes.is_object()) database.fail_damaged("expected an object as a point's axes");
  for (const auto& [name, value] : axes.items()) point.axes.emplace_back(name, string_of(database, value));
  point.series = row.text(first + 2);
  point.system = row.text(first + 3);
  const Json settings = parsed(database, row.text(first + 4));
  if (!settings.is_array()) database.fail_damaged("expected a list as a point's settings");
  for (const Json& pair : settings) {
    if (!pair.is_array() || pair.size() != 2) database.fail_damaged("expected pairs as a point's settings");
    point.settings.emplace_back(string_of(database, pair[0]), string_of(database, pair[1]));
  }
  point.run = row.text(first + 5);
  return point;
}

StoredRun read_run(const Database& database, const Statement& row, int first) {
  StoredRun run;
  run.identity = row.text(first);
  run.status = status_of(database, row.text(first + 1));
  run.error = row.text(first + 2);
  run.scenario = row.text(first + 3);
  run.system = row.text(first + 4);
  run.executor = row.text(first + 5);
  run.seed = seed_of(database, row.text(first + 6));
  run.version = row.text(first + 7);
  run.started = row.text(first + 8);
  run.wall_s = row.real(first + 9);
  run.cpu_s = row.real(first + 10);
  run.peak_bytes = static_cast<std::uint64_t>(row.integer(first + 11));
  run.host = row.text(first + 12);
  return run;
}

StoredMetrics read_metrics(const Statement& row, int first) {
  StoredMetrics metrics;
  for (std::size_t m = 0; m < metrics.size(); ++m)
    if (const int column = first + static_cast<int>(m); !row.is_null(column)) metrics[m] = row.real(column);
  return metrics;
}

}  // namespace moelab
