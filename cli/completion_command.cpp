// moelab completion: a shell completes commands, options and names.
#include <iostream>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/completion_scripts.hpp"

namespace moelab::cli {

void add_completion(CLI::App& program) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command = program.add_subcommand(
      "completion", "Print a script with which a shell completes commands, options and names");
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  add_example(*command,
              "moelab completion bash > ~/.local/share/bash-completion/completions/moelab\n"
              "  moelab completion zsh > ~/.zsh/completions/_moelab     # a folder of your fpath\n"
              "  moelab completion fish > ~/.config/fish/completions/moelab.fish");
  command->callback([shell, &program] {
    const std::vector<CompletedCommand> commands = completed_commands(program);
    std::cout << (*shell == "bash"  ? bash_completion(commands)
                  : *shell == "zsh" ? zsh_completion(commands)
                                    : fish_completion(commands));
  });
}

}  // namespace moelab::cli
