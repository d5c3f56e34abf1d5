// What commands that list names have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace moelab::cli {

struct ListOptions {
  std::string format = "table";
  bool sources = false;                 // where each number is from, too
  std::vector<std::string> words = {};  // only what has all of these (has_words); of lists that take them
};

enum class ListSources : bool { none, on_request };
enum class ListWords : bool { none, taken };

/// Whether what is listed has each word that was asked for in one of its texts, capital or not.
bool has_words(const ListOptions& options, const std::vector<std::string>& texts);
/// "there is no part 'rtx-4090-42gb' (did you mean ...?)"; `thing` is what `list` has, which
/// `moelab LIST` prints.
[[noreturn]] void refuse_words(const ListOptions& options, const std::string& thing, const std::string& list,
                               const std::vector<std::string>& known);

/// Adds a command that prints what `list` makes of its options; with `--sources` where there are any, and
/// with words to choose by where the list takes them.
CLI::App* add_list(CLI::App& program, const char* name, const char* help, void (*list)(const ListOptions&),
                   ListSources sources = ListSources::none, ListWords words = ListWords::none);

}  // namespace moelab::cli
