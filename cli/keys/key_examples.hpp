// Values that the keys of scenarios, systems, devices and other files may have.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/keys/key_table.hpp"

namespace moelab::cli {

/// By path of the key, for `keys` (all of them): a value in YAML's flow style. Of the first of the
/// program's own files that has the key, else of a list here, else of a change by which key_readings() has
/// readers ask for it. None of a section that is longer than a line, and of a policy's parameter.
std::map<std::string, std::string> key_examples(const std::vector<KeyRow>& keys);

}  // namespace moelab::cli
