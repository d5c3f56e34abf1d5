// What commands that list names have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace moelab::cli {

struct ListOptions {
  std::string format = "table";
  bool sources = false;  // where each number is from, too
};

enum class ListSources : bool { none, on_request };

/// Adds a command that prints what `list` makes of its options; with `--sources` where there are any.
CLI::App* add_list(CLI::App& program, const char* name, const char* help, void (*list)(const ListOptions&),
                   ListSources sources = ListSources::none);

}  // namespace moelab::cli
