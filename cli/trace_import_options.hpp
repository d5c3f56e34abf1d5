// What the commands that import have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "traces/import/npy.hpp"
#include "traces/import/token_assembler.hpp"

namespace moelab::cli {

struct ImportOptions {
  std::string input;
  ImportTarget target;
};

/// INPUT, --out, and what the input cannot say of the trace: model, provenance, and, for routing, sizes.
/// `experts_required`: --experts has to be given.
void add_import_options(CLI::App& command, ImportOptions& options, bool experts_required = true);

/// INPUT, --out, --model, --provenance, --synthetic alone.
void add_import_identity(CLI::App& command, ImportOptions& options);

/// An option whose value names a type of numbers: u1, i4, bf16, ...
void add_number_type(CLI::App& command, const std::string& option, NpyType& type, const std::string& help,
                     const std::string& usual);

void add_trace_import_counts(CLI::App& import);
void add_trace_import_requests(CLI::App& trace);

}  // namespace moelab::cli
