// Published measurements beside predictions, as `experiments/world/run.sh --out` writes them: their form, and
// whether a file keeps to it.
//
// Keys of the document:
// - world_format: kWorldFormat; version, question, answer: texts;
// - files: names of those that the rows are from;
// - tolerance: share of what was measured up to which a prediction counts as near;
// - groups: of each its name, rows (how many), median_error, median_error_source_left_out,
//   nine_in_ten_factor_less_1, median_error_null_model, within_tolerance: shares, 0.06 for 6 %;
// - rows: of each id, model, weights, machine, gpus, runtime, metric, unit ("tok/s" or "ms") and source;
//   group and phase ("decode" or "prefill"), null where the row was not understood;
//   measured, predicted, predicted_source_left_out and null_model in that unit, null where not predicted;
//   bound_by; counted (bool); why_not, null where it is counted.
#pragma once

#include <string>

#include "models/json.hpp"

namespace moelab {

/// What "world_format" says in them.
inline constexpr int kWorldFormat = 1;

/// Whether a document says that it is one.
bool is_world_result(const nlohmann::ordered_json& document);

/// What keeps a document that says so from being one, with where it stands in it and what was expected; or
/// "". Values are above 0 and up to 1e15; errors from 0 to 1e15; a row that is predicted is in tok/s or ms;
/// one that is counted has its group, its phase and all predictions.
std::string problem_of_world(const nlohmann::ordered_json& document);

}  // namespace moelab
