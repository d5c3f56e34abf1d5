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

std::string about(const CLI::App& command, const std::string& word) {
  if (word.front() == '-') {
    const std::string option = word.substr(0, word.find('='));
    return "no option '" + option + "'" + suggestion(option, options_of(command));
  }
  const std::vector<std::string> commands = commands_of(command);
  if (commands.empty()) return "'" + word + "' was not expected";
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
