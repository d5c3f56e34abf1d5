// What the commands that list names print: every file of a folder of configurations once, within the
// terminal's width.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"

namespace moelab::list_command_test {
namespace {

using Json = nlohmann::json;

std::string printed(const std::vector<std::string>& arguments) {
  const ProgramResult result = run_program(MOELAB_PROGRAM, arguments);
  CAPTURE(arguments, result.err);
  REQUIRE(result.status == 0);
  return result.out;
}

/// The same in a terminal of so many columns.
std::string printed_within(const char* columns, const std::vector<std::string>& arguments) {
  setenv("COLUMNS", columns, 1);
  const std::string out = printed(arguments);
  unsetenv("COLUMNS");
  return out;
}

std::multiset<std::string> files_of(const std::string& kind) {
  std::multiset<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(MOELAB_SOURCE_DIR "/configs/" + kind))
    if (file.path().extension() == ".yaml") names.insert(file.path().stem().string());
  return names;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// With a blank between words, wherever lines end.
std::string words_of_text(const std::string& all) {
  std::istringstream words(all);
  std::string text;
  for (std::string word; words >> word;) text += word + " ";
  return text;
}

/// Of all lines but the first.
std::string words_below_heading(const std::string& table) {
  return words_of_text(table.substr(table.find('\n')));
}

std::size_t characters(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

TEST_CASE("each kind's list has every file of its folder once", "[plain]") {
  for (const char* kind :
       {"scenarios", "sweeps", "laws", "models", "devices", "clusters", "systems", "runtimes"}) {
    CAPTURE(kind);
    std::multiset<std::string> listed, in_table;
    for (const Json& one : Json::parse(printed({kind, "--format", "json"}))) listed.insert(one["name"]);
    CHECK(listed == files_of(kind));
    const std::vector<std::string> lines = lines_of(printed({kind}));
    for (std::size_t i = 1; i < lines.size(); ++i)
      if (!lines[i].empty() && lines[i].front() != ' ')
        in_table.insert(lines[i].substr(0, lines[i].find(' ')));
    CHECK(in_table == files_of(kind));
  }
}

TEST_CASE("scenarios and sweeps are listed with their whole question") {
  for (const char* kind : {"scenarios", "sweeps"}) {
    const std::string table = words_below_heading(printed_within("60", {kind}));
    for (const Json& one : Json::parse(printed({kind, "--format", "json"}))) {
      const std::string name = one["name"], question = one["question"];
      std::ifstream file(MOELAB_SOURCE_DIR "/configs/" + std::string(kind) + "/" + name + ".yaml");
      std::string in_file;
      for (std::string line; std::getline(file, line);)
        if (line.rfind("question: ", 0) == 0) in_file = line.substr(10);
      CHECK(question == in_file);
      CHECK(contains(table, name + " " + question));
    }
  }
}

TEST_CASE("experiments are those of the folder, with the question of each one's page") {
  const std::filesystem::path folder = std::filesystem::path(MOELAB_SOURCE_DIR) / "experiments";
  std::map<std::string, std::string> on_pages, listed;  // question by name
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    std::ifstream page(entry.path() / "README.md");
    const std::string text{std::istreambuf_iterator<char>(page), {}};
    const std::string begin = "**Question.** ";
    const std::size_t at = text.find(begin);
    REQUIRE(at != std::string::npos);
    const std::string paragraph = text.substr(at + begin.size(), text.find("\n\n", at) - at - begin.size());
    on_pages[entry.path().filename()] =
        words_of_text(std::regex_replace(paragraph, std::regex(R"(\[([^\]]*)\]\([^)]*\))"), "$1"));
  }
  for (const Json& one : Json::parse(printed({"experiments", "--format", "json"}))) {
    listed[one["name"]] = words_of_text(one["question"]);
    const std::string command = one["command"], page = one["page"];
    CHECK(std::filesystem::is_regular_file(folder.parent_path() / command.substr(0, command.find(' '))));
    CHECK(std::filesystem::is_regular_file(folder.parent_path() / page));
  }
  CHECK(listed == on_pages);
}

TEST_CASE("lists fit the terminal, between words", "[plain]") {
  const std::vector<std::vector<std::string>> lists = {{"scenarios"},   {"sweeps"},   {"laws"},
                                                       {"experiments"}, {"traces"},   {"devices"},
                                                       {"policies"},    {"clusters"}, {"keys", "system"}};
  for (const auto& [columns, width] : std::map<std::string, std::size_t>{{"80", 80}, {"140", 140}})
    for (const auto& list : lists) {
      CAPTURE(list, width);
      const std::string text = printed_within(columns.c_str(), list);
      for (const std::string& line : lines_of(text)) {
        CAPTURE(line);
        // A word that is longer than what is left stands in a line of its own.
        const bool one_word = line.find(' ', line.find_first_not_of(' ')) == std::string::npos;
        CHECK((characters(line) <= width || one_word));
      }
      CHECK(words_below_heading(text) == words_below_heading(printed_within("1000", list)));
    }
  for (const std::string& line : lines_of(printed({"scenarios"})))
    CHECK(characters(line) <= 100);  // no terminal
}

TEST_CASE("where numbers are from is said on request") {
  for (const char* kind : {"devices", "runtimes"}) {
    const std::string table = words_below_heading(printed({kind}));
    const std::string sources = words_of_text(printed({kind, "--sources"}));
    for (const Json& one : Json::parse(printed({kind, "--format", "json"})))
      for (const Json& line : one["provenance"]) {
        CHECK_FALSE(contains(table, words_of_text(line)));
        CHECK(contains(sources, words_of_text(line)));
      }
  }
}

TEST_CASE("lists are complete in both forms") {
  const Json policies = Json::parse(printed({"policies", "--format", "json"}));
  const std::string table = printed({"policies"});
  for (const Json& p : policies) CHECK(table.find(p["name"].get<std::string>()) != std::string::npos);
  for (const char* name : {"cache-affinity", "fifo",      "longest-first", "exhaustive",   "lru",
                           "marking",        "zipmoe",    "belady",        "moe-infinity", "layer-window",
                           "continuous",     "prism",     "smartmoe",      "s3-fifo",      "arc",
                           "lru-k",          "w-tinylfu", "gdsf",          "decode-lru",   "least-stale"})
    CHECK(table.find(name) != std::string::npos);
  const Json models = Json::parse(printed({"models", "--format", "json"}));
  CHECK(models.size() >= 15);
  CHECK(Json::parse(printed({"devices", "--format", "json"})).size() >= 2);
  CHECK(Json::parse(printed({"systems", "--format", "json"})).size() >= 10);
}

TEST_CASE("models: columns stand apart") {
  const ProgramResult models = run_program(MOELAB_PROGRAM, {"models"});
  REQUIRE(models.status == 0);
  std::istringstream lines(models.out);
  std::size_t rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    CAPTURE(line);
    std::size_t columns = 1;
    for (std::size_t at = line.find("  "); at != std::string::npos;
         at = line.find("  ", line.find_first_not_of(' ', at)))
      ++columns;
    CHECK(columns == 9);
  }
  CHECK(rows > 40);
}

TEST_CASE("devices: a profile that says which machine was measured is not called unmeasured") {
  const ProgramResult devices = run_program(MOELAB_PROGRAM, {"devices"});
  REQUIRE(devices.status == 0);
  const auto row_of = [&](const std::string& begin, const std::string& next) {
    std::string row = devices.out.substr(devices.out.find("\n" + begin));
    row = row.substr(0, row.find("\n" + next));
    std::string words;  // without the table's line ends and indents
    std::istringstream in(row);
    for (std::string word; in >> word;) words += word + " ";
    return words;
  };
  const std::string measured = row_of("h100-80gb", "h200-141gb");
  CHECK_FALSE(contains(measured, "not measured by this project"));
  CHECK(contains(measured, "(measured by this project, but not every number: --sources)"));
  CHECK(contains(row_of("a100-40gb", "h100-80gb"), "(not measured by this project)"));
}

}  // namespace moelab::list_command_test
