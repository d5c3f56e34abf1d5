#include "cli/list_command.hpp"

#include <algorithm>
#include <memory>

#include "cli/commands.hpp"
#include "models/input_error.hpp"
#include "models/lower_case.hpp"

namespace moelab::cli {

bool has_words(const ListOptions& options, const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += lower_case(text) + "\n";
  return std::ranges::all_of(options.words, [&](const std::string& word) {
    return all.find(lower_case(word)) != std::string::npos;
  });
}

void refuse_words(const ListOptions& options, const std::string& thing, const std::string& list,
                  const std::vector<std::string>& known) {
  std::string asked;
  for (const std::string& word : options.words) asked += (asked.empty() ? "" : " ") + word;
  throw InputError("", "there is no " + thing + " '" + shown_word(asked) + "'" + suggestion(asked, known) +
                           "; 'moelab " + list + "' lists all");
}

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
