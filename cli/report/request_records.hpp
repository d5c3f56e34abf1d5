// Requests one by one, as `moelab run --requests FILE.jsonl` and `moelab load --records FILE.jsonl` write
// them, for the page of `moelab report`.
#pragma once

#include <string>

#include "models/json.hpp"

namespace moelab {

/// Requests that a page draws of a file, about: more can neither be told apart nor drawn soon.
inline constexpr std::size_t kMostRequestsDrawn = 2000;

/// What a page draws of a file's requests: {"requests_of": its name, "all": how many requests it has that
/// statistics are of, "left_out": how many others (of a warm-up or a cool-down), "groups": [{"system",
/// "rate_per_s" (null: of no load curve), "all", "requests": [...]}]}, groups by their first lines. A request
/// is [number, arrival_s, prompt_tokens, output_tokens, started_s, first_token_s, end_s, class, seed,
/// server], with null for what it lacks. Of more than kMostRequestsDrawn requests each group has its share of
/// them, one at least, spread evenly over its lines. Throws InputError, which names the line, for any other
/// line.
nlohmann::ordered_json read_request_records(const std::string& file);

/// Whether read_request_records() made it.
bool is_request_records(const nlohmann::ordered_json& document);

}  // namespace moelab
