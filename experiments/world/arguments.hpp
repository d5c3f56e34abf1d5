// What the programs of this folder are called with, and how they say that they failed.
#pragma once

#include <exception>
#include <string>
#include <vector>

namespace moelab::world {

struct Arguments {
  std::vector<std::string> files;  // of measurements
  std::string out;                 // file to write the result to as JSON; "": none
  bool json = false;               // instead of tables
  bool fit = false;                // constants anew, too
};

/// What a script takes beside files and --format.
struct TakenOptions {
  bool writes = false;  // --out
  bool fits = false;    // --fit
};
/// usage: SCRIPT [FILE ...] [--out FILE] [--format table|json] [--fit]. Throws InputError with the usage of
/// `script` ("experiments/world/run.sh").
Arguments read_arguments(int argc, char** argv, const std::string& script, TakenOptions takes);

/// Throws InputError where the file to write ("": none) is one of those that are read, or is no regular file.
void check_result_file(const std::string& out, const std::vector<std::string>& files);

/// Prints what was thrown, which holds words of files, without control characters. Returns the exit
/// status, 2.
int say_failure(const std::exception& error);

}  // namespace moelab::world
