#include "cli/unknown_word.hpp"

#include <vector>

#include "cli/name_lists.hpp"
#include "models/input_error.hpp"

namespace moelab::cli {
namespace {

std::vector<std::string> commands_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(one->get_name());
  return names;
}

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// A word that stands alone, where a command takes none: of the one option that it needs and was not given.
std::string option_for(const CLI::App& command, const std::string& word) {
  std::vector<std::string> missing;
  for (const CLI::Option* option : command.get_options())
    if (option->get_required() && option->count() == 0) missing.push_back(option->get_name());
  return missing.size() == 1 && missing.front().starts_with("--")
             ? " (did you mean '" + missing.front() + " " + word + "'?)"
             : "";
}

std::string about(const CLI::App& command, const std::string& word) {
  if (word.front() == '-') {
    const std::string option = word.substr(0, word.find('='));
    return "no option '" + option + "'" + suggestion(option, options_of(command));
  }
  const std::vector<std::string> commands = commands_of(command);
  if (commands.empty()) return "'" + word + "' was not expected" + option_for(command, word);
  return "no command '" + word + "'" + suggestion(word, commands);
}

}  // namespace

std::string unknown_word(const CLI::App& program) {
  std::string place = "moelab";
  const CLI::App* command = &program;
  for (;;) {
    for (const std::string& word : command->remaining())
      if (!word.empty()) return place + ": " + about(*command, word);
    const std::vector<CLI::App*> next = command->get_subcommands();
    if (next.empty()) return "";
    command = next.front();
    place += " " + command->get_name();
  }
}

std::string missing_word(const CLI::App& program) {
  std::string place = "moelab";
  const CLI::App* command = &program;
  for (std::vector<CLI::App*> next; !(next = command->get_subcommands()).empty(); command = next.front())
    place += " " + next.front()->get_name();
  const std::vector<std::string> commands = commands_of(*command);
  if (command == &program || commands.empty() || command->get_require_subcommand_min() == 0) return "";
  return place + ": a command is missing; expected one of " + between_commas(commands);
}

}  // namespace moelab::cli
