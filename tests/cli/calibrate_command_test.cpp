// moelab calibrate as a user meets it: a small machine-wide run by the line of docs/hardware-kit.md, on whose
// profile the page's validation runs; and what is refused before it measures.
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "models/device.hpp"
#include "models/json.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::calibrate_command_test {

using namespace moelab::test;
using Catch::Matchers::Contains;

namespace {

ProgramResult calibrate(std::vector<std::string> arguments,
                        const std::function<void(pid_t)>& meanwhile = {}) {
  arguments.insert(arguments.begin(), "calibrate");
  return run_program(MOELAB_PROGRAM, arguments, meanwhile);
}

/// The words of the page's line with this command. What it names in the folder that it is run in is in
/// `folder` instead.
std::vector<std::string> shown_line(const std::string& command, const ScratchFolder& folder) {
  std::ifstream page(std::string(MOELAB_SOURCE_DIR) + "/docs/hardware-kit.md");
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("moelab " + command + " ")) continue;
    std::vector<std::string> words = words_of(line);
    for (std::string& word : words)
      if (word.ends_with(".yaml")) word = (folder / word).string();
    return words;
  }
  throw std::runtime_error("docs/hardware-kit.md has no line of moelab " + command);
}

ProgramResult run_with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return run_program(MOELAB_PROGRAM, words);
}

void refuses(const std::vector<std::string>& arguments, const std::string& why) {
  const ProgramResult result = calibrate(arguments);
  INFO(result.err);
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Contains(why));
}

}  // namespace

TEST_CASE("calibrate writes a profile that the simulator reads and validate runs on, as the page shows",
          "[long]") {
  const ScratchFolder folder;
  const std::string out = (folder / "here.yaml").string();
  const ProgramResult made = run_with(shown_line("calibrate", folder),
                                      {"--quick", "--dir", ".", "--model", "validate-8x16", "--codec",
                                       "fixed3", "--shards", "4", "--no-gpu", "--format", "json"});
  INFO(made.err);
  REQUIRE(made.status == 0);
  const auto said = nlohmann::json::parse(made.out);
  CHECK(said["name"] == "here");
  CHECK(said["profile"] == out);
  CHECK(said["seconds"] < 300);
  const DeviceProfile profile = load_device(out);
  CHECK(profile.name == "here");
  REQUIRE(profile.measured_on);
  CHECK(profile.measured_on->command ==
        "moelab calibrate --quick --no-gpu --model validate-8x16 --shards 4 --codec fixed3");
  CHECK_FALSE(profile.gpu);
  REQUIRE(profile.codecs.size() == 1);
  const double ratio = profile.codecs.at("fixed3").ratio.value;
  CHECK((ratio > 0.375 && ratio < 0.5));  // 3 bits of 8 and the escapes
  REQUIRE(profile.cpu.experts.size() == 1);
  CHECK(profile.cpu.experts.front().hidden == 1024);
  CHECK(profile.cpu.experts.front().width == 1024);
  for (const auto& figure : said["figures"])
    if (figure["variation"] > 0.05) CHECK((figure["noisy"] == true || figure["points"] == 0));
  CHECK(folder.names() == std::vector<std::string>{"here.yaml"});

  // Calibrate, then scale: 64 of this machine, beside each other.
  write_bytes(
      folder / "rack.yaml",
      "{name: rack, title: Rack, sources: {switch: {kind: assumed, text: a test}}, "
      "servers: [{name: box, device: here.yaml, count: 64}], "
      "network: {bandwidth: {value: 10 Gbit/s, source: switch}, latency: {value: 50 us, source: switch}}}");
  write_bytes(
      folder / "many.yaml",
      "{name: many, model: validate-8x16, cluster: rack.yaml, budget: 1 GB, workload: {tasks: [{name: a, "
      "prompt_tokens: 4, output_tokens: 2}], servers: [{server: box, tasks: {a: 1}, requests: 1}]}, "
      "systems: [prism, moe-infinity-edge]}");
  const ProgramResult scaled = run_program(
      MOELAB_PROGRAM, {"run", (folder / "many.yaml").string(), "--executor", "fast", "--format", "json"});
  INFO(scaled.err);
  REQUIRE(scaled.status == 0);
  for (const auto& result : nlohmann::json::parse(scaled.out)) {
    REQUIRE(result["cluster"]["servers"].size() == 64);
    for (const auto& server : result["cluster"]["servers"]) CHECK(server["requests"] == 1);
  }
  for (const char* const name : {"rack.yaml", "many.yaml"}) std::filesystem::remove(folder / name);

  // Two of the model's layers, a store of one codec, one budget, two tokens.
  const ProgramResult validated = run_with(
      shown_line("validate", folder),
      {"--codecs", "fixed3", "--threads", "1", "--budgets", "200 MB", "--set", "overrides.model.layers=2",
       "--tokens", "2", "--repeats", "1", "--store", (folder / "stores").string(), "--format", "json"});
  INFO(validated.err);
  REQUIRE(validated.status == 0);
  CHECK(nlohmann::json::parse(validated.out)["same_work"] == true);
}

TEST_CASE("calibrate refuses what cannot work before it measures") {
  const ScratchFolder folder;
  const std::string out = (folder / "here.yaml").string();
  refuses({"--out", "/dev/null/no/here.yaml"}, "/dev/null is no folder");
  refuses({"--out", "/dev/null"}, "is not a regular file");
  refuses({"--out", out, "--model", "olmoe-1b-8b"}, "olmoe-1b-7b");
  refuses({"--out", out, "--codec", "fixed2"}, "fixed3");
  refuses({"--out", out, "--shards", "0"}, "expected 1 to 256");
  refuses({"--out", out, "--dir", (folder / "none").string()}, "is not a folder");
  const ScratchFolder models;
  write_bytes(models / "huge.yaml",
              "{name: huge, title: t, source: s, hidden: 1000000, vocab: 9, layers: 1, attention: {kind: "
              "kv_heads, heads: 1, kv_heads: 1, head_dim: 8}, moe: {experts: 2, top_k: 1, width: 1000000}}");
  refuses({"--out", out, "--model", (models / "huge.yaml").string()}, "MiB of memory, there are");
  refuses({"--out", (folder / "two words.yaml").string()}, "expected letters, digits");
  refuses({"--out", out, "--name", "a b"}, "expected letters, digits");
  refuses({}, "--out");
  CHECK(folder.names().empty());
}

TEST_CASE("an interrupted calibration leaves nothing") {
  const ScratchFolder folder;
  const std::string out = (folder / "here.yaml").string();
  const ProgramResult result = calibrate({"--quick", "--out", out, "--dir", "."}, [](pid_t process) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ::kill(process, SIGINT);
  });
  CHECK(result.status == 128 + SIGINT);
  CHECK(folder.names().empty());
}

}  // namespace moelab::calibrate_command_test
