// Shows on the terminal how far a long reading is.
#pragma once

#include "traces/import/input_stream.hpp"

namespace moelab::cli {

/// Writes "NAME: 12 % of 1.1 GB" on standard error, now and then, over itself; nothing unless standard error
/// is a terminal, and nothing for short files. The line is gone once the reading is over.
Progress terminal_progress(const std::string& name);

}  // namespace moelab::cli
