// A document as a person would write it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace moelab::cli {

/// YAML that reads back as the same document: maps in blocks, what fits a line within brackets. Texts stand
/// in quotes where something else could be read.
std::string yaml_of_json(const nlohmann::ordered_json& document);

}  // namespace moelab::cli
