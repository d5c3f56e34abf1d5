// Manual pages of the program and its commands, from the definitions that their help is made of.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace moelab::cli {

struct ManPage {
  std::string name;  // "moelab-trace-stats", of section 1
  std::string text;  // roff with man's macros, ASCII alone
};

/// The program's page, then each command's, a command before what is below it.
std::vector<ManPage> man_pages(const CLI::App& program);

/// A text that roff prints as it is: no escape, no macro, no typographic quotes, no dash for a minus. Ends as
/// it does; UTF-8 in, ASCII out.
std::string roff_text(std::string_view text);

}  // namespace moelab::cli
