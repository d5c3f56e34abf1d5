// Per-request records: a line for each system and request, as tools for logs read them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/run_result.hpp"

namespace moelab {

/// A JSON object a line, of each request that was begun, by system and then number: system, seed, request,
/// server (null where there is one machine), arrival_s, started_s, first_token_s, end_s (null: its server
/// left before), prompt_tokens, output_tokens, preempted, longest_gap_s (null without a second token); where
/// an instance went on with what another one had begun, decode_server, kv_sent_from_s and kv_sent_until_s;
/// where prompts have beginnings in common, cached_tokens (of the prompt, found in the KV cache when it was
/// first admitted; null of systems without batching); of a workload with classes its class, with a warm-up or
/// cool-down whether statistics are of it (measured).
std::string requests_jsonl(const std::vector<RunResult>& results);
/// The same with a header line and commas; what is null there is empty here.
std::string requests_csv(const std::vector<RunResult>& results);

/// A cell of a CSV file: quoted where a comma, a quote or a line's end is in it, and with ' before what a
/// spreadsheet would take for a formula (a text, no number, that begins with = + - @, a tab or a return).
std::string csv_cell(const std::string& text);
/// The same of a value: of a text itself, of others what JSON writes, of null nothing.
std::string csv_cell_of(const nlohmann::ordered_json& value);

/// By the ending of `path`, which check_requests_path() has seen: requests_jsonl(), requests_csv() or
/// benchmark_json() of the one result.
std::string requests_text(const std::string& path, const std::vector<RunResult>& results);
/// Throws InputError about `option` for a path that ends in none of the three; "" is none.
void check_requests_path(const std::string& option, const std::string& path);
/// The same for a benchmark's file where more than one of `systems` would run.
void check_benchmark_path(const std::string& option, const std::string& path,
                          const std::vector<std::string>& systems);

}  // namespace moelab
