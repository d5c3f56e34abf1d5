// Published measurements beside predictions. usage: world_rows [POINTS.csv ...] [--format table|json] [--fit]
// README.md here says what the columns mean and how far the predictions are off.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "experiments/world/arguments.hpp"
#include "experiments/world/world_fit.hpp"
#include "experiments/world/world_points.hpp"
#include "sim/results/statistics.hpp"
#include "sim/results/text_table.hpp"

namespace moelab::world {
namespace {

struct Row {
  const Point* point;
  Question question;
  Prediction prediction;
  double null_value = 0;  // with an efficiency that its source had no part in
  double apart = 0;       // predicted by constants that its source had no part in
  bool answered() const { return question.why_not.empty(); }
  double error() const { return prediction.value / point->value - 1; }
};

/// What the null model would need to be right.
double efficiency(const Row& row) {
  const double ratio = row.point->value / row.null_value;
  return row.point->metric.ends_with("_ms") ? 1 / ratio : ratio;
}

std::vector<Answerable> answerable(const std::vector<Row>& rows) {
  std::map<std::pair<std::string, bool>, int> alike;  // by source and whether it is of prompts
  const auto kind = [](const Row& row) { return std::pair(row.point->source, row.question.prefill); };
  for (const Row& row : rows)
    if (row.answered() && row.point->counted()) ++alike[kind(row)];
  std::vector<Answerable> list;
  for (const Row& row : rows)
    if (row.answered()) list.push_back({row.point, &row.question, weight_of(*row.point, alike[kind(row)])});
  return list;
}

/// Each runtime's null model has one efficiency for decoding and one for prompts, where the CPU takes part
/// others: the median of what was measured over what efficiency 1 gives, over the counted rows of other
/// sources; where there are none, over those of other runtimes.
void fill_null(std::vector<Row>& rows) {
  const auto kind = [](const Row& row) {
    const bool cpu = row.question.group.find("CPU") != std::string::npos;
    return std::string(row.question.prefill ? "prefill" : "decode") + (cpu ? " cpu" : "");
  };
  for (Row& row : rows)
    if (row.answered()) row.null_value = null_prediction(*row.point, row.question);
  std::vector<double> efficiencies;
  for (const Row& row : rows) {
    std::vector<double> same, any;
    for (const Row& other : rows) {
      if (!row.answered() || !other.answered() || !other.point->counted()) continue;
      if (other.point->source == row.point->source || kind(other) != kind(row)) continue;
      any.push_back(efficiency(other));
      if (other.question.runtime == row.question.runtime) same.push_back(any.back());
    }
    std::vector<double>& of = same.empty() ? any : same;
    std::sort(of.begin(), of.end());
    efficiencies.push_back(of.empty() ? 1 : quantile(of, 0.5));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool time = rows[i].point->metric.ends_with("_ms");
    rows[i].null_value *= time ? 1 / efficiencies[i] : efficiencies[i];
  }
}

/// Sources that are left out together: each alone where there are few.
constexpr std::size_t kMostFolds = 12;

/// Of each source the rows, by constants fitted to others.
void fill_apart(std::vector<Row>& rows, const Runtimes& runtimes) {
  std::map<std::string, std::size_t> fold_of;
  for (const Row& row : rows)
    if (row.answered()) fold_of.emplace(row.point->source, fold_of.size() % kMostFolds);
  const std::vector<Answerable> all = answerable(rows);
  for (std::size_t fold = 0; fold < std::min(kMostFolds, fold_of.size()); ++fold) {
    std::vector<Answerable> others;
    for (const Answerable& a : all)
      if (fold_of.at(a.point->source) != fold) others.push_back(a);
    const Runtimes fitted = with(runtimes, fit(runtimes, parameters_of(runtimes), others));
    for (Row& row : rows)
      if (row.answered() && fold_of.at(row.point->source) == fold)
        row.apart = predict(*row.point, row.question, fitted).value;
  }
}

std::vector<Row> predicted_rows(const std::vector<Point>& points, Runtimes& runtimes) {
  std::vector<Row> rows;
  rows.reserve(points.size());
  for (const Point& point : points) rows.push_back({&point, question_of(point, runtimes), {}});
  for (Row& row : rows)
    if (row.answered()) row.prediction = predict(*row.point, row.question, runtimes);
  fill_null(rows);
  return rows;
}

void print_json(const std::vector<Row>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    nlohmann::ordered_json item;
    item["id"] = row.point->id;
    item["metric"] = row.point->metric;
    item["measured"] = row.point->value;
    item["predicted"] = row.answered() ? nlohmann::ordered_json(row.prediction.value) : nullptr;
    item["error"] = row.answered() ? nlohmann::ordered_json(row.error()) : nullptr;
    item["counted"] = row.answered() && row.point->counted();
    item["group"] = row.question.group;
    item["why_not"] =
        row.answered() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(row.question.why_not);
    list.push_back(std::move(item));
  }
  std::printf("%s\n", list.dump(1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

std::string shown_error(double error) {
  return (error >= 0 ? "+" : "") + fixed(100 * error, 0) + " %";
}

/// A text of the file for the terminal.
std::string plain(std::string text) {
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

void print_rows(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> table{{"id", "model", "weights", "machine", "runtime", "metric",
                                               "measured", "predicted", "error", "bound by"}};
  for (const Row& row : rows) {
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

/// Of one group: absolute errors, sorted, in percent.
struct Errors {
  std::vector<double> own, null, apart;
  std::vector<double>
      factors;  // measured over predicted or the other way, what is more, less 1; source left out
};

std::string quantile_of(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values.empty() ? "-" : fixed(100 * quantile(values, q), 0) + " %";
}
std::string median_of(const std::vector<double>& values) {
  return quantile_of(values, 0.5);
}

/// A table of errors; `names_of`: the lines that a row counts in, "~ " before one that comes last.
void print_errors(const std::vector<Row>& rows, const std::string& title,
                  const std::function<std::vector<std::string>(const Row&)>& names_of) {
  std::map<std::string, Errors> groups;
  for (const Row& row : rows) {
    if (!row.answered() || !row.point->counted()) continue;
    const double ratio = row.apart / row.point->value;
    for (const std::string& name : names_of(row)) {
      Errors& e = groups[name];
      e.own.push_back(std::abs(row.error()));
      e.apart.push_back(std::abs(ratio - 1));
      e.factors.push_back(std::max(ratio, 1 / ratio) - 1);
      e.null.push_back(std::abs(row.null_value / row.point->value - 1));
    }
  }
  std::vector<std::vector<std::string>> table{
      {title, "rows", "predicted", "source left out", "nine in ten", "null model, too", "within 30 %"}};
  for (const auto& [name, e] : groups) {
    const auto near = std::count_if(e.own.begin(), e.own.end(), [](double x) { return x <= 0.3; });
    table.push_back({name.starts_with("~ ") ? name.substr(2) : name, std::to_string(e.own.size()),
                     median_of(e.own), median_of(e.apart), quantile_of(e.factors, 0.9), median_of(e.null),
                     percent(static_cast<double>(near), static_cast<double>(e.own.size())) + " %"});
  }
  std::printf("%s", align_columns(table, 1).c_str());
}

std::string kind_of(const Row& row) {
  return row.question.group.ends_with("decode") ? "decode" : "prefill";
}

/// By what a step is made of, and by runtime.
void print_groups(const std::vector<Row>& rows) {
  print_errors(rows, "median absolute error", [](const Row& row) {
    return std::vector<std::string>{row.question.group, "~ all " + kind_of(row)};
  });
  std::printf("\n");
  print_errors(rows, "by runtime", [](const Row& row) {
    return std::vector<std::string>{row.question.runtime + ", " + kind_of(row)};
  });
}

/// Whether a format makes decoding slower than its bytes do: predicted over measured speed, its sign kept.
void print_formats(const std::vector<Row>& rows) {
  constexpr std::size_t kFewest = 3;  // rows that say anything about a format
  std::map<std::string, std::vector<double>> by_format;
  for (const Row& row : rows) {
    if (!row.answered() || !row.point->counted() || kind_of(row) != "decode") continue;
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
      table.push_back({name, std::to_string(errors.size()), quantile_of(errors, 0.25), median_of(errors),
                       quantile_of(errors, 0.75)});
  std::printf("\n%s", align_columns(table, 1).c_str());
}

void print_fit(const Runtimes& runtimes, const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> table{{"runtime", "constant", "in its file", "fitted"}};
  const std::vector<Parameter> before = parameters_of(runtimes);
  const std::vector<Parameter> after = fit(runtimes, before, answerable(rows));
  for (std::size_t i = 0; i < before.size(); ++i)
    table.push_back({before[i].owner, before[i].name(), shortest_text(before[i].value),
                     fixed(after[i].value, after[i].value < 0.01 ? 8 : 3)});
  std::printf("%s", align_columns(table, 2).c_str());
}

void print_sentence(const std::vector<Row>& rows) {
  const auto unanswered = std::count_if(rows.begin(), rows.end(), [](const Row& r) { return !r.answered(); });
  std::vector<double> decode, prefill;
  for (const Row& row : rows)
    if (row.answered() && row.point->counted())
      (row.question.group.ends_with("decode") ? decode : prefill).push_back(std::abs(row.error()));
  std::printf(
      "Of %zu measurements %zu decode and %zu prefill ones are predicted and counted, with median "
      "absolute errors of %s and %s; %td are shown with the reason why not.\n\n",
      rows.size(), decode.size(), prefill.size(), median_of(decode).c_str(), median_of(prefill).c_str(),
      unanswered);
}

int run(const Arguments& arguments) {
  std::vector<std::string> files = arguments.files;
  if (files.empty()) {
    files.emplace_back(MOELAB_SOURCE_DIR "/../shared/data/world-measured/points.csv");
    if (!std::filesystem::exists(files.front())) {
      std::printf("%s\n", arguments.json
                              ? "[]"
                              : "skipped: the default file of measurements is not beside "
                                "the repository; give one: run.sh experiments/world/collected.csv");
      return 0;
    }
  }
  std::vector<Point> points;
  for (const std::string& file : files)
    for (Point& point : read_points(file)) points.push_back(std::move(point));
  Runtimes runtimes;
  std::vector<Row> rows = predicted_rows(points, runtimes);
  if (arguments.json) {
    print_json(rows);
    return 0;
  }
  print_sentence(rows);
  print_rows(rows);
  fill_apart(rows, runtimes);
  print_groups(rows);
  print_formats(rows);
  if (arguments.fit) {
    std::printf("\n");
    print_fit(runtimes, rows);
  }
  return 0;
}

}  // namespace
}  // namespace moelab::world

int main(int argc, char** argv) {
  try {
    return moelab::world::run(moelab::world::read_arguments(argc, argv, "run.sh"));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}
