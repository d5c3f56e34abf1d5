// moelab man: manual pages.
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "cli/commands.hpp"
#include "cli/man_pages.hpp"
#include "models/input_error.hpp"

namespace moelab::cli {
namespace {

void write_pages(const std::vector<ManPage>& pages, const std::filesystem::path& folder) {
  std::error_code wrong;
  std::filesystem::create_directories(folder, wrong);
  if (wrong) throw InputError(folder.string(), "cannot be made: " + wrong.message());
  std::vector<std::pair<std::string, std::string>> files;
  for (const ManPage& page : pages) files.emplace_back((folder / (page.name + ".1")).string(), page.text);
  write_outputs(files);
}

void print_page(const std::vector<ManPage>& pages, const std::vector<std::string>& words) {
  std::string wanted = "moelab";
  for (const std::string& word : words) wanted += "-" + word;
  std::vector<std::string> known;
  for (const ManPage& page : pages) {
    if (page.name == wanted) {
      std::cout << page.text;
      return;
    }
    known.push_back(page.name);
  }
  throw InputError("moelab man", "no page '" + wanted + "'" + suggestion(wanted, known));
}

struct ManArguments {
  std::vector<std::string> words;
  std::string folder;
};

}  // namespace

void add_man(CLI::App& program) {
  const auto arguments = std::make_shared<ManArguments>();
  CLI::App* command =
      program.add_subcommand("man", "Print the manual page of the program or of a command, for man(1)");
  CLI::Option* words = command->add_option(
      "COMMAND", arguments->words, "The command's words, such as: trace stats (default: the program's page)");
  command
      ->add_option("--out", arguments->folder,
                   "Folder to write all pages to, such as ~/.local/share/man/man1")
      ->check(names_a_file)
      ->excludes(words);
  add_example(*command, "moelab man trace stats | man -l -\n  moelab man --out ~/.local/share/man/man1");
  command->callback([arguments, &program] {
    const std::vector<ManPage> pages = man_pages(program);
    if (arguments->folder.empty())
      print_page(pages, arguments->words);
    else
      write_pages(pages, arguments->folder);
  });
}

}  // namespace moelab::cli
