#include "cli/report/result_files.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "cli/report/load_results.hpp"
#include "cli/report/request_records.hpp"
#include "cli/report/world_results.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "models/lower_case.hpp"
#include "models/text_file.hpp"
#include "sim/results/other_file.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;
using Column = std::vector<std::string>;  // a value for each point

constexpr const char* kExpected =
    "expected a result as 'moelab run --out' writes it, or an array of them, or what 'moelab load --out' or "
    "'experiments/world/run.sh --out' writes, or requests in a .jsonl file";

struct FileResult {
  std::string file;
  Json result;
};

Json parse_json(const std::string& file) {
  const std::string text = read_text_file(file);
  check_json_depth(file, text);
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    if (const std::string kind = kind_of_text(file, text); !kind.empty())
      throw InputError(file, kind + "; " + kExpected);
    throw InputError(file, "is not JSON (" + std::string(said_by_library(error.what())) + "); " + kExpected);
  }
}

/// What keeps this from being a result that this program knows, or "".
std::string problem_of(const Json& result) {
  if (!result.is_object()) return std::string("is ") + result.type_name() + ", not an object";
  if (const std::string newer = newer_format(result); !newer.empty()) return newer;
  for (const char* key : {"scenario", "system", "executor"})
    if (!result.contains(key) || !result[key].is_string()) return std::string("has no text '") + key + "'";
  if (!result.contains("seed") || !result["seed"].is_number_integer()) return "has no whole number 'seed'";
  if (!result.contains("metrics") || !result["metrics"].is_object()) return "has no object 'metrics'";
  return "";
}

/// The same with what was expected; of what another command reads, that command.
std::string told_problem_of(const std::string& file, const Json& result) {
  const std::string problem = problem_of(result);
  if (problem.empty() || problem == newer_format(result)) return problem;
  if (is_load_result(result) || is_world_result(result))
    return "is a result of another command; expected each such file by itself, not in an array";
  const std::string kind = kind_of_document(file, result);
  return (kind.empty() ? problem : kind) + "; " + kExpected;
}

/// All that files hold, by its kind.
struct FileResults {
  std::vector<FileResult> runs, loads, worlds, requests;
  std::vector<std::string> without_requests;  // files of requests that have none, as where no system fits
};

/// Adds a document of a kind of its own, or what is wrong with it.
void add_document(const std::string& file, Json document, const std::string& problem, Problems& problems,
                  std::vector<FileResult>& kind) {
  if (!problem.empty()) return problems.add({file, 0, 0, problem});
  kind.push_back({file, std::move(document)});
}

/// The results of a file: of runs, of one `moelab load`, of published measurements, or of requests.
void add_results(const std::string& file, Problems& problems, FileResults& all) {
  if (lower_case(file).ends_with(".jsonl")) {
    Json records = read_request_records(file);
    std::vector<std::string>& without = all.without_requests;
    if (records["all"] == 0)
      without.push_back(file);
    else
      all.requests.push_back({file, std::move(records)});
    return;
  }
  Json document = parse_json(file);
  if (is_load_result(document)) {
    const std::string problem = problem_of_load(document);
    return add_document(file, std::move(document), problem, problems, all.loads);
  }
  if (is_world_result(document)) {
    const std::string problem = problem_of_world(document);
    return add_document(file, std::move(document), problem, problems, all.worlds);
  }
  if (!document.is_array()) {
    if (const std::string problem = told_problem_of(file, document); !problem.empty())
      return problems.add({file, 0, 0, problem});
    all.runs.push_back({file, std::move(document)});
    return;
  }
  if (document.empty()) return problems.add({file, 0, 0, std::string("is an empty array; ") + kExpected});
  for (std::size_t i = 0; i < document.size(); ++i) {
    if (const std::string problem = told_problem_of(file, document[i]); !problem.empty())
      return problems.add({file, 0, 0, "element " + std::to_string(i + 1) + " " + problem});
    all.runs.push_back({file, std::move(document[i])});
  }
}

/// A text or a whole number; "" where it has neither.
std::string text_at(const Json& result, const char* key) {
  const auto found = result.find(key);
  if (found == result.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  return found->is_number_integer() ? found->dump() : "";
}

/// What `--set` changed, as the provenance has it: "set for this run: PATH = VALUE".
std::vector<std::pair<std::string, std::string>> settings_of(const Json& result) {
  constexpr std::string_view kLead = "set for this run: ", kIs = " = ";
  std::vector<std::pair<std::string, std::string>> settings;
  const auto lines = result.find("provenance");
  if (lines == result.end() || !lines->is_array()) return settings;
  for (const Json& line : *lines) {
    if (!line.is_string()) continue;
    const auto& text = line.get_ref<const std::string&>();
    const std::size_t is = text.find(kIs);
    if (!text.starts_with(kLead) || is == std::string::npos || is < kLead.size()) continue;
    settings.emplace_back(text.substr(kLead.size(), is - kLead.size()), text.substr(is + kIs.size()));
  }
  return settings;
}

/// What the scenario that a result carries has at a path as --set has it: a text or number, or the name of
/// what stands there; "" where it has none, or the result no scenario.
std::string value_in_scenario(const Json& result, const std::string& path) {
  const auto inputs = result.find("inputs");
  if (inputs == result.end() || !inputs->is_object()) return "";
  const auto scenario = inputs->find("scenario");
  if (scenario == inputs->end()) return "";
  Json parsed;
  if (scenario->is_string()) parsed = Json::parse(scenario->get_ref<const std::string&>(), nullptr, false);
  const Json* at = scenario->is_string() ? &parsed : &*scenario;
  std::istringstream keys(path);
  for (std::string key; std::getline(keys, key, '.');) {
    if (!at->is_object() || !at->contains(key)) return "";
    at = &(*at)[key];
  }
  if (at->is_object() && at->contains("name")) at = &(*at)["name"];
  if (at->is_string()) return at->get<std::string>();
  return at->is_primitive() && !at->is_null() ? at->dump() : "";
}

/// Axes that tell points apart which the ones before do not.
class AxisFinder {
 public:
  explicit AxisFinder(std::vector<ReportPoint>& points) : points_(points), keys_(points.size()) {}

  void add(const std::string& name, const Column& values) {
    std::vector<Column> keys = keys_;
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i].push_back(values[i]);
    if (distinct(keys) == distinct(keys_)) return;
    keys_ = std::move(keys);
    for (std::size_t i = 0; i < points_.size(); ++i) points_[i].axes.emplace_back(name, values[i]);
  }
  /// Whether two points of one series have nothing that tells them apart.
  bool ambiguous() const {
    std::vector<Column> keys = keys_;
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i].push_back(points_[i].series);
    return distinct(keys) < keys.size();
  }

 private:
  static std::size_t distinct(const std::vector<Column>& keys) {
    return std::set<Column>(keys.begin(), keys.end()).size();
  }
  std::vector<ReportPoint>& points_;
  std::vector<Column> keys_;
};

