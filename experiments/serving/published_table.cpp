#include "experiments/serving/published_table.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "models/units.hpp"
#include "sim/results/statistics.hpp"
#include "sim/results/text_table.hpp"
#include "sim/version.hpp"

namespace moelab::published {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kServingFormat = 1;
constexpr std::array<const char*, 3> kHeadlineNames{"throughput", "ttft", "tpot"};

/// As README.md here asks it.
constexpr const char* kServingQuestion =
    "vLLM's and SGLang's makers and users publish what their servers do under load: requests and tokens a "
    "second, times to the first token and a token. How near does this project come to those figures from "
    "data "
    "sheets and the runtime's constants?";

struct ErrorSamples {
  std::array<std::vector<double>, 3> of;
  void add(const PredictedServing& row) {
    for (std::size_t i = 0; i < of.size(); ++i)
      if (const auto pair = headline(kHeadlines[i], row)) of[i].push_back(pair->error());
  }
};

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

ServingErrors summed_up(const std::string& name, const ErrorSamples& samples) {
  ServingErrors errors;
  errors.name = name;
  for (std::size_t i = 0; i < errors.of.size(); ++i) {
    std::vector<double> values = samples.of[i];
    if (values.empty()) continue;
    errors.of[i].rows = values.size();
    errors.of[i].signed_median = median_of(values);
    for (double& value : values) value = std::abs(value);
    errors.of[i].absolute = median_of(values);
  }
  return errors;
}

std::string plain_text(std::string text) {
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

std::string percent_text(double share, bool sign) {
  const double points = std::round(100 * share) + 0.0;  // no "-0"
  return (sign && points >= 0 ? "+" : "") + fixed(points, 0) + " %";
}

std::string machine_text(const ServingPoint& p) {
  std::string text = std::to_string(p.gpus) + " " + p.gpu;
  if (p.data_parallel > 1) text += " dp";
  if (p.expert_parallel) text += " ep";
  return plain_text(text);
}

std::string figure_text(double value) {
  return fixed(value, value < 100 ? 1 : 0);
}

void add_figures(const PredictedServing& row, std::vector<std::string>& cells) {
  for (const Headline which : kHeadlines) {
    const auto pair = row.answered() ? headline(which, row) : std::nullopt;
    if (!pair) {
      cells.insert(cells.end(), {"-", "-", "-"});
      continue;
    }
    cells.insert(cells.end(), {figure_text(pair->measured), figure_text(pair->predicted),
                               percent_text(pair->error(), true)});
  }
}

std::string rows_text(const std::vector<PredictedServing>& rows) {
  std::vector<std::vector<std::string>> table{{"id", "runtime", "model", "weights", "machine", "load",
                                               "tokens/s", "predicted", "off", "TTFT ms", "predicted", "off",
                                               "TPOT ms", "predicted", "off"}};
  for (const PredictedServing& row : rows) {
    if (!row.answered()) continue;
    const ServingPoint& p = *row.point;
    std::vector<std::string> cells{plain_text(p.id) + (p.graded() ? "" : " (C)"),
                                   plain_text(p.runtime),
                                   plain_text(p.model),
                                   plain_text(p.weights),
                                   machine_text(p),
                                   load_text(p)};
    add_figures(row, cells);
    table.push_back(std::move(cells));
  }
  return align_columns(table, 6);
}

std::string unanswered_text(const std::vector<PredictedServing>& rows) {
  std::string text;
  for (const PredictedServing& row : rows)
    if (!row.answered())
      text += "not predicted: " + plain_text(row.point->id) + " (" + plain_text(row.point->model) + " on " +
              machine_text(*row.point) + "): " + plain_text(row.why_not) + "\n";
  return text;
}

std::string errors_text(const std::string& title, const std::vector<ServingErrors>& groups) {
  std::vector<std::vector<std::string>> table{
      {title, "rows", "tokens/s", "median", "rows", "TTFT", "median", "rows", "TPOT", "median"}};
  for (const ServingErrors& group : groups) {
    std::vector<std::string> cells{plain_text(group.name)};
    for (const FigureErrors& e : group.of)
      if (e.rows == 0)
        cells.insert(cells.end(), {"0", "-", "-"});
      else
        cells.insert(cells.end(), {std::to_string(e.rows), percent_text(e.absolute, false),
                                   percent_text(e.signed_median, true)});
    table.push_back(std::move(cells));
  }
  return align_columns(table, 1);
}

struct Grouping {
  const char* title;
  std::function<std::string(const PredictedServing&)> name_of;
};

std::string generation_of(const std::string& gpu) {
  return gpu.substr(0, gpu.find('-'));
}

std::string lengths_text(const ServingPoint& p) {
  static constexpr std::array<const char*, 3> kShapes{"all alike", "uniform", "ShareGPT"};
  return kShapes[static_cast<std::size_t>(p.shape)];
}

std::vector<Grouping> groupings() {
  return {{"by runtime", [](const PredictedServing& r) { return r.point->runtime; }},
          {"by GPU", [](const PredictedServing& r) { return generation_of(r.point->gpu); }},
          {"by model", [](const PredictedServing& r) { return r.point->model; }},
          {"by load",
           [](const PredictedServing& r) {
             if (r.point->users) return *r.point->users == 1 ? "one user" : "users, each after its answer";
             return r.point->rate ? "at a rate" : "all at once";
           }},
          {"by lengths", [](const PredictedServing& r) { return lengths_text(*r.point); }}};
}

std::string sentence(const ServingErrors& all, const std::vector<PredictedServing>& rows) {
  const auto counted = std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row.counted(); });
  std::string text = "Published runs: " + std::to_string(rows.size()) +
                     ", of them predicted and counted: " + std::to_string(counted) + ".";
  static constexpr std::array<const char*, 3> kWords{"tokens a second", "the time to the first token",
                                                     "the time a token"};
  const char* joint = " In the median (of so many) off by ";
  for (std::size_t i = 0; i < all.of.size(); ++i) {
    if (all.of[i].rows == 0) continue;
    text += joint + percent_text(all.of[i].absolute, false) + " in " + kWords[i] + " (" +
            std::to_string(all.of[i].rows) + ")";
    joint = ", ";
  }
  if (joint[0] == ',') text += ".";
  return text;
}

