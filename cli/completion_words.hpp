// What can follow on a command line, taken from the definitions of the program's commands.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace moelab::cli {

struct CompletedWord {
  std::string word, help;
};

/// An option, or a positional argument, and what it takes.
struct CompletedValue {
  std::vector<std::string> names;  // "--format"; of a positional argument none
  std::string help;
  bool takes_value = false;
  std::vector<std::string> values;  // those that are known; else the names of files stand there
};

struct CompletedCommand {
  std::string path;  // "" of the program itself, then "/run", "/trace/stats"
  std::vector<CompletedWord> commands;
  std::vector<CompletedValue> options, positionals;  // the last positional may repeat
};

/// The program and its commands, each before those within it.
std::vector<CompletedCommand> completed_commands(const CLI::App& program);

}  // namespace moelab::cli
