// Shows on the terminal how far a long reading is.
#pragma once

#include "traces/import/input_stream.hpp"

namespace moelab::cli {

/// Shows "NAME: 12 % of 1134.2 MB" (terminal_line.hpp) as long as a copy of it is there.
Progress terminal_progress(const std::string& name);

}  // namespace moelab::cli
