// moelab man: every command has a page, which roff prints as its help says it.
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/program_checks.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::man_command_test {
namespace {

namespace fs = std::filesystem;

std::string help_of(std::vector<std::string> words) {
  words.push_back("--help");
  return run_program(MOELAB_PROGRAM, words).out;
}

/// The commands that a help lists.
std::vector<std::string> commands_in(const std::string& help) {
  std::vector<std::string> commands;
  std::istringstream lines(help);
  bool listing = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("Subcommands:"))
      listing = true;
    else if (line.empty())
      listing = false;
    else if (listing && line.starts_with("  ") && line[2] != ' ')
      commands.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return commands;
}

/// By name of the page, the words of its command.
void append_commands(const std::vector<std::string>& words,
                     std::map<std::string, std::vector<std::string>>& all) {
  std::string page = "moelab";
  for (const std::string& word : words) page += "-" + word;
  all[page] = words;
  for (const std::string& below : commands_in(help_of(words))) {
    std::vector<std::string> longer = words;
    longer.push_back(below);
    append_commands(longer, all);
  }
}

const std::map<std::string, std::vector<std::string>>& commands() {
  static const std::map<std::string, std::vector<std::string>> all = [] {
    std::map<std::string, std::vector<std::string>> found;
    append_commands({}, found);
    return found;
  }();
  return all;
}

const std::map<std::string, std::string>& pages() {
  static const test::ScratchFolder folder;
  static const std::map<std::string, std::string> all = [] {
    const ProgramResult written = run_program(MOELAB_PROGRAM, {"man", "--out", (folder / "man1").string()});
    CAPTURE(written.err);
    REQUIRE(written.status == 0);
    std::map<std::string, std::string> read;
    for (const auto& file : fs::directory_iterator(folder / "man1")) {
      REQUIRE(file.path().extension() == ".1");
      read[file.path().stem().string()] = test::read_bytes(file.path().string());
    }
    return read;
  }();
  return all;
}

/// What a page prints, by the escapes of groff_char(7) and groff(7); fails at any other escape, macro, or
/// character that roff would print as another one.
std::string printed(const std::string& page) {
  static const std::map<std::string, std::string> kEscapes = {
      {"\\e", "\\"},  {"\\-", "-"},   {"\\&", ""},  {"\\(aq", "'"}, {"\\(dq", "\""}, {"\\(ga", "`"},
      {"\\(ha", "^"}, {"\\(ti", "~"}, {"\\fB", ""}, {"\\fI", ""},   {"\\fR", ""}};
  static const std::regex macro(R"(\.(TH|SH|TP|EX|EE)( .*)?)");
  std::string out;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    if (line.starts_with('.')) {
      CHECK(std::regex_match(line, macro));
      continue;
    }
    for (std::size_t at = 0; at < line.size();) {
      if (line[at] != '\\') {
        CHECK((line[at] >= ' ' && line[at] <= '~' &&
               std::string("-'\"`^~").find(line[at]) == std::string::npos));
        out += line[at++];
        continue;
      }
      std::size_t length = line[at + 1] == '(' ? 4 : line[at + 1] == 'f' ? 3 : 2;
      if (line[at + 1] == '[') {
        length = line.find(']', at) + 1 - at;
        CHECK(std::regex_match(line.substr(at, length), std::regex(R"(\\\[u[0-9A-F]{4,6}\])")));
        out += "?";
      } else {
        REQUIRE(kEscapes.contains(line.substr(at, length)));
        out += kEscapes.at(line.substr(at, length));
      }
      at += length;
    }
    out += "\n";
  }
  return out;
}

std::set<std::string> options_in(const std::string& text) {
  static const std::regex option("--[a-z][a-z-]+");
  return {std::sregex_token_iterator(text.begin(), text.end(), option), std::sregex_token_iterator()};
}

}  // namespace

TEST_CASE("every command has a manual page", "[plain]") {
  std::set<std::string> expected, found;
  for (const auto& [page, words] : commands()) expected.insert(page);
  for (const auto& [page, text] : pages()) found.insert(page);
  CHECK(expected.size() > 50);
  CHECK(found == expected);
  CHECK(run_program(MOELAB_PROGRAM, {"man"}).out == pages().at("moelab"));
  CHECK(run_program(MOELAB_PROGRAM, {"man", "trace", "stats"}).out == pages().at("moelab-trace-stats"));
}

TEST_CASE("a manual page prints what the help says", "[plain]") {
  for (const auto& [page, words] : commands()) {
    CAPTURE(page);
    REQUIRE(pages().contains(page));
    const std::string text = printed(pages().at(page)), help = help_of(words);
    std::istringstream lines(help);
    std::string line;
    std::getline(lines, line);  // what it is for
    if (line.starts_with("moelab ")) line = line.substr(7);
    CHECK(contains(text, page + " - " + line + "\n"));
    CHECK(options_in(text) == options_in(help));
    bool examples = false;
    for (int count = 0; std::getline(lines, line);) {
      if (examples && !line.empty())
        CHECK(contains(text, line.substr(line.starts_with("  ") ? 2 : 0) + "\n"));
      if (line.starts_with("Example")) examples = ++count == 1;
    }
    CHECK(examples);
    for (const char* section : {"NAME", "SYNOPSIS", "OPTIONS", "EXAMPLES", "EXIT STATUS", "SEE ALSO"})
      CHECK(contains(pages().at(page), std::string(".SH ") + section + "\n"));
  }
}

TEST_CASE("groff has nothing to warn of, where it is installed") {
  if (!fs::exists("/usr/bin/groff")) return;
  const test::ScratchFolder folder;
  REQUIRE(run_program(MOELAB_PROGRAM, {"man", "--out", folder.path().string()}).status == 0);
  std::vector<std::string> arguments = {"-man", "-ww", "-z", "-Tutf8"};
  for (const auto& file : fs::directory_iterator(folder.path())) arguments.push_back(file.path().string());
  const ProgramResult result = run_program("/usr/bin/groff", arguments);
  CHECK(result.status == 0);
  CHECK(result.err == "");
}

TEST_CASE("a page that there is not is refused with the nearest") {
  check_refusal(run_program(MOELAB_PROGRAM, {"man", "trace", "stat"}), "did you mean 'moelab-trace-stats'?");
  check_refusal(run_program(MOELAB_PROGRAM, {"man", "--out", "/dev/null/folder"}),
                "/dev/null/folder: cannot be made");
  CHECK(run_program(MOELAB_PROGRAM, {"man", "run", "--out", "folder"}).status == 2);
}

}  // namespace moelab::man_command_test