void add_settings(const std::vector<FileResult>& results, AxisFinder& axes) {
  std::vector<std::vector<std::pair<std::string, std::string>>> settings;
  std::vector<std::string> names;
  for (const FileResult& one : results) {
    settings.push_back(settings_of(one.result));
    for (const auto& [name, value] : settings.back())
      if (name != "seed" && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  for (const std::string& name : names) {
    Column values;
    for (std::size_t i = 0; i < results.size(); ++i) {
      values.push_back(value_in_scenario(results[i].result, name));
      if (values.back().empty()) values.back() = "as in the scenario";
      for (const auto& [set, value] : settings[i])
        if (set == name) values.back() = value;
    }
    axes.add(name, values);
  }
}

/// Names of files, without their folders where that is enough.
Column file_names(const std::vector<FileResult>& results) {
  std::set<std::string> paths, short_names;
  for (const FileResult& one : results) {
    paths.insert(one.file);
    short_names.insert(std::filesystem::path(one.file).filename().string());
  }
  Column names;
  for (const FileResult& one : results)
    names.push_back(short_names.size() < paths.size() ? one.file
                                                      : std::filesystem::path(one.file).filename().string());
  return names;
}

void add_axes(const std::vector<FileResult>& results, std::vector<ReportPoint>& points) {
  AxisFinder axes(points);
  const auto column = [&](const char* key) {
    Column values;
    for (const FileResult& one : results) values.push_back(text_at(one.result, key));
    return values;
  };
  axes.add("scenario", column("scenario"));
  add_settings(results, axes);
  for (const char* key : {"model", "device", "executor", "seed", "version"}) axes.add(key, column(key));
  if (axes.ambiguous()) axes.add("file", file_names(results));
}

/// What all have in common, or "".
std::string common(const std::vector<FileResult>& results, const char* key) {
  const std::string first = text_at(results.front().result, key);
  for (const FileResult& one : results)
    if (text_at(one.result, key) != first) return "";
  return first;
}

/// What a result is of: a scenario, or measurements.
std::string subject_of(const Json& result) {
  if (is_world_result(result)) return "Published measurements, predicted";
  return is_request_records(result) ? "Request by request" : text_at(result, "scenario");
}

std::string title_of(const std::vector<FileResult>& results) {
  constexpr std::size_t kMost = 3;
  Column names;
  for (const FileResult& one : results)
    if (const std::string name = subject_of(one.result);
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  std::string title;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) title += (i > 0 ? ", " : "") + names[i];
  return names.size() > kMost ? title + " and " + std::to_string(names.size() - kMost) + " more" : title;
}

std::vector<Json> documents_of(std::vector<FileResult>& results) {
  std::vector<Json> documents;
  for (FileResult& one : results) documents.push_back(std::move(one.result));
  return documents;
}

}  // namespace

Report read_result_files(const std::vector<std::string>& files) {
  Problems problems;
  FileResults found;
  for (const std::string& file : files) {
    try {
      add_results(file, problems, found);
    } catch (const InputError& error) {
      for (const Problem& problem : error.problems()) problems.add(problem);
    }
  }
  problems.throw_if_any();
  std::vector<FileResult> all = found.loads;
  all.insert(all.end(), found.worlds.begin(), found.worlds.end());
  all.insert(all.end(), found.runs.begin(), found.runs.end());
  if (all.empty() && found.requests.empty() && !found.without_requests.empty())
    throw InputError(found.without_requests.front(),
                     "has no requests that statistics are of; expected a line for each, as 'moelab run "
                     "--requests' writes them");
  if (all.empty()) all = found.requests;  // they stand beside a result, which says what they are of
  if (all.empty()) throw InputError("", "there is no result to report on");
  Report report{title_of(all), common(all, "question"), {}};
  report.loads = documents_of(found.loads);
  report.worlds = documents_of(found.worlds);
  report.requests = documents_of(found.requests);
  if (found.runs.empty()) return report;
  for (const FileResult& one : found.runs) report.points.push_back({{}, text_at(one.result, "system"), {}});
  add_axes(found.runs, report.points);
  for (std::size_t i = 0; i < found.runs.size(); ++i)
    report.points[i].result = std::move(found.runs[i].result);
  return report;
}

}  // namespace moelab
