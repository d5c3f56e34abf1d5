// Documents that are no scenario for this run as a whole: refused once, not for each of their keys.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace moelab {

/// Throws InputError for results in a scenario's place, with what reads them, and for a scenario of one
/// machine that `settings` give a cluster. `document`: of `file`, with the settings.
void refuse_other_document(const std::string& file, const nlohmann::ordered_json& document,
                           const std::vector<std::pair<std::string, std::string>>& settings);

}  // namespace moelab
