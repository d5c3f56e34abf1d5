// Imports how often each expert was used: tables of counts or shares, raw numbers, JSON.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "traces/import/npy.hpp"

namespace moelab {

/// Counts before they become a file: what the importers of counts make.
struct CountsTable {
  std::uint64_t prompts = 0;
  std::uint32_t layers = 0, experts = 0;
  std::vector<std::uint64_t> counts;          // [prompts, layers, experts]
  std::vector<std::uint64_t> layer_numbers;   // of the input
  std::vector<std::string> domains;           // empty: prompts have none
  std::vector<std::uint16_t> prompt_domains;  // [prompts] where there are domains
};

/// Which rows and columns of a CSV file are counts.
struct CountColumns {
  std::vector<std::string> prompt;  // columns that together say which prompt; none: one prompt
  std::string layer;
  std::string expert;  // a row for each expert, with `count`; or
  std::string count;
  std::vector<std::string> experts;  // a row for each layer: a column for each expert, in their order
  std::vector<std::pair<std::string, std::string>> where;   // only rows with this value in this column
  std::vector<std::pair<std::string, std::string>> except;  // no rows with this value in this column
  std::uint32_t expert_count = 0;  // experts a layer; with `experts`, 0: as many as columns
  bool sparse = false;             // experts without a row have 0 even where the table seems cut (see below)
  double scale = 1;  // numbers are multiplied by it and must then be whole (shares: 10000 for four decimals)
};

/// Each prompt is its own domain, named by its columns joined by '/'. An expert that is not listed has 0;
/// every prompt must have every layer. A table whose last layer alone lacks experts, or alone counts fewer
/// uses than the prompt's other layers, was cut while it was written: refused unless `sparse`. Throws
/// InputError with file, line and column.
CountsTable import_counts_csv(const std::filesystem::path& input, const CountColumns& columns,
                              const Progress& progress);

/// Raw unsigned numbers [prompts, layers, experts] of a type without a header. `index`: a CSV file whose
/// column `prompts` says how many prompts each of its rows stands for, in order, and `domain` of what kind.
struct RawCounts {
  NpyType type = NpyType::u2;
  std::uint32_t layers = 0, experts = 0;
  std::filesystem::path index;
  std::string prompts, domain;
};
CountsTable import_counts_raw(const std::filesystem::path& input, const RawCounts& how,
                              const Progress& progress);

/// An .npy array of integers [prompts, layers, experts] or [layers, experts].
CountsTable import_counts_npy(const std::filesystem::path& input, const Progress& progress);

/// JSON as SGLang's --init-expert-location and EPLB take it: {"logical_count": [steps][layers][experts]} or
/// without steps; or "physical_count" with "physical_to_logical_map" [layers][physical experts]. Steps
/// without any count (of a buffer not filled) are left out.
CountsTable import_counts_json(const std::filesystem::path& input);

/// A file of torch.save with a tensor [layers, experts] or [prompts, layers, experts], or with one [experts]
/// for each layer in a list or dictionary. `tensor`: its name in a dictionary; empty: all there are.
CountsTable import_counts_torch(const std::filesystem::path& input, const std::string& tensor);

/// llama.cpp's importance matrix as GGUF (llama-imatrix --output-format gguf):
/// blk.N.ffn_*_exps.weight.counts, how many tokens each expert had. One prompt: all of the calibration text.
CountsTable import_counts_imatrix(const std::filesystem::path& input);

/// Adds the prompts of another file, of the same shape and without domains. Throws InputError that names it
/// and the first one.
void append_counts(CountsTable& all, const CountsTable& more, const std::string& file,
                   const std::string& first);

/// Counts from numbers [layers, experts] or [prompts, layers, experts], prompts without any count left out;
/// `map` (empty, or [layers, experts] of the numbers): adds up physical experts into logical ones. `what`
/// names them in messages. Throws InputError.
CountsTable counts_from_numbers(const std::string& file, const std::string& what,
                                const std::vector<std::int64_t>& numbers, std::vector<std::uint64_t> shape,
                                const std::vector<std::int64_t>& map);

struct ImportTarget;
/// Writes a moelab-counts file; the provenance says which layers of the input its layers are, where they are
/// not all from 0.
void write_counts(const CountsTable& table, const ImportTarget& target);

}  // namespace moelab
