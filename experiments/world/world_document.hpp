// Published measurements beside predictions as one JSON document, which `moelab report` draws.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "experiments/world/world_table.hpp"

namespace moelab::world {

/// What run.sh predicted of these rows, with `apart` filled in. `files`: what the rows are from, by their
/// names without folders. Its keys: cli/report/world_results.hpp.
nlohmann::ordered_json world_document(const std::vector<PredictedPoint>& rows,
                                      const std::vector<std::string>& files);

/// As text, a line each for what is in it; bytes that are no UTF-8 are replaced.
std::string document_text(const nlohmann::ordered_json& document);

}  // namespace moelab::world
