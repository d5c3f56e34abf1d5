// What moelab advise says of memory: items that add up to what has to fit.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/cli/run_program.hpp"

namespace moelab::memory_of_advise_test {

using Json = nlohmann::json;

namespace {

Json advised(std::vector<std::string> options, const std::string& model) {
  std::vector<std::string> all{"advise", "--model", model, "--no-policies", "--format", "json"};
  all.insert(all.end(), options.begin(), options.end());
  const ProgramResult result = run_program(MOELAB_PROGRAM, all);
  INFO(result.err);
  REQUIRE(result.status == 0);
  return Json::parse(result.out);
}

}  // namespace

TEST_CASE("advise: memory by items, whose sum is the table's") {
  const ProgramResult result = run_program(
      MOELAB_PROGRAM, {"advise", "--model", "gpt-oss-120b", "--gpu", "rtx-3090-24gb", "--cpu", "i9-14900K",
                       "--memory", "ddr5-6000", "--no-policies", "--format", "json"});
  REQUIRE(result.status == 0);
  const Json all = Json::parse(result.out);
  int of_llama = 0, of_others = 0;
  for (const Json& a : all.at("ways")) {
    const auto bytes = [&](const char* item) { return a.at(item).get<double>(); };
    const double gpu = bytes("gpu_weights_bytes") + bytes("gpu_kv_bytes") + bytes("gpu_compute_bytes") +
                       bytes("gpu_context_bytes") + bytes("gpu_reserve_bytes");
    CHECK(bytes("gpu_bytes") == Approx(gpu).epsilon(1e-12));
    CHECK(bytes("gpu_bytes") <= 24 * 0x1p30);
    CHECK(bytes("host_bytes") == Approx(bytes("host_weights_bytes") + bytes("host_compute_bytes")));
    const bool llama = contains(a.at("runtime"), "llama.cpp");
    ++(llama ? of_llama : of_others);
    CHECK((bytes("gpu_reserve_bytes") == 0) == llama);
    CHECK((bytes("gpu_compute_bytes") > 0) == llama);
  }
  CHECK(of_llama > 0);
  CHECK(of_others > 0);
}

TEST_CASE("advise: the context that is not asked for holds the prompt and an answer, in memory and commands",
          "[plain]") {
  // (prompt + 1024) rounded up to whole 1024s, 4096 at least.
  const std::vector<std::pair<int, int>> rule{
      {512, 4096}, {3072, 4096}, {3073, 5120}, {4000, 5120}, {5000, 6144}};
  for (const auto& [prompt, context] : rule) {
    const Json all = advised(
        {"--gpu", "rtx-3090-24gb", "--cpu", "i9-14900K", "--prompt", std::to_string(prompt)}, "olmoe-1b-7b");
    CAPTURE(prompt);
    CHECK(all.at("context_tokens") == context);
    CHECK_FALSE(all.at("ways").empty());
    for (const Json& a : all.at("ways")) {
      const std::string command = a.at("command");
      const std::string tokens = std::to_string(context);
      CHECK((contains(command, " -c " + tokens) || contains(command, " --max-model-len " + tokens) ||
             contains(command, " --context-length " + tokens)));
    }
  }
  // 16 layers, 16 heads of 128 for keys and for values, 2 bytes each: 131072 bytes a token.
  const Json all =
      advised({"--gpu", "rtx-3090-24gb", "--runtime", "llama.cpp-cuda", "--prompt", "4000"}, "olmoe-1b-7b");
  CHECK_FALSE(all.at("ways").empty());
  for (const Json& a : all.at("ways")) CHECK(a.at("gpu_kv_bytes") == 131072.0 * 5120);
}

TEST_CASE("advise: the memory that it needs is the least that does", "[plain]") {
  const auto with_ram = [](const std::string& model, double gb) {
    return run_program(MOELAB_PROGRAM, {"advise", "--model", model, "--gpu", "rtx-4070-12gb", "--cpu",
                                        "i9-14900K", "--ram", std::to_string(gb) + " GB", "--no-policies",
                                        "--weights", "gguf-q8_0", "gguf-q4_k_m"});
  };
  for (const auto& [model, little] :
       {std::pair<std::string, double>{"gpt-oss-120b", 40}, {"qwen3-30b-a3b", 4}}) {
    const ProgramResult lacking = with_ram(model, little);
    CAPTURE(model, lacking.err);
    REQUIRE(lacking.status == 1);
    const std::string before = "the host's memory needs ";
    const std::size_t at = lacking.err.find(before);
    REQUIRE(at != std::string::npos);
    const double needed = std::stod(lacking.err.substr(at + before.size()));
    const double kept = 3, rounding = 0.01;  // GB: of the system; figures have four digits
    CHECK(with_ram(model, needed + kept + rounding).status == 0);
    CHECK(with_ram(model, needed + kept - rounding).status == 1);
  }
}

}  // namespace moelab::memory_of_advise_test
