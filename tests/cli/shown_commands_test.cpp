// The commands that README.md, docs/ and traces/README.md show, run as they stand there on smaller workloads;
// and that the pages say of each scenario what it asks and what came out.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "models/json.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::shown_commands_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

const fs::path kSource = MOELAB_SOURCE_DIR;

std::vector<fs::path> pages() {
  std::vector<fs::path> all = {kSource / "README.md", kSource / "traces/README.md"};
  for (const auto& entry : fs::recursive_directory_iterator(kSource / "docs"))
    if (entry.path().extension() == ".md") all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  return all;
}

/// Calibrate and validate are left out: calibrate_command_test.cpp runs their lines, one on what the other
/// wrote. So are sweeps on a cluster, which tests/python/cluster_test.py runs, and in traces/README.md what
/// needs a user's own recordings.
bool is_run_here(const std::string& line, const fs::path& page) {
  if (line.starts_with("moelab calibrate ") || line.starts_with("moelab validate ")) return false;
  if (line.find(" --cluster ") != std::string::npos) return false;
  return page.parent_path().filename() != "traces" || line.find(" my") == std::string::npos;
}

struct Block {
  fs::path page = {};
  std::vector<std::string> lines = {};
};

/// Whether a command leaves nothing that a later one might use.
bool leaves_nothing(const std::string& line) {
  return line.find("out/") == std::string::npos && line.find(" my") == std::string::npos;
}

/// The blocks of code that have commands of the program. What several pages show is run once.
std::vector<Block> command_blocks() {
  std::vector<Block> blocks;
  std::set<Words> seen;
  for (const fs::path& page : pages()) {
    std::ifstream file(page);
    blocks.push_back({page});
    bool is_code = false;
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("```")) {
        is_code = !is_code;
        if (!blocks.back().lines.empty()) blocks.push_back({page});
      }
      if (!is_code || !line.starts_with("moelab ") || !is_run_here(line, page)) continue;
      if (seen.insert(words_of(line)).second || !leaves_nothing(line)) blocks.back().lines.push_back(line);
    }
    if (blocks.back().lines.empty()) blocks.pop_back();
  }
  return blocks;
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Two requests for a cluster.
Words few_on_servers(const std::string& scenario) {
  const std::string task = scenario.ends_with("-multidata") ? "mmlu-pro" : "abstract-narrative";
  return {"--set", "workload.servers=[{tasks: {" + task + ": 1}, requests: 2}]"};
}

Words smaller_run(Words words) {
  const auto own_workload = std::find_if(
      words.begin(), words.end(), [](const std::string& word) { return word.starts_with("workload={"); });
  if (own_workload != words.end()) {
    *own_workload = std::regex_replace(*own_workload, std::regex("requests: [0-9]+"), "requests: 2");
    return words;
  }
  if (words[1].starts_with("prism-") || words[1] == "orin-rack") return with(words, few_on_servers(words[1]));
  if (words[1] == "recorded-default") return words;
  return with(words, {"--set", "workload.requests=1", "--set", "workload.prompt_tokens=4", "--set",
                      "workload.output_tokens=3"});
}

/// A command's words, with a smaller workload.
Words smaller(Words words) {
  const std::string& command = words.front();
  if (words.size() > 1 && (words[1] == "chat-and-code" || words[1] == "shared-prompts" ||
                           words[1] == "prefill-decode")) {  // lengths are their own
    const Words shorter = with(words, {"--set", "workload.warm_up=1", "--set", "workload.cool_down=1"});
    return command == "load" ? with(shorter, {"--requests", "8"})
                             : with(shorter, {"--set", "workload.requests=8"});
  }
  if (command == "run") return smaller_run(std::move(words));
  if (command == "sweep")
    return with(words, {"--set", "repeats=1", "--set", "axes={budget: [16 GB, 24 GB]}", "--set",
                        "set={workload.requests: 1, workload.prompt_tokens: 4, workload.output_tokens: 3}"});
  if (command == "tune" && words[1] == "residency")
    return with(words, {"--set", "workload.output_tokens=3", "--steps", "2"});
  if (command == "compare") {
    const Words two = with(words, {"--seeds", "2"});
    if (words[1].starts_with("prism-")) return with(two, few_on_servers(words[1]));
    return with(two, {"--set", "workload.requests=1", "--set", "workload.output_tokens=3"});
  }
  if (command == "load" && words[1].starts_with("prism-")) return with(words, {"--requests", "9"});
  if (command == "load")
    return with(words, {"--requests", "8", "--seeds", "1", "--set", "workload.prompt_tokens=4", "--set",
                        "workload.output_tokens=3"});
  // Experts of a few weights; of the cases, all of which bench_test.cpp runs, the cheapest.
  if (command == "pack") return with(words, {"--experts", "4", "--hidden", "256", "--width", "128"});
  if (command == "bench" && words[1] == "run") return with(words, {"checksum", "--size", "64 KiB"});
  return words;
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t at = text.find(begin);
  if (at == std::string::npos) return "";
  return text.substr(at, text.find(end, at + begin.size()) - at);
}

