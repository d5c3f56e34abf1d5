// A run that was refused, as the process that ran it tells the one that asked.
#pragma once

#include <string>

#include "models/input_error.hpp"

namespace moelab {

/// JSON: "refused": the first problem; "lacks_memory": whether want of memory is all that is wrong.
std::string refused_run(const InputError& error);

}  // namespace moelab
