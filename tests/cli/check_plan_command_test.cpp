// moelab check --format json: the memory plan of every system, as a run's result has it.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "models/json.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::check_plan_command_test {

using namespace moelab::test;
using Json = nlohmann::json;

namespace {

Json printed(const std::vector<std::string>& arguments) {
  const ProgramResult r = run_program(MOELAB_PROGRAM, arguments);
  INFO(r.err);
  REQUIRE(r.status == 0);
  return Json::parse(r.out);
}

/// Of `check` and of `run` with these settings; one system of `run` at least.
void check_plans_of(const std::string& scenario, const std::vector<std::string>& systems,
                    const std::vector<std::string>& settings, const std::string& key) {
  std::vector<std::string> run = {"run", scenario, "--format", "json"};
  std::vector<std::string> check = {"check", scenario, "--format", "json"};
  for (const std::string& system : systems) run.insert(run.end(), {"--system", system});
  for (const std::string& setting : settings) {
    run.insert(run.end(), {"--set", setting});
    check.insert(check.end(), {"--set", setting});
  }
  const Json plan = printed(check), results = printed(run);
  CHECK(plan["valid"] == true);
  CHECK(plan["problems"].empty());
  std::size_t same = 0;
  for (const Json& result : results.is_array() ? results : Json::array({results}))
    for (const Json& system : plan["systems"]) {
      if (system["system"] != result["system"]) continue;
      CHECK(system["fits"] == true);
      CHECK(system[key] == result[key]);
      ++same;
    }
  CHECK(same == systems.size());
}

}  // namespace

TEST_CASE("check's JSON has the memory plan that runs have") {
  check_plans_of("zipmoe-orin", {"zipmoe", "moe-infinity"},
                 {"workload.requests=1", "workload.prompt_tokens=4", "workload.output_tokens=2"},
                 "memory_bytes");
}

TEST_CASE("check: a GPU that takes no part is said near the top, and holds nothing", "[plain]") {
  const auto check = [](const std::string& gpus) {
    return run_program(MOELAB_PROGRAM, {"check", "smoe-deepseek-3080ti", "--set",
                                        "machine={gpu: rtx-3080-ti-12gb, gpus: " + gpus +
                                            ", cpu: ryzen-9-7950x, ram: 64 GiB}"});
  };
  const std::string one = check("1").out, two = check("2").out;
  const std::string note =
      "note: 1 of the machine's 2 GPUs takes part; --set tensor_parallel=2 makes both take part";
  CHECK(one.find("note: ") == std::string::npos);
  REQUIRE(two.find(note) != std::string::npos);
  CHECK(two.find(note) < two.find("non-expert weights"));
  const auto driver = [](const std::string& text) {
    const std::size_t at = text.find("driver and libraries ");
    REQUIRE(at != std::string::npos);
    return text.substr(at, text.find("MiB", at) - at);
  };
  CHECK(driver(one) == driver(two));
  const Json plan =
      printed({"check", "zipmoe-orin", "--set", "machine={gpu: jetson-orin-nano-8gb, ssd: pcie5-x4}", "--set",
               "budget=4 GB", "--format", "json"});
  REQUIRE(plan["notes"].size() == 1);
  CHECK(plan["notes"][0].get<std::string>().find("the slot of NVIDIA Jetson Orin Nano 8 GB carries") !=
        std::string::npos);
}

TEST_CASE(
    "check's JSON: what memory is for adds up to the budget, and what does not fit says what it lacks") {
  const Json plan = printed({"check", "zipmoe-orin", "--format", "json"});
  REQUIRE(plan["systems"].size() >= 13);
  for (const Json& system : plan["systems"]) {
    const Json& m = system["memory_bytes"];
    double parts = 0;
    for (const char* part : {"non_expert", "kv_cache", "activations", "staging", "prefetch", "expert_cache"})
      parts += m[part].get<double>();
    INFO(system["system"]);
    CHECK(parts == Approx(20e9));
  }
  const Json small = printed({"check", "zipmoe-orin", "--set", "budget=2.8 GB", "--format", "json"});
  for (const Json& system : small["systems"])
    CHECK(system["fits"].get<bool>() == !system["memory_bytes"].contains("shortfall"));
}

TEST_CASE("check's JSON: every server of a cluster, and how many points a sweep has") {
  const Json cluster = printed({"check", "prism-deepseek-bigbench", "--format", "json"});
  REQUIRE(cluster["systems"].size() > 0);
  for (const Json& system : cluster["systems"]) {
    std::uint64_t held = 0;
    for (const Json& server : system["servers"])
      for (const Json& gpu : server["experts"]) held += gpu["held"].get<std::uint64_t>();
    INFO(system["system"]);
    CHECK(held >= 64 * 26);  // each of DeepSeek-V2-Lite's routed experts lies somewhere (its config.json)
  }
  const ScratchFolder folder;
  write_bytes(folder / "s.yaml",
              "name: s\nquestion: q\nscenario: zipmoe-orin\nsystems: [zipmoe-lru]\naxes: {budget: [16 GB, 20 "
              "GB], seed: "
              "[1, 2, 3]}\n");
  const Json sweep = printed({"check", (folder / "s.yaml").string(), "--format", "json"});
  CHECK(sweep["sweep"] == "s");
  CHECK(sweep["points"] == 6);
  CHECK(sweep["combinations"] == 6);
}

}  // namespace moelab::check_plan_command_test
