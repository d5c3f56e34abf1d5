// Imports routing from arrays: NumPy's .npy and .npz, and raw numbers without a header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "traces/import/npy.hpp"
#include "traces/import/table_import.hpp"
#include "traces/import/token_assembler.hpp"

namespace moelab {

enum class ArrayKind { npy, npz, raw };

/// A CSV file with a row for each request, in the order of the arrays. Columns by name, empty where there is
/// none.
struct RequestIndex {
  std::filesystem::path file;  // empty: none
  std::string tokens;          // rows of routing of the request; must be there
  std::string prompt_tokens;   // how many of them are prefill, the others decode
  std::string domain;
  std::string ids_offset;     // where its ids begin, in bytes unpacked: compared
  std::string scores_offset;  // the same of its scores; -1: it has none
  bool scored_only = false;   // leave out requests that have no scores
};

/// Which arrays hold what: names of members of the .npz, or files (npy, raw); empty: none.
struct ArrayNames {
  std::string ids;            // integers [tokens, layers, k]; -1 or the type's largest u2: does not run
  std::string scores;         // [tokens, layers, k]
  std::string router_scores;  // [tokens, layers, experts]
  std::string offsets;        // integers [requests + 1]: first row of each request, and the number of rows
  std::string phases;         // integers [tokens], as in a trace
  RequestIndex index;         // instead of offsets; neither: one request
  NpyType ids_type = NpyType::u1, scores_type = NpyType::f4;  // raw
  std::optional<std::uint64_t> tokens;                        // raw, without an index
  bool scores_bf16 = false;                                   // scores of type u2 are bfloat16
  Phase all_phases = Phase::decode;
};

/// Memory holds one token and the requests. Throws InputError that names the file and the byte, or the token
/// and layer; then nothing is written.
ImportCounts import_arrays(ArrayKind kind, const std::filesystem::path& input, const ArrayNames& names,
                           const ImportTarget& target, const Progress& progress);

}  // namespace moelab