Json optional_json(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json latency_json(const LatencyFigures& f) {
  return {
      {"mean", optional_json(f.mean)}, {"median", optional_json(f.median)}, {"p99", optional_json(f.p99)}};
}

Json figures_json(const ServingFigures& f) {
  return {{"requests_per_s", optional_json(f.requests_per_s)},
          {"output_tokens_per_s", optional_json(f.output_tokens_per_s)},
          {"ttft_ms", latency_json(f.ttft)},
          {"tpot_ms", latency_json(f.tpot)},
          {"itl_ms", latency_json(f.itl)}};
}

Json serving_row_json(const PredictedServing& row) {
  const ServingPoint& p = *row.point;
  Json errors = Json::object();
  for (std::size_t i = 0; i < kHeadlineNames.size(); ++i) {
    const auto pair = row.answered() ? headline(kHeadlines[i], row) : std::nullopt;
    errors[kHeadlineNames[i]] = pair ? Json(pair->error()) : Json(nullptr);
  }
  return {{"id", p.id},
          {"source", p.source},
          {"runtime", p.runtime},
          {"version", p.version},
          {"model", p.model},
          {"weights", p.weights},
          {"machine", machine_text(p)},
          {"load", load_text(p)},
          {"lengths", lengths_text(p)},
          {"grade", std::string(1, p.grade)},
          {"measured", figures_json(p.measured)},
          {"predicted", row.answered() ? figures_json(row.predicted) : Json(nullptr)},
          {"error", std::move(errors)},
          {"counted", row.counted()},
          {"why_not", row.answered() ? Json(nullptr) : Json(row.why_not)}};
}

Json group_row_json(const std::string& by, const ServingErrors& group) {
  Json json{{"by", by}, {"name", group.name}};
  for (std::size_t i = 0; i < kHeadlineNames.size(); ++i) {
    const FigureErrors& e = group.of[i];
    json[kHeadlineNames[i]] =
        e.rows == 0
            ? Json(nullptr)
            : Json{{"rows", e.rows}, {"median_error", e.absolute}, {"median_signed_error", e.signed_median}};
  }
  return json;
}

}  // namespace

std::string load_text(const ServingPoint& point) {
  if (point.users) return std::to_string(*point.users) + (*point.users == 1 ? " user" : " users");
  return point.rate ? shortest_text(*point.rate) + " a second" : std::to_string(point.requests) + " at once";
}

std::vector<ServingErrors> serving_errors(
    const std::vector<PredictedServing>& rows,
    const std::function<std::string(const PredictedServing&)>& name_of) {
  std::map<std::string, ErrorSamples> samples;
  for (const PredictedServing& row : rows)
    if (row.counted()) samples[name_of(row)].add(row);
  std::vector<ServingErrors> groups;
  for (const auto& [name, of_name] : samples) groups.push_back(summed_up(name, of_name));
  return groups;
}

ServingErrors all_serving_errors(const std::vector<PredictedServing>& rows) {
  ErrorSamples samples;
  for (const PredictedServing& row : rows)
    if (row.counted()) samples.add(row);
  return summed_up("all", samples);
}

std::string serving_text(const std::vector<PredictedServing>& rows) {
  const ServingErrors all = all_serving_errors(rows);
  std::string text = sentence(all, rows) + "\n\n" + rows_text(rows) + "\n" + unanswered_text(rows) + "\n" +
                     errors_text("median error without sign, and with it", {all});
  for (const Grouping& grouping : groupings())
    text += "\n" + errors_text(grouping.title, serving_errors(rows, grouping.name_of));
  return text;
}

Json serving_document(const std::vector<PredictedServing>& rows, const std::vector<std::string>& files) {
  const ServingErrors all = all_serving_errors(rows);
  Json names = Json::array(), groups = Json::array({group_row_json("all", all)}), list = Json::array();
  for (const std::string& file : files) names.push_back(std::filesystem::path(file).filename().string());
  for (const Grouping& grouping : groupings())
    for (const ServingErrors& group : serving_errors(rows, grouping.name_of))
      groups.push_back(group_row_json(grouping.title, group));
  for (const PredictedServing& row : rows) list.push_back(serving_row_json(row));
  return {{"serving_format", kServingFormat}, {"version", program_version()}, {"question", kServingQuestion},
          {"answer", sentence(all, rows)},    {"files", std::move(names)},    {"groups", std::move(groups)},
          {"rows", std::move(list)}};
}

}  // namespace moelab::published
