// A quantity with its unit, of an option.
#pragma once

#include <string>

#include "models/input_error.hpp"
#include "models/physical_bounds.hpp"
#include "models/units.hpp"

namespace moelab::cli {

/// "500 MB", of what `option` gives. Throws InputError that names both where it is no quantity of this kind,
/// or beyond what is physical.
template <class Q>
Q quantity_of(const std::string& option, const std::string& text) {
  Q value;
  std::string expected;
  if (!parse(text, value, expected)) throw InputError(option + " " + text, "expected " + expected);
  if (const std::string beyond = beyond_physical(value); !beyond.empty())
    throw InputError(option + " " + text, "it" + beyond);
  return value;
}

}  // namespace moelab::cli
