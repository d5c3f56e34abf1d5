// Inputs of an import that are several files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/trace_import_options.hpp"
#include "traces/import/table_import.hpp"

namespace moelab::cli {

/// The files that a name with '*' or '?' in its last part means, in natural order: the numbers in names count
/// as numbers, so that part-9 comes before part-10. A name without them, or of a file that is there, is
/// itself. Throws InputError where no file matches; it says what the folder has.
std::vector<std::string> input_files(const std::string& pattern);

/// Imports the files that options.input means into one trace, requests of one file after those of the other:
/// `import` makes the trace of one. Of several, each comes under a name of its own beside the output first.
/// Throws InputError as `import` does, and where files have different shapes.
ImportCounts import_files(
    const ImportOptions& options,
    const std::function<ImportCounts(const std::string& input, const ImportTarget&)>& import);

}  // namespace moelab::cli
