// What to say of a command line that names something that is not there, or not enough.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace moelab::cli {

/// The first word that no command or option took, with the nearest name that would have been: "moelab trace:
/// no command 'statz' (did you mean 'stats'?)". "" where all words were taken. After a parse that failed.
std::string unknown_word(const CLI::App& program);

/// Where a group of commands ("moelab trace") was named without the command: which there are. "" elsewhere.
/// After a parse that failed for want of something.
std::string missing_word(const CLI::App& program);

}  // namespace moelab::cli
