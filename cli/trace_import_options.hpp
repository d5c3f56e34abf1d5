// What the commands that import have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "traces/import/npy.hpp"
#include "traces/import/token_assembler.hpp"

namespace moelab::cli {

/// An option whose value is one of the names of a table.
template <typename T>
CLI::Option* add_choice(CLI::App& command, const std::string& option, T& value,
                        const std::map<std::string, T>& table, const std::string& help) {
  const auto set = [&value, table](const std::string& name) { value = table.at(name); };
  std::vector<std::string> names;
  for (const auto& [name, of] : table) names.push_back(name);
  return command.add_option_function<std::string>(option, set, help)->check(CLI::IsMember(names));
}

struct ImportOptions {
  std::string input;
  ImportTarget target;
};

/// INPUT, --out, and what the input cannot say of the trace: model, provenance, and, for routing, sizes.
/// `experts_required`: --experts has to be given.
void add_import_options(CLI::App& command, ImportOptions& options, bool experts_required = true);

/// INPUT, --out, --model, --provenance, --synthetic alone.
void add_import_identity(CLI::App& command, ImportOptions& options);

/// check_outputs for an import, whose inputs are INPUT and those of other options; and the input's name as
/// provenance where none is given.
void begin_import(ImportOptions& options, std::vector<std::string> more_inputs = {});

/// An option whose value names a type of numbers: u1, i4, bf16, ...
void add_number_type(CLI::App& command, const std::string& option, NpyType& type, const std::string& help,
                     const std::string& usual);

void add_trace_import_counts(CLI::App& import);
void add_trace_import_requests(CLI::App& trace);

}  // namespace moelab::cli
