#include "cli/list_command.hpp"

#include <memory>

#include "cli/commands.hpp"

namespace moelab::cli {

CLI::App* add_list(CLI::App& program, const char* name, const char* help, void (*list)(const ListOptions&),
                   ListSources sources, ListWords words) {
  const auto options = std::make_shared<ListOptions>();
  CLI::App* command = program.add_subcommand(name, help);
  if (words == ListWords::taken)
    command->add_option("WORD", options->words,
                        "Only what has this word in its kind, name or title, capital or not (several: all)");
  add_format(*command, options->format);
  if (sources == ListSources::on_request)
    command->add_flag("--sources", options->sources, "Say of each number where it is from, in the table too");
  add_example(*command, std::string("moelab ") + name +
                            (sources == ListSources::on_request ? " --sources" : " --format json"));
  command->callback([options, list] { list(*options); });
  return command;
}

}  // namespace moelab::cli
