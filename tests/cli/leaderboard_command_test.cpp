// moelab compare --leaderboard and moelab leaderboard: what is appended is what was compared.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "models/json.hpp"
#include "models/text_file.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::leaderboard_command_test {
namespace {

using nlohmann::json;

ProgramResult compare(const std::vector<std::string>& more) {
  std::vector<std::string> all = {"compare",  "zipmoe-orin",
                                  "--system", "zipmoe-lru",
                                  "--set",    "workload.requests=2",
                                  "--set",    "workload.output_tokens=12",
                                  "--seeds",  "2",
                                  "--format", "json"};
  all.insert(all.end(), more.begin(), more.end());
  const ProgramResult result = run_program(MOELAB_PROGRAM, all);
  CAPTURE(result.err);
  CHECK(result.status == 0);
  return result;
}

std::vector<json> lines_of(const std::string& file) {
  std::vector<json> lines;
  std::istringstream text(read_text_file(file));
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

json ranked(const std::string& file) {
  const ProgramResult result = run_program(MOELAB_PROGRAM, {"leaderboard", file, "--format", "json"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out)["settings"];
}

}  // namespace

TEST_CASE("leaderboard: a line for each block and policy, with the comparison's figures") {
  test::ScratchFolder folder;
  const std::string file = (folder / "board.jsonl").string();
  const json result =
      json::parse(compare({"--cache", "lru,lru-k:k=3", "--budget", "16,20", "--leaderboard", file}).out);
  const std::vector<json> lines = lines_of(file);
  REQUIRE(lines.size() == 2 * 3);  // with the bound
  std::size_t i = 0;
  for (const json& block : result["budgets"])
    for (const json& row : block["policies"]) {
      const json& line = lines[i++];
      CHECK(line["budget_bytes"] == block["budget_bytes"]);
      CHECK(line["policy"] == row["policy"]);
      CHECK((line["bound"] == row["bound"] && line["hit_share"] == row["hit_share"]));
      CHECK(line["tpot_s"].get<double>() == Approx(row["tpot_s"].get<double>()));
      CHECK(line["regret_s"].get<double>() == Approx(row["regret"]["tpot_s"].get<double>()).margin(1e-15));
      for (std::size_t s = 0; s < 2; ++s) CHECK(line["tpot_by_seed_s"][s] == row["seeds"][s]["tpot_s"]);
      CHECK(line["library"] == "moelab " + line["moelab"].get<std::string>());
      if (row["policy"] == "lru-k") CHECK(line["parameters"]["k"] == 3);
    }
  const json settings = ranked(file);
  REQUIRE(settings.size() == 2);
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t r = 0; r < 2; ++r)
      CHECK(settings[b]["rivals"][r]["line"]["policy"] == result["budgets"][b]["policies"][r]["policy"]);
}

TEST_CASE("leaderboard: settings differ where anything does but policy, budget and seeds", "[plain]") {
  test::ScratchFolder folder;
  const std::string file = (folder / "board.jsonl").string();
  const auto add = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--cache", "fifo", "--leaderboard", file});
    compare(more);
    return lines_of(file).back()["setting"].get<std::string>();
  };
  const std::string base = add({});
  CHECK(add({"--budget", "16"}) == base);
  CHECK(add({"--set", "seed=7"}) == base);
  CHECK(add({"--set", "overrides.system.cache.policy=arc"}) == base);
  CHECK(add({"--set", "workload.output_tokens=13"}) != base);
  CHECK(add({"--law", "mixtral-8x7b"}) != base);
  CHECK(add({"--set", "overrides.system.threads=2"}) != base);
  CHECK(ranked(file).size() == 6);
}

