// Published measurements beside predictions. usage: world_rows [POINTS.csv ...] [--out FILE.json] [--format
// table|json] [--fit] README.md here says what the columns mean and how far the predictions are off.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/world/arguments.hpp"
#include "experiments/world/world_document.hpp"
#include "experiments/world/world_table.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/results/statistics.hpp"
#include "sim/results/text_table.hpp"
#include "traces/atomic_file.hpp"

namespace moelab::world {
namespace {

std::string shown_error(double error) {
  return (error >= 0 ? "+" : "") + fixed(100 * error, 0) + " %";
}

/// A text of the file for the terminal.
std::string plain(std::string text) {
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

void print_rows(const std::vector<PredictedPoint>& rows) {
  std::vector<std::vector<std::string>> table{{"id", "model", "weights", "machine", "runtime", "metric",
                                               "measured", "predicted", "error", "bound by"}};
  for (const PredictedPoint& row : rows) {
    const Point& p = *row.point;
    std::vector<std::string> cells{
        plain(p.id),     plain(p.model),  plain(p.weights),      plain(p.gpu.empty() ? p.cpu : p.gpu),
        plain(p.engine), plain(p.metric), shortest_text(p.value)};
    if (row.answered()) {
      cells.push_back(fixed(row.prediction.value, row.prediction.value < 100 ? 1 : 0));
      cells.push_back(shown_error(row.error()) + (p.counted() ? "" : " (C)"));
      cells.push_back(row.prediction.bound);
    } else {
      cells.insert(cells.end(), {"-", "-", plain(row.question.why_not)});
    }
    table.push_back(std::move(cells));
  }
  std::printf("%s\n", align_columns(table, 6).c_str());
}

std::string whole_percent(double share) {
  return fixed(100 * share, 0) + " %";
}

std::string quantile_of(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return whole_percent(quantile(values, q));
}

void print_errors(const std::string& title, const std::vector<GroupErrors>& groups) {
  std::vector<std::vector<std::string>> table{
      {title, "rows", "predicted", "source left out", "nine in ten", "null model, too", "within 30 %"}};
  for (const GroupErrors& e : groups)
    table.push_back({e.name, std::to_string(e.rows), whole_percent(e.predicted), whole_percent(e.apart),
                     whole_percent(e.nine_in_ten), whole_percent(e.null_model), percent(e.near, 1) + " %"});
  std::printf("%s", align_columns(table, 1).c_str());
}

/// By what a step is made of, and by runtime.
void print_groups(const std::vector<PredictedPoint>& rows) {
  print_errors("median absolute error", errors_by_group(rows));
  std::printf("\n");
  print_errors("by runtime", errors_by(rows, [](const PredictedPoint& row) {
                 return std::vector<std::string>{row.question.runtime + ", " + row.phase()};
               }));
}

/// Whether a format makes decoding slower than its bytes do: predicted over measured speed, its sign kept.
void print_formats(const std::vector<PredictedPoint>& rows) {
  constexpr std::size_t kFewest = 3;  // rows that say anything about a format
  std::map<std::string, std::vector<double>> by_format;
  for (const PredictedPoint& row : rows) {
    if (!row.counted() || row.phase() != "decode") continue;
    const double ratio = row.apart / row.point->value;
    const double of_speed = row.point->metric.ends_with("_ms") ? 1 / ratio : ratio;
    const bool on_cpu = row.question.group.find("CPU") != std::string::npos;
    by_format[plain(row.point->weights) + (on_cpu ? ", experts by the CPU" : ", all by GPUs")].push_back(
        of_speed - 1);
  }
  std::vector<std::vector<std::string>> table{
      {"decode by weight format", "rows", "one in four below", "median", "one in four above"}};
  for (const auto& [name, errors] : by_format)
    if (errors.size() >= kFewest)
      table.push_back({name, std::to_string(errors.size()), quantile_of(errors, 0.25),
                       quantile_of(errors, 0.5), quantile_of(errors, 0.75)});
  std::printf("\n%s", align_columns(table, 1).c_str());
}

void print_fit(const Runtimes& runtimes, const std::vector<PredictedPoint>& rows) {
  std::vector<std::vector<std::string>> table{{"runtime", "constant", "in its file", "fitted"}};
  const std::vector<Parameter> before = parameters_of(runtimes);
  const std::vector<Parameter> after = fit(runtimes, before, answerable(rows));
  for (std::size_t i = 0; i < before.size(); ++i)
    table.push_back({before[i].owner, before[i].name(), shortest_text(before[i].value),
                     fixed(after[i].value, after[i].value < 0.01 ? 8 : 3)});
  std::printf("%s", align_columns(table, 2).c_str());
}

/// All of these files.
std::vector<Point> points_of(const std::vector<std::string>& files) {
  std::vector<Point> points;
  for (const std::string& file : files)
    for (Point& point : read_points(file)) points.push_back(std::move(point));
  if (points.empty())
    throw InputError(files.front(), "has no measurement; expected a row or more under its header");
  return points;
}

void print_tables(const std::vector<PredictedPoint>& rows, const Runtimes& runtimes, bool fit_anew) {
  std::printf("%s\n\n", answer_of(rows).c_str());
  print_rows(rows);
  print_groups(rows);
  print_formats(rows);
  if (!fit_anew) return;
  std::printf("\n");
  print_fit(runtimes, rows);
}

/// The files that are asked for, or the default one; none where that is not there and tables are asked for.
std::vector<std::string> files_of(const Arguments& arguments) {
  if (!arguments.files.empty()) return arguments.files;
  const std::string usual = MOELAB_SOURCE_DIR "/../shared/data/world-measured/points.csv";
  if (std::filesystem::exists(usual)) return {usual};
  const std::string missing =
      "the default file of measurements is not beside the repository; give one: run.sh "
      "experiments/world/collected.csv";
  if (arguments.json || !arguments.out.empty()) throw InputError("", missing);
  std::printf("skipped: %s\n", missing.c_str());
  return {};
}

int run(const Arguments& arguments) {
  const std::vector<std::string> files = files_of(arguments);
  if (files.empty()) return 0;
  check_result_file(arguments.out, files);
  const std::vector<Point> points = points_of(files);
  std::optional<AtomicFile> result;  // opened now: a place that cannot be written to is said before the work
  if (!arguments.out.empty()) result.emplace(arguments.out);
  Runtimes runtimes;
  std::vector<PredictedPoint> rows = predicted_points(points, runtimes);
  predict_apart(rows, runtimes);
  const std::string document = document_text(world_document(rows, files));
  if (result) {
    result->write(std::as_bytes(std::span(document)));
    result->commit();
  }
  if (arguments.json)
    std::fputs(document.c_str(), stdout);
  else
    print_tables(rows, runtimes, arguments.fit);
  if (!arguments.json && result)
    std::printf("\nresult: %s, which 'moelab report' draws\n", plain(arguments.out).c_str());
  return 0;
}

}  // namespace
}  // namespace moelab::world

int main(int argc, char** argv) {
  try {
    return moelab::world::run(moelab::world::read_arguments(argc, argv, "experiments/world/run.sh",
                                                            {.writes = true, .fits = true}));
  } catch (const std::exception& error) {
    return moelab::world::say_failure(error);
  }
}
