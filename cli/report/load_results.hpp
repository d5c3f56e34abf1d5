// Curves over the request rate, as `moelab load --out` writes them: their form, and whether a file keeps to
// it.
#pragma once

#include <string>

#include "models/json.hpp"

namespace moelab {

/// What "load_format" says in them.
inline constexpr int kLoadFormat = 1;

/// Whether a document says that it is one.
bool is_load_result(const nlohmann::ordered_json& document);

/// What keeps a document that says so from being one, with where it stands in it and what was expected; or
/// "". Times, in seconds, and rates, a second, are from 0 to 1e12; null where there is none.
std::string problem_of_load(const nlohmann::ordered_json& document);

}  // namespace moelab
