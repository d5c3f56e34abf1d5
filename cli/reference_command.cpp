// moelab reference: the reference as pages of Markdown, from the program's own tables.
#include <iostream>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/markdown_reference.hpp"

namespace moelab::cli {
namespace {

std::string page_of(const std::string& subject, const CLI::App& program) {
  if (subject == "keys") return keys_page();
  if (subject == "policies") return policies_page();
  return subject == "metrics" ? metrics_page() : commands_page(program);
}

}  // namespace

void add_reference(CLI::App& program) {
  const auto subject = std::make_shared<std::string>();
  CLI::App* command = program.add_subcommand("reference",
                                             "Print a page of the reference as Markdown: every key of the "
                                             "files, policy, figure of results, or command. As "
                                             "JSON: moelab keys, policies and metrics with --format json");
  command->add_option("SUBJECT", *subject, "keys, policies, metrics or commands")
      ->required()
      ->check(CLI::IsMember({"keys", "policies", "metrics", "commands"}));
  add_example(*command, "moelab reference metrics > metrics.md");
  command->callback([subject, &program] { std::cout << page_of(*subject, program); });
}

}  // namespace moelab::cli
