// Imports routing from tables and lines: CSV, JSON lines, and the responses of serving engines that return
// the experts of each token. traces/import/README.md describes the forms.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "traces/import/input_stream.hpp"
#include "traces/import/token_assembler.hpp"

namespace moelab {

/// Names of columns (CSV) or paths of values (JSON, "choices[0].x"); empty where the input has no such thing.
struct RowNames {
  std::string request;  // CSV, and JSON where a line is not a request: none: one request
  std::string token;    // JSON: must be there unless a line holds a whole request; CSV: none: tokens are
                        // counted, a new one where the layers begin again
  std::string layer;    // must be there unless a line holds a whole token
  std::vector<std::string> experts;  // one name: a number (long form) or a list (wide); several: one a rank
  std::vector<std::string> scores;   // as `experts`; none: the trace has no scores
  std::string rank;                  // long form: from 0 in each layer; none: in order of the rows
  std::string phase;                 // none: `all_phases`
  std::string prompt_tokens;         // JSON lines that hold a request: how many of its tokens are prefill
  std::string domain;                // what kind of prompt it is; the input is read twice
  Phase all_phases = Phase::decode;
  bool any_order = false;  // CSV: rows are held in memory and sorted by request, token, layer and rank
};

/// What came of an import.
struct ImportCounts {
  std::uint64_t tokens = 0;
  std::uint64_t prompt_tokens = 0;  // of them, of prompts: phases prefill and encoder
};

/// A row for each (token, layer, rank) or (token, layer). Memory does not grow with the file but for the
/// names of requests and domains, unless rows may come in any order. Throws InputError with file, line,
/// column and what was expected; then nothing is written.
ImportCounts import_routing_csv(const std::filesystem::path& input, const RowNames& names,
                                const ImportTarget& target, char delimiter, const Progress& progress);

/// A JSON value a line: experts are a number, a list (token and layer), [layers][k] (token) or
/// [tokens][layers][k] (request). Otherwise as import_routing_csv.
ImportCounts import_routing_jsonl(const std::filesystem::path& input, const RowNames& names,
                                  const ImportTarget& target, const Progress& progress);

/// Responses of vLLM, one a line, served with --enable-return-routed-experts; each choice is a request.
/// `drop_last`: leave out the last row of each (some versions give one for a token that was never run).
ImportCounts import_vllm(const std::filesystem::path& input, const ImportTarget& target, bool drop_last,
                         const Progress& progress);

}  // namespace moelab
