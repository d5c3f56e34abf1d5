// What the programs of this folder are called with.
#pragma once

#include <string>
#include <vector>

namespace moelab::world {

struct Arguments {
  std::vector<std::string> files;  // of measurements
  bool json = false;               // instead of tables
  bool fit = false;                // constants anew, too
};

/// usage: SCRIPT [FILE ...] [--format table|json] [--fit]. Throws InputError with the usage of `script`.
Arguments read_arguments(int argc, char** argv, const std::string& script);

}  // namespace moelab::world