/// A folder as the pages have it: with `out`, the part and the scenario that docs/own-pc.md writes down, and
/// what they name of the repository.
class Place {
 public:
  Place() {
    fs::create_directory(folder_ / "out");
    const std::string page = test::read_bytes((kSource / "docs/own-pc.md").string());
    std::ofstream(folder_ / "my-card.yaml") << between(page, "\nname: my-card ", "\n```") << "\n";
    std::ofstream(folder_ / "drafts.yaml") << between(page, "\nname: drafts\n", "\n```") << "\n";
    for (const char* const name : {"experiments", "hw"})
      fs::create_directory_symlink(kSource / name, folder_ / name);
  }
  /// The line's command there; what it prints goes to the file behind a ">".
  ProgramResult run(const std::string& line) const {
    Words words = words_of(line);
    std::string output;
    if (const auto arrow = std::find(words.begin(), words.end(), ">"); arrow != words.end()) {
      REQUIRE(words.end() - arrow == 2);
      output = words.back();
      words.erase(arrow, words.end());
    }
    const ProgramResult result =
        run_program("/usr/bin/env", with({"-C", folder_.path().string(), MOELAB_PROGRAM}, smaller(words)));
    if (!output.empty()) std::ofstream(folder_ / output) << result.out;
    return result;
  }

 private:
  test::ScratchFolder folder_;
};

/// Runs every `parts`-th block from number `part` on; a block's commands one after the other: they use each
/// other's files.
void run_blocks(std::size_t part, std::size_t parts) {
  const std::vector<Block> blocks = command_blocks();
  REQUIRE(blocks.size() > 40);  // some 50 when this was written: the pages are still read
  for (std::size_t i = part; i < blocks.size(); i += parts) {
    const Place place;
    for (const std::string& line : blocks[i].lines) {
      const ProgramResult result = place.run(line);
      INFO(blocks[i].page << ": " << line << "\n" << result.err);
      CHECK(result.status == 0);
    }
  }
}

}  // namespace

// In tests of their own, which run beside each other.
TEST_CASE("the commands that the pages show work, first quarter of their blocks", "[long]") {
  run_blocks(0, 4);
}

TEST_CASE("the commands that the pages show work, second quarter of their blocks", "[long]") {
  run_blocks(1, 4);
}

TEST_CASE("the commands that the pages show work, third quarter of their blocks", "[long]") {
  run_blocks(2, 4);
}

TEST_CASE("the commands that the pages show work, last quarter of their blocks", "[long]") {
  run_blocks(3, 4);
}

TEST_CASE("every scenario's section opens with its question, runs it and ends with its answer") {
  const std::string page = test::read_bytes((kSource / "docs/scenarios.md").string());
  const ProgramResult listed = run_program(MOELAB_PROGRAM, {"scenarios", "--format", "json"});
  for (const Json& scenario : Json::parse(listed.out)) {
    const auto name = scenario["name"].get<std::string>();
    CAPTURE(name);
    const std::string section = between(page + "\n#", "\n### " + name + "\n", "\n#");
    CHECK(section.starts_with("\n### " + name + "\n\n**" + scenario["question"].get<std::string>() + "**\n"));
    CHECK((name.starts_with("validate-") || section.find("\nmoelab run " + name) != std::string::npos));
    CHECK(section.find("\n**Answer.** ") != std::string::npos);
  }
}

TEST_CASE("the scenario and the systems that docs/scenario-files.md shows are valid", "[plain]") {
  const std::string page = test::read_bytes((kSource / "docs/scenario-files.md").string());
  const test::ScratchFolder folder;
  const auto check = [&](const std::string& name, const Words& command) {
    const std::string block = between(page, "\nname: " + name + "\n", "\n```");
    REQUIRE_FALSE(block.empty());
    const std::string file = (folder / (name + ".yaml")).string();
    std::ofstream(file) << block << "\n";
    Words words = command;
    for (std::string& word : words) word = std::regex_replace(word, std::regex("FILE"), file);
    const ProgramResult result = run_program(MOELAB_PROGRAM, words);
    INFO(result.err);
    CHECK(result.status == 0);
  };
  check("my-scenario", {"check", "FILE"});
  check("my-system", {"check", "zipmoe-orin", "--set", "systems=[FILE]"});
  check("my-server", {"check", "fluxmoe-qwen3-next", "--set", "systems=[FILE]"});
}

}  // namespace moelab::shown_commands_test
