// Requests one by one, as `moelab run --requests FILE.jsonl` and `moelab load --records FILE.jsonl` write
// them, for the page of `moelab report`.
#pragma once

#include <string>

#include "models/json.hpp"

namespace moelab {

/// Points that a page draws of a file, at most: more can neither be told apart nor drawn soon.
inline constexpr std::size_t kMostRequestsDrawn = 2000;

/// What a page draws of a file's requests: {"requests_of": its name, "all": how many requests it has,
/// "groups": [{"system", "rate_per_s" (null: of no load curve), "all", "requests": [...]}]}, groups by their
/// first lines. A request is [number, arrival_s, prompt_tokens, output_tokens, started_s, first_token_s,
/// end_s, class], null where it has none of that. Of more than kMostRequestsDrawn requests each group has its
/// share of them, spread evenly over its lines. Throws InputError, which names the line, for what is no such
/// request.
nlohmann::ordered_json read_request_records(const std::string& file);

/// Whether read_request_records() made it.
bool is_request_records(const nlohmann::ordered_json& document);

}  // namespace moelab
