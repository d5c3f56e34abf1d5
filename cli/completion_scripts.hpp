// Completion scripts of three shells. Each finds the command that stands on the line, and the argument that
// is being written.
#pragma once

#include <string>
#include <vector>

#include "cli/completion_words.hpp"

namespace moelab::cli {

std::string bash_completion(const std::vector<CompletedCommand>& commands);
std::string zsh_completion(const std::vector<CompletedCommand>& commands);
std::string fish_completion(const std::vector<CompletedCommand>& commands);

}  // namespace moelab::cli
