// moelab completion: what bash offers when the script is sourced; zsh and fish, where they are installed,
// read theirs.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::completion_command_test {
namespace {

namespace fs = std::filesystem;
using Words = std::set<std::string>;

std::string script(const std::string& shell) {
  const ProgramResult result = run_program(MOELAB_PROGRAM, {"completion", shell});
  REQUIRE(result.status == 0);
  return result.out;
}

class Bash {
 public:
  Bash() { std::ofstream(path_) << script("bash"); }
  /// What stands in COMPREPLY when the last word is completed.
  Words offers(const std::vector<std::string>& words) const {
    std::string command = "source " + path_ + "; COMP_WORDS=(moelab";
    for (const std::string& word : words) command += " '" + word + "'";
    command +=
        "); COMP_CWORD=" + std::to_string(words.size()) + "; _moelab; printf '%s\\n' \"${COMPREPLY[@]}\"";
    const ProgramResult result = run_program("/bin/bash", {"--norc", "-c", command});
    CAPTURE(result.err);
    CHECK(result.status == 0);
    CHECK(result.err.empty());
    std::istringstream lines(result.out);
    Words offered;
    for (std::string line; lines >> line;) offered.insert(line);
    return offered;
  }

 private:
  test::ScratchFolder folder_;
  std::string path_ = (folder_ / "moelab.bash").string();
};

Words names_of(const std::string& kind, const std::string& beginning = "") {
  Words names;
  for (const auto& file : fs::directory_iterator(MOELAB_SOURCE_DIR "/configs/" + kind))
    if (file.path().extension() == ".yaml" && file.path().stem().string().starts_with(beginning))
      names.insert(file.path().stem().string());
  return names;
}

}  // namespace

TEST_CASE("bash completes commands, options and the names that they take") {
  const Bash bash;
  CHECK(bash.offers({"ru"}) == Words{"run", "runtimes"});
  CHECK(bash.offers({"trace", "st"}) == Words{"stats"});
  CHECK(bash.offers({"run", "zip"}) == names_of("scenarios", "zip"));
  CHECK(bash.offers({"run", ""}) == names_of("scenarios"));
  CHECK(bash.offers({"sweep", ""}) == names_of("sweeps"));
  CHECK(bash.offers({"run", "--fo"}) == Words{"--format"});
  CHECK(bash.offers({"run", "zipmoe-orin", "--format", ""}) == Words{"json", "markdown", "table"});
  CHECK(bash.offers({"run", "--format", "=", "j"}) == Words{"json"});
  CHECK(bash.offers({"run", "--system", "vllm"}) == names_of("systems", "vllm"));
  CHECK(bash.offers({"run", "--system", "vllm", "zip"}) == names_of("scenarios", "zip"));  // behind an option
  CHECK(bash.offers({"run", "zipmoe-orin", "zip"}).empty());  // there is one scenario in a run
  CHECK(bash.offers({"run", "--out", ""}).empty());           // files, which bash completes itself
  CHECK(bash.offers({"trace", "law", "deepseek"}) == names_of("models", "deepseek"));
  CHECK(bash.offers({"completion", ""}) == Words{"bash", "fish", "zsh"});
  CHECK(bash.offers({"schedule", "--policy", "longest"}) == Words{"longest-first"});
}

TEST_CASE("bash completes families and policies where a policy is begun or checked") {
  const Bash bash;
  Words families;  // each has a template from which its policies begin
  for (const auto& file : fs::directory_iterator(MOELAB_SOURCE_DIR "/policies/templates"))
    if (const std::string name = file.path().filename().string(); name.ends_with(".cpp.in"))
      families.insert(name.substr(0, name.find('.')));
  CHECK(families.size() == 11);
  CHECK(bash.offers({"new", ""}) == Words{"policy"});
  CHECK(bash.offers({"new", "policy", ""}) == families);
  CHECK(bash.offers({"new", "policy", "cache", ""}).empty());  // the name is the user's
  CHECK(bash.offers({"check-policy", "--family", ""}) == families);
  CHECK(bash.offers({"check-policy", "siev"}) == Words{"sieve"});
  CHECK(bash.offers({"check-policy", "longest"}) == Words{"longest-first"});
  CHECK(bash.offers({"schema", ""}) ==
        Words{"cluster", "device", "law", "model", "part", "runtime", "scenario", "sweep", "system"});
  CHECK(bash.offers({"man", "tra"}) == Words{"trace", "traces"});
}

TEST_CASE("bash offers every command and every option that the program's help has") {
  const Bash bash;
  std::istringstream help(run_program(MOELAB_PROGRAM, {"--help"}).out);
  Words commands;
  bool listing = false;
  for (std::string line; std::getline(help, line);) {
    if (line.starts_with("Subcommands:")) listing = true;
    if (listing && line.starts_with("  ") && line[2] != ' ')
      commands.insert(line.substr(2, line.find(' ', 2) - 2));
    if (line.starts_with("Example")) break;
  }
  CHECK(commands.size() > 25);
  CHECK(bash.offers({""}) == commands);
  const std::string of_run = run_program(MOELAB_PROGRAM, {"run", "--help"}).out;
  const Words options = bash.offers({"run", "-"});
  CHECK(options.size() > 10);
  for (const std::string& option : options) CHECK(contains(of_run, option));
}

TEST_CASE("zsh and fish read their scripts, where they are installed") {
  const test::ScratchFolder folder;
  for (const std::string shell : {"zsh", "fish"}) {
    const std::string path = (folder / shell).string();
    std::ofstream(path) << script(shell);
    if (!fs::exists("/usr/bin/" + shell)) continue;
    const ProgramResult read = run_program("/usr/bin/" + shell, {"-n", path});
    CAPTURE(shell, read.err);
    CHECK(read.status == 0);
  }
  if (!fs::exists("/usr/bin/fish")) return;
  const ProgramResult offered = run_program(
      "/usr/bin/fish", {"-c", "source " + (folder / "fish").string() + "; complete -C 'moelab run zip'"});
  std::istringstream lines(offered.out);
  Words words;
  for (std::string line; std::getline(lines, line);) words.insert(line.substr(0, line.find('\t')));
  for (const std::string& name : names_of("scenarios", "zip")) CHECK(words.contains(name));
}

TEST_CASE("completion is of three shells") {
  check_refusal(run_program(MOELAB_PROGRAM, {"completion", "tcsh"}), "tcsh");
}

}  // namespace moelab::completion_command_test
