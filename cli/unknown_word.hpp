// What to say of a command line that names something that is not there.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace moelab::cli {

/// The first word that no command or option took, with the nearest name that would have been: "moelab trace:
/// no command 'statz' (did you mean 'stats'?)". "" where all words were taken. After a parse that failed.
std::string unknown_word(const CLI::App& program);

}  // namespace moelab::cli
