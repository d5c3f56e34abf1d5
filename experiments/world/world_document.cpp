#include "experiments/world/world_document.hpp"

#include <filesystem>
#include <utility>

#include "models/json.hpp"
#include "sim/version.hpp"

namespace moelab::world {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kWrittenFormat = 1;  // that cli/report/world_results.hpp reads

/// As README.md here asks it.
constexpr const char* kQuestion =
    "People publish how fast MoE models decode and prefill on their machines, in the runtimes that they use. "
    "How near does this project come to those figures from data sheets and few constants for each runtime?";

Json or_null(bool has, Json value) {
  return has ? std::move(value) : Json(nullptr);
}

std::string unit_of(const Point& point) {
  if (!point.unit.empty()) return point.unit;
  return point.metric.ends_with("_ms") ? "ms" : "tok/s";
}

Json row_json(const PredictedPoint& row) {
  const Point& p = *row.point;
  const Question& q = row.question;
  const bool answered = row.answered();
  return {{"id", p.id},
          {"model", p.model},
          {"weights", p.weights},
          {"machine", p.gpu.empty() ? p.cpu : p.gpu},
          {"gpus", p.gpus},
          {"runtime", p.engine},
          {"metric", p.metric},
          {"unit", unit_of(p)},
          {"source", p.source},
          {"group", or_null(!q.group.empty(), q.group)},
          {"phase", or_null(!q.group.empty(), row.phase())},
          {"measured", p.value},
          {"predicted", or_null(answered, row.prediction.value)},
          {"predicted_source_left_out", or_null(answered, row.apart)},
          {"null_model", or_null(answered, row.null_value)},
          {"bound_by", or_null(answered, row.prediction.bound)},
          {"counted", row.counted()},
          {"why_not", or_null(!row.counted(), row.why_not())}};
}

Json group_json(const GroupErrors& group) {
  return {{"name", group.name},
          {"rows", group.rows},
          {"median_error", group.predicted},
          {"median_error_source_left_out", group.apart},
          {"nine_in_ten_factor_less_1", group.nine_in_ten},
          {"median_error_null_model", group.null_model},
          {"within_tolerance", group.near}};
}

}  // namespace

Json world_document(const std::vector<PredictedPoint>& rows, const std::vector<std::string>& files) {
  Json names = Json::array(), groups = Json::array(), list = Json::array();
  for (const std::string& file : files) names.push_back(std::filesystem::path(file).filename().string());
  for (const GroupErrors& group : errors_by_group(rows)) groups.push_back(group_json(group));
  for (const PredictedPoint& row : rows) list.push_back(row_json(row));
  return {{"world_format", kWrittenFormat}, {"version", program_version()}, {"question", kQuestion},
          {"answer", answer_of(rows)},      {"files", std::move(names)},    {"tolerance", kTolerance},
          {"groups", std::move(groups)},    {"rows", std::move(list)}};
}

std::string document_text(const Json& document) {
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moelab::world
