// A validation as text.
#pragma once

#include <string>

#include "hw/validate/validation.hpp"

namespace moelab {

/// For people; the last line sums everything up.
std::string validation_table(const Validation& validation);

/// For programs: keys are added, never renamed. Seconds, bytes and plain ratios.
std::string validation_json(const Validation& validation);

}  // namespace moelab
