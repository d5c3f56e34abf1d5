// What a result carries: its scenario whole, which runs again to the same result, and what tells runs apart.
#include "sim/scenario/scenario_document.hpp"
#include "models/json.hpp"
#include "models/yaml_reader.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "models/config_store.hpp"
#include "sim/results/result_json.hpp"
#include "sim/run.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/scenario_files.hpp"
#include "traces/default_trace.hpp"

namespace moelab::scenario_document_test {

using namespace moelab::test;

namespace {

std::string identity(const Scenario& s, const SystemConfig& system) {
  return run_identity(scenario_document(s, system), data_files(s), {}, "fast");
}

}  // namespace

TEST_CASE("scenario document: of every embedded scenario it names no other configuration and reads back") {
  const std::vector<std::string> names = config_names("scenarios");
  for (std::size_t i = 0; i < names.size(); i += kFewerRuns ? 3 : 1) {
    const std::string& name = names[i];
    INFO(name);
    const Scenario s = load_scenario(name);
    const Scenario again = scenario_of_document("again.json", s.document);
    CHECK(again.document == s.document);  // nothing is left to resolve, and nothing was lost on the way
    for (const SystemConfig& system : s.systems) {
      // Of a scenario's systems, which are much alike, the first and the last where each takes its time.
      if (kFewerRuns && &system != &s.systems.front() && &system != &s.systems.back()) continue;
      const std::string document = scenario_document(s, system);
      const nlohmann::json j = nlohmann::json::parse(document);
      CHECK(j.at("model").is_object());
      CHECK(j.at(s.cluster ? "cluster" : s.machine ? "machine" : "device").is_object());
      REQUIRE(j.at("systems").size() == 1);
      CHECK(j.at("systems")[0].at("name") == system.name);
      CHECK(scenario_of_document("one.json", document).systems.size() == 1);
    }
  }
}

TEST_CASE("scenario document: what a run is does not depend on the folder that its data are named from") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("moelab_identity_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string file = (folder / "trace.safetensors").string();
  std::ofstream(file, std::ios::binary) << default_trace_bytes();
  const auto identity_of = [](const std::string& trace) {
    const Scenario s = load_scenario("recorded-default", {{"workload.trace", trace}});
    return identity(s, s.systems[0]);
  };
  CHECK(identity_of(file) == identity_of(std::filesystem::relative(file).string()));
  std::filesystem::remove_all(folder);
}

TEST_CASE("scenario document: overrides and settings are in it, and a run of it gives the same result") {
  const Scenario s = load_scenario("zipmoe-orin", {{"workload.requests", "1"},
                                                   {"workload.output_tokens", "6"},
                                                   {"overrides.system.threads", "3"},
                                                   {"overrides.device.ssd.read.latency", "50 us"}});
  const nlohmann::json j = nlohmann::json::parse(s.document);
  CHECK_FALSE(j.contains("overrides"));
  CHECK(j["workload"]["output_tokens"] == 6);
  CHECK(j["device"]["ssd"]["read"]["latency"] == "50 us");
  for (const SystemConfig& system : {s.systems[0], s.systems[5]}) {
    const Scenario again = scenario_of_document("again.json", scenario_document(s, system));
    RunResult first = run_system(s, system, scenario_trace(s));
    RunResult second = run_system(again, again.systems[0], scenario_trace(again));
    std::erase_if(first.provenance,
                  [](const std::string& line) { return line.starts_with("set for this run"); });
    CHECK(results_json({first}) == results_json({second}));
  }
}

TEST_CASE("scenario document: the trace that comes with the program has the digest of its file") {
  const auto inside = data_files(load_scenario("recorded-default"));
  REQUIRE(inside.size() == 1);
  const test::ScratchFolder here;
  test::write_bytes(here / "copy.safetensors", std::string(default_trace_bytes()));
  const auto copied = data_files(
      load_scenario("recorded-default", {{"workload.trace", (here / "copy.safetensors").string()}}));
  REQUIRE(copied.size() == 1);
  CHECK(inside[0].digest == copied[0].digest);
  CHECK(inside[0].path != copied[0].path);
}

TEST_CASE("scenario document: overrides reach a model that stands in a scenario itself, not a system") {
  const Scenario s = load_scenario("zipmoe-orin");
  const std::string document = scenario_document(s, s.systems[0]);
  const Scenario one = scenario_of_document("one.json", document,
                                            {{"systems.0.threads", "3"}, {"overrides.model.hidden", "4096"}});
  CHECK(one.systems[0].threads == 3);
  CHECK(one.model.hidden == 4096);
  CHECK_THROWS_WITH(scenario_of_document("one.json", document, {{"overrides.system.threads", "3"}}),
                    Catch::Contains("change it there, as in systems.0.threads"));
}

TEST_CASE("scenario document: runs are told apart by what they compute, not by where their files lie") {
  const Scenario base = load_scenario("zipmoe-orin");
  std::set<std::string> seen;
  for (const SystemConfig& system : base.systems) seen.insert(identity(base, system));
  for (const auto& setting :
       std::vector<std::pair<std::string, std::string>>{{"budget", "21 GB"},
                                                        {"seed", "2"},
                                                        {"overrides.system.threads", "2"},
                                                        {"device", "jetson-agx-orin-32gb"}})
    seen.insert(identity(load_scenario("zipmoe-orin", {setting}), base.systems[0]));
  CHECK(seen.size() == base.systems.size() + 4);
  CHECK(run_identity("{}", {}, {}, "fast") != run_identity("{}", {}, {}, "simgrid"));

  const test::ScratchFolder here;
  const auto log_at = [&](const std::string& name, const std::string& text) {
    const std::string path = (here / name).string();
    test::write_bytes(here / name, text);
    return load_scenario(
        "fluxmoe-mixtral",
        {{"workload", "{batch: 256, prefilled: true, law: debian-moe-8x32, request_log: " + path + "}"}});
  };
  const std::string log = "arrival_s,prompt_tokens,output_tokens\n0,10,3\n1,20,4\n";
  const Scenario one = log_at("a.csv", log);
  const Scenario moved = log_at("b.csv", log);
  const Scenario other = log_at("c.csv", log + "2,1,1\n");
  CHECK(identity(one, one.systems[0]) == identity(moved, moved.systems[0]));
  CHECK(identity(one, one.systems[0]) != identity(other, other.systems[0]));
}

TEST_CASE("scenario document: numbers, booleans and texts of YAML become those of JSON") {
  Problems problems;
  const YamlDocument d = YamlDocument::from_text(
      "x.yaml", "{a: 1, b: 1., c: 1e3, d: '1', e: true, f: 16 GB, g: ~, h: [x, -2.5], i: \"q\\\"\", j: 007}",
      problems);
  REQUIRE(problems.empty());
  CHECK(
      nlohmann::json::parse(d.node().json()) ==
      nlohmann::json::parse(R"({"a":1,"b":1,"c":1000.0,"d":"1","e":true,"f":"16 GB","g":null,"h":["x",-2.5],)"
                            R"("i":"q\"","j":"007"})"));
}

}  // namespace moelab::scenario_document_test