TEST_CASE("leaderboard: a library's policies carry its digest, and its lines stand beside moelab's") {
  test::ScratchFolder folder;
  const std::string file = (folder / "board.jsonl").string(),
                    library = MOELAB_LIBRARIES "/libsame_policies.so";
  compare({"--cache", "lru", "--leaderboard", file});
  compare({"--cache", "my-lru", "--policy-library", library, "--leaderboard", file});
  const std::string bytes = read_text_file(library);
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(bytes.data(), bytes.size())));
  const json settings = ranked(file);
  REQUIRE(settings.size() == 1);  // its library belongs to the policy, not to the setting
  REQUIRE(settings[0]["rivals"].size() == 2);
  CHECK(settings[0]["rivals"][1]["line"]["library"] == std::string("xxh3 ") + digits);
  CHECK(settings[0]["rivals"][0]["line"]["tpot_by_seed_s"] ==
        settings[0]["rivals"][1]["line"]["tpot_by_seed_s"]);
}

TEST_CASE("leaderboard: a library of a policy of another family belongs to the setting", "[plain]") {
  test::ScratchFolder folder;
  const std::string file = (folder / "board.jsonl").string(), library = (folder / "policies.so").string();
  const std::string bytes = read_text_file(MOELAB_LIBRARIES "/libsame_policies.so");
  const auto setting = [&](const std::string& family, const std::string& end_of_library) {
    std::filesystem::remove(library);
    std::ofstream(library, std::ios::binary) << bytes << end_of_library;
    compare({"--" + family, family == "cache" ? "my-lfu" : "fifo", "--policy-library", library, "--set",
             "overrides.system.cache.policy=my-lru", "--leaderboard", file});
    return lines_of(file).back()["setting"].get<std::string>();
  };
  // Two libraries at one path, of which the loader sees the same: behind their end it looks at nothing.
  const std::string of_schedules = setting("schedule", ""), of_caches = setting("cache", "");
  CHECK(setting("schedule", "x") != of_schedules);
  CHECK(setting("schedule", "") == of_schedules);
  CHECK(setting("cache", "x") == of_caches);
}

TEST_CASE("leaderboard: for people, ranked, the same policy's latest line only") {
  test::ScratchFolder folder;
  const std::string file = (folder / "board.jsonl").string();
  for (int i = 0; i < 2; ++i) compare({"--cache", "lru,none", "--leaderboard", file});
  CHECK(lines_of(file).size() == 6);
  const ProgramResult shown = run_program(MOELAB_PROGRAM, {"leaderboard", file});
  CHECK(shown.out.starts_with("cache policies in zipmoe-orin, system zipmoe-lru: DeepSeek-V2-Lite on "));
  std::istringstream text(shown.out);
  std::vector<std::string> first_words;
  for (std::string line, word; std::getline(text, line);) {
    std::istringstream words(line);
    if (words >> word) first_words.push_back(word);
  }
  REQUIRE(first_words.size() > 5);
  CHECK(std::vector<std::string>(first_words.begin() + 1, first_words.begin() + 5) ==
        std::vector<std::string>{"policy", "lru", "none", "belady"});
}

TEST_CASE("leaderboard: files that are none are refused before anything runs") {
  test::ScratchFolder folder;
  const std::string file = (folder / "board.jsonl").string();
  std::ofstream(file) << "\n{\"setting\": 1}\n";
  check_refusal(run_program(MOELAB_PROGRAM, {"leaderboard", file}), file + ":2: 'setting': expected a text");
  check_refusal(run_program(MOELAB_PROGRAM,
                            {"compare", "zipmoe-orin", "--system", "zipmoe-lru", "--leaderboard", file}),
                file + ":2: ");
  CHECK(read_text_file(file) == "\n{\"setting\": 1}\n");
  check_refusal(run_program(MOELAB_PROGRAM, {"leaderboard", (folder / "none").string()}), "cannot be opened");
  check_refusal(
      run_program(MOELAB_PROGRAM, {"compare", "zipmoe-orin", "--leaderboard", folder.path().string()}),
      "is not a regular file");
}

}  // namespace moelab::leaderboard_command_test
