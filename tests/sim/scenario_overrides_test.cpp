// Settings and overrides of scenarios: what they reach, what they pass over, and what is wrong is said.
#include "sim/scenario_overrides.hpp"

#include <catch2/catch.hpp>

#include "tests/sim/scenario_files.hpp"

namespace moelab::scenario_overrides_test {

using namespace moelab::test;

TEST_CASE("scenario: settings and overrides change values before they are checked") {
  Files files;
  const Scenario s = files.load({{"budget", "400 kB"},
                                 {"workload.batch", "1"},
                                 {"overrides.model.moe.experts", "8"},
                                 {"overrides.device.ssd.read.rate", "1 GB/s"},
                                 {"overrides.device.cpu.threads.value", "8"},
                                 {"overrides.system.threads", "6"},
                                 {"systems.1.cache.policy", "lfu"}});
  CHECK(s.budget == Bytes(400e3));
  CHECK(s.workload.batch == 1);
  CHECK(s.model.moe().experts == 8);
  CHECK(s.device.ssd.read.value(1e9) == Approx(5e-6 + 1));
  CHECK(s.device.cpu.threads.value == 8);
  CHECK(s.systems[0].threads == 6);
  CHECK(s.systems[1].cache.name == "lfu");
  CHECK(s.settings.size() == 7);

  // The same, written in the scenario.
  files.change("scenario.yaml", "seed: 3\n",
               "seed: 3\noverrides: {system: {planning: {ratios: {F: 0.25, S: 0.75}}}}\n");
  CHECK(files.load().systems[0].ratios == std::array<double, kStates>{0.25, 0, 0.75, 0, 0});
}

TEST_CASE("scenario: an override of what only compressed weights have passes over the others") {
  const Scenario s = load_scenario("zipmoe-orin", {{"overrides.system.threads", "3"}});
  bool any_whole = false;
  for (const SystemConfig& system : s.systems) {
    CHECK(system.threads == (system.compressed ? 3 : 1));
    any_whole |= !system.compressed;
  }
  CHECK(any_whole);
  Files files;
  const auto nothing = files.problems({{"systems", "[accelerate]"}, {"overrides.system.threads", "3"}});
  REQUIRE(nothing.size() == 1);
  CHECK(says(nothing, "scenario.yaml (with overrides.system.threads='3')", 0, "no effect"));
}

TEST_CASE("scenario: an override of the prefetch buffer passes over systems that have no use for it") {
  const Scenario s = load_scenario("zipmoe-orin", {{"overrides.system.prefetch.buffer", "16"}});
  for (const SystemConfig& system : s.systems) {
    INFO(system.name);
    const std::uint32_t layer = static_cast<std::uint32_t>(s.model.moe().experts);
    CHECK(system.prefetch_buffer == (system.name == "moe-infinity"      ? 16
                                     : system.name == "deepspeed-zero3" ? 2 * layer
                                                                        : 0));
  }
}

TEST_CASE("scenario: an override of a policy's parameter passes over systems with another policy") {
  Files files;
  files.write("routed.yaml",
              "name: routed\nweights: whole\nrouting: {policy: smoe, alpha: 0.1}\n"
              "cache: {policy: score-average}\n");
  files.write("classed.yaml", "name: classed\nweights: whole\nrouting: {policy: smoe, substitute: 0}\n");
  files.write("plain.yaml", "name: plain\nweights: whole\nrouting: {policy: model}\n");
  files.write("none.yaml", "name: none\nweights: whole\ncache: {policy: lru}\n");
  const std::pair<std::string, std::string> all{"systems",
                                                "[routed.yaml, classed.yaml, plain.yaml, none.yaml]"};
  const Scenario s =
      files.load({all, {"overrides.system.routing.alpha", "0.25"}, {"overrides.system.cache.window", "7"}});
  CHECK(s.systems[0].routing.parameters == PolicyParameters{{"alpha", 0.25}});
  CHECK(s.systems[0].cache.parameters == PolicyParameters{{"window", 7}});
  CHECK(s.systems[1].routing.parameters == PolicyParameters{{"alpha", 0.25}, {"substitute", 0}});
  CHECK(s.systems[1].cache.name == "none");
  for (const std::size_t i : {2, 3}) {
    CHECK(s.systems[i].routing.name == "model");
    CHECK(s.systems[i].routing.parameters.empty());
    CHECK(s.systems[i].cache.parameters.empty());
  }
  // With the policy in the same override all systems have it, and the parameter.
  const Scenario every = files.load(
      {all, {"overrides.system.routing.policy", "smoe"}, {"overrides.system.routing.alpha", "0.25"}});
  for (const SystemConfig& system : every.systems) {
    CHECK(system.routing.name == "smoe");
    CHECK(system.routing.parameters.at("alpha") == 0.25);
  }
  // Written in the scenario as well.
  files.change("scenario.yaml", "seed: 3\n", "seed: 3\noverrides: {system: {routing: {alpha: 0.5}}}\n");
  CHECK(files.load({all}).systems[0].routing.parameters.at("alpha") == 0.5);
}

TEST_CASE("scenario: an override of a policy's parameter that reaches no system, or is none, is an error") {
  Files files;
  files.write("plain.yaml", "name: plain\nweights: whole\n");
  files.write("routed.yaml", "name: routed\nweights: whole\nrouting: {policy: smoe}\n");
  struct Case {
    std::string systems, path, value, message;
  };
  for (const Case& bad : std::vector<Case>{
           {"[plain.yaml]", "routing.alpha", "0.25",
            "'routing.alpha' has no effect: no system's routing policy has it"},
           {"[plain.yaml]", "cache.window", "5", "'cache.window' has no effect"},
           {"[plain.yaml, routed.yaml]", "routing.alpha", "1.5", "'1.5' for routing.alpha"},
           {"[routed.yaml]", "routing.alpa", "0.25", "unknown key 'alpa' in routing (did you mean 'alpha'?)"},
           {"[plain.yaml]", "routing.policy", "smo", "(did you mean 'smoe'?)"},
           {"[plain.yaml]", "routing", "smoe", "routing"}}) {
    const auto problems =
        files.problems({{"systems", bad.systems}, {"overrides.system." + bad.path, bad.value}});
    INFO(bad.path << "=" << bad.value << "\n" << all_of(problems));
    CHECK(problems.size() == 1);
    CHECK(says(problems, "", 0, bad.message));
  }
}

TEST_CASE("scenario: bad settings and overrides are errors that name them") {
  const Files files;
  struct Case {
    std::string path, value, message;
  };
  for (const Case& bad : std::vector<Case>{
           {"budget", "much", "budget"},
           {"bugdet", "300 kB", "unknown key 'bugdet'"},
           {"workload.batch", "0", "workload.batch"},
           {"overrides.system.treads", "4", "unknown key 'treads' (did you mean 'threads'?)"},
           {"overrides.system.threads", "many", "'many' for threads"},
           {"overrides.system.threads", "5", "has 4 cores"},
           {"overrides.device.ssd.speed", "1 GB/s", "unknown key 'speed' in ssd"},
           {"overrides.device.ssd.read.rate", "1 GB", "ssd.read.rate"},
           {"overrides.model.layer", "3", "unknown key 'layer' (did you mean 'layers'?)"},
           {"overrides.sytem.threads", "4", "unknown key 'sytem' in overrides (did you mean 'system'?)"},
           {"overrides.system.cache.pools", "[F]", "is a list"},
           {"systems.7.threads", "4", "systems"}}) {
    const auto problems = files.problems({{bad.path, bad.value}});
    INFO(bad.path << "=" << bad.value << "\n" << all_of(problems));
    CHECK(says(problems, "", 0, bad.message));
  }
}

}  // namespace moelab::scenario_overrides_test
