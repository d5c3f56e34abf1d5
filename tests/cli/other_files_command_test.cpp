// Files that are not what a command reads: each is told its kind, and the command that reads it.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::other_files_command_test {
namespace {

/// What `report` and `explain` are told of a file of this name and content; nothing is written.
void check_told(const std::string& name, const std::string& content, const std::string& told) {
  const test::ScratchFolder folder;
  const std::string file = (folder / name).string(), page = (folder / "page.html").string();
  std::ofstream(file, std::ios::binary) << content;
  CAPTURE(name);
  check_refusal(run_program(MOELAB_PROGRAM, {"report", file, "--out", page}), file + ": " + told);
  CHECK_FALSE(std::filesystem::exists(page));
  check_refusal(run_program(MOELAB_PROGRAM, {"explain", file}), file + ": ");
}

std::string a_result(const std::string& file) {
  const ProgramResult run = run_program(
      MOELAB_PROGRAM, {"run", "zipmoe-orin", "--system", "zipmoe-lru", "--set", "workload.output_tokens=2",
                       "--set", "workload.prompt_tokens=4", "--out", file});
  CAPTURE(run.err);
  REQUIRE(run.status == 0);
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("other files: report and explain say what a file is that is no result, and what reads it") {
  check_told("a.yaml", "name: a\nmodel: olmoe-1b-7b\nsystems: [zipmoe]\n", "is a scenario; 'moelab run ");
  check_told("s.yaml", "name: a\nscenario: zipmoe-orin\naxes: {seed: [1, 2]}\n",
             "is a sweep; 'moelab sweep ");
  check_told("l.yaml", "# A law.\nformat: moelab-routing-law\nversion: 1\n",
             "is a law of routing; 'moelab trace generate ");
  check_told("d.yaml", "name: a\ntitle: A\nmemory: {}\n", "is a YAML file, which a scenario may name");
  check_told("log.csv", "arrival_s,prompt_tokens,output_tokens\n0,1,2\n",
             "is a CSV table; 'moelab trace import csv ");
  check_told("t.safetensors", std::string("\x40\0\0\0\0\0\0\0{\"a\":", 14),
             "is a safetensors file; 'moelab trace stats ");
  check_told("p.json", "\x89PNG\r\n\x1a\n", "is a picture (PNG)");
  check_told("p.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>", "is a picture (SVG)");
  check_told("m.gguf", std::string("GGUF\x03\0\0\0", 8), "is a GGUF file; 'moelab model import ");
  check_told("my FILE.gguf", std::string("GGUF\x03\0\0\0", 8),
             "is a GGUF file; 'moelab model import ");  // the word of the message in its name
  check_told("config.json", R"({"model_type": "qwen3_moe"})",
             "is a model's config.json; 'moelab model import ");
  check_told("r.jsonl", "{\"a\": 1}\n{\"a\": 2}\n",
             "holds a JSON document a line; 'moelab trace import jsonl ");
}

TEST_CASE("other files: explain sends what load wrote to report") {
  const test::ScratchFolder folder;
  const std::string file = (folder / "load.json").string();
  std::ofstream(file) << R"({"load_format": 1})";
  check_refusal(run_program(MOELAB_PROGRAM, {"explain", file}),
                "holds results of 'moelab load'; 'moelab report " + file);
}

TEST_CASE("other files: a result in a newer format than the program's is refused with both numbers") {
  const test::ScratchFolder folder;
  const std::string file = (folder / "result.json").string(), page = (folder / "page.html").string();
  auto result = nlohmann::ordered_json::parse(a_result(file));
  auto& one = result.is_array() ? result.front() : result;
  const int known = one["result_format"];
  const auto report = [&] { return run_program(MOELAB_PROGRAM, {"report", file, "--out", page}); };
  CHECK(report().status == 0);
  std::filesystem::remove(page);
  one["result_format"] = known + 97;
  std::ofstream(file) << result.dump();
  const std::string told = "has result_format " + std::to_string(known + 97) +
                           ", and this version of moelab reads formats up to " + std::to_string(known);
  check_refusal(report(), told);
  CHECK_FALSE(std::filesystem::exists(page));
  check_refusal(run_program(MOELAB_PROGRAM, {"explain", file}), told);
}

TEST_CASE("other files: a report that is not to be called .html is refused, and nothing is written") {
  const test::ScratchFolder folder;
  const std::string file = (folder / "result.json").string(), page = (folder / "page.pdf").string();
  a_result(file);
  check_refusal(run_program(MOELAB_PROGRAM, {"report", file, "--out", page}),
                "a report is one HTML page; expected a file whose name ends in .html");
  CHECK_FALSE(std::filesystem::exists(page));
}

}  // namespace moelab::other_files_command_test
