// What a file is that was given in the place of a result: its kind, and the command that reads it.
#pragma once

#include <string>
#include <string_view>

#include "models/json.hpp"

namespace moelab {

/// What a file that is no JSON holds, by its content and then by the ending of its name, with the command
/// that reads it: "is a scenario; 'moelab run FILE --out result.json' runs it". "" where that is not known.
/// `text`: the file's content, or at least its first kilobytes.
std::string kind_of_text(const std::string& file, std::string_view text);

/// The same of a YAML file that was given in the place of a model, a device or another part of a scenario; ""
/// unless it is a scenario, a sweep or a law.
std::string kind_of_config(const std::string& file, std::string_view text);

/// The same of a JSON document that is no result of a run, where another command wrote it or reads it.
std::string kind_of_document(const std::string& file, const nlohmann::ordered_json& document);

/// Where a result says a result_format above kResultFormat, a newer version's: both numbers, in a sentence
/// that goes behind the file's name. "" where this program knows the format, or none is said.
std::string newer_format(const nlohmann::ordered_json& result);

}  // namespace moelab
