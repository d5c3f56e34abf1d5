#include "cli/report/world_results.hpp"

#include "cli/report/document_check.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMostValue = 1e15;  // tokens/s, ms, or an error: beyond what any machine comes to
constexpr double kMostRows = 1e9;

/// A number above 0; or null where there may be none.
void check_value(DocumentCheck& check, const std::string& at, const Json& row, const char* key,
                 bool may_be_null) {
  check.number(at, row, key, kMostValue, may_be_null);
  const Json& value = DocumentCheck::part(row, key);
  if (check.is_good() && value.is_number() && !(value.get<double>() > 0))
    check.fail(at + key, "a number above 0");
}

void check_phase(DocumentCheck& check, const std::string& at, const Json& row, bool may_be_null) {
  const Json& phase = DocumentCheck::part(row, "phase");
  if (phase.is_null() && may_be_null) return;
  if (phase != "decode" && phase != "prefill")
    check.fail(at + "phase", std::string("decode or prefill") + (may_be_null ? ", or null" : ""));
}

/// Either a row is counted and all of it is known, or it says why not.
void check_row(DocumentCheck& check, const std::string& at, const Json& row) {
  for (const char* key : {"id", "model", "weights", "machine", "runtime", "metric", "unit", "source"})
    check.text(at, row, key);
  check.number(at, row, "gpus", kMostRows, false);
  check_value(check, at, row, "measured", false);
  for (const char* key :
       {"predicted", "predicted_source_left_out", "null_model", "group", "phase", "bound_by", "why_not"})
    if (!row.contains(key)) check.fail(at + key, "a value, or null where there is none");
  const Json& counted = DocumentCheck::part(row, "counted");
  if (!counted.is_boolean()) return check.fail(at + "counted", "true or false");
  const bool is_counted = counted.get<bool>();
  for (const char* key : {"predicted", "predicted_source_left_out", "null_model"})
    check_value(check, at, row, key, !is_counted);
  check_phase(check, at, row, !is_counted);
  const Json& unit = DocumentCheck::part(row, "unit");
  if (!DocumentCheck::part(row, "predicted").is_null() && unit != "tok/s" && unit != "ms")
    check.fail(at + "unit", "tok/s or ms");
  for (const char* key : {"group", "bound_by"}) {
    if (is_counted)
      check.text(at, row, key);
    else
      check.text_or_null(at, row, key);
  }
  if (!is_counted)
    check.text(at, row, "why_not");
  else if (!DocumentCheck::part(row, "why_not").is_null())
    check.fail(at + "why_not", "null, for the row is counted");
}

void check_group(DocumentCheck& check, const std::string& at, const Json& group) {
  check.text(at, group, "name");
  check.number(at, group, "rows", kMostRows, false);
  for (const char* key : {"median_error", "median_error_source_left_out", "nine_in_ten_factor_less_1",
                          "median_error_null_model"})
    check.number(at, group, key, kMostValue, false);
  check.number(at, group, "within_tolerance", 1, false);
}

/// Of a document whose rows are good: whether any is counted.
bool counts_any(const Json& document) {
  for (const Json& row : document["rows"])
    if (row["counted"].get<bool>()) return true;
  return false;
}

void check_files(DocumentCheck& check, const Json& document) {
  const Json& files = DocumentCheck::part(document, "files");
  if (!files.is_array()) return check.fail("files", "a list of texts");
  for (std::size_t i = 0; i < files.size(); ++i)
    if (!files[i].is_string()) return check.fail("files[" + std::to_string(i) + "]", "a text");
}

}  // namespace

bool is_world_result(const Json& document) {
  return document.is_object() && document.contains("world_format");
}

std::string problem_of_world(const Json& document) {
  DocumentCheck check("experiments/world/run.sh --out");
  check.form(document, "world_format", kWorldFormat);
  for (const char* key : {"version", "question", "answer"}) check.text("", document, key);
  check_files(check, document);
  check_value(check, "", document, "tolerance", false);
  check.number("", document, "tolerance", 1, false);
  check.each("", document, "rows",
             [&](const std::string& at, const Json& row) { check_row(check, at, row); });
  if (!check.is_good()) return check.problem();
  const Json& groups = DocumentCheck::part(document, "groups");
  const bool none = groups.is_array() && groups.empty() && !counts_any(document);
  if (!none)
    check.each("", document, "groups",
               [&](const std::string& at, const Json& group) { check_group(check, at, group); });
  return check.problem();
}

}  // namespace moelab
