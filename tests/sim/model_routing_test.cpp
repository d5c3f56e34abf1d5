// Which routing a scenario gets that says nothing of it, and what its result says of that.
#include <catch2/catch.hpp>
#include <string>

#include "models/config_store.hpp"
#include "models/json.hpp"
#include "sim/explain/explain.hpp"
#include "sim/results/result_json.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "traces/law/model_law.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::model_routing_test {
namespace {

using Catch::Matchers::Contains;
using Settings = std::vector<std::pair<std::string, std::string>>;

Settings short_job(Settings more = {}) {
  Settings settings = {
      {"workload.requests", "1"}, {"workload.prompt_tokens", "4"}, {"workload.output_tokens", "6"}};
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

std::string title_of(const Scenario& scenario) {
  return routing_title(scenario, scenario_trace(scenario));
}

}  // namespace

TEST_CASE("a workload that says nothing of its routing draws from its model's law") {
  const Scenario own = load_scenario("zipmoe-orin", short_job());
  CHECK(own.workload.has_law);
  CHECK(own.workload.law_file == "configs/laws/deepseek-v2-lite.yaml");
  CHECK(title_of(own) == "law of this model (from published figures, ±3 points)");
  // The same rows as where the law is named.
  const Scenario named = load_scenario("zipmoe-orin", short_job({{"workload.law", "deepseek-v2-lite"}}));
  const RoutingTrace a = scenario_trace(own), b = scenario_trace(named);
  REQUIRE(a.tokens() == b.tokens());
  for (std::uint64_t t = 0; t < a.tokens(); ++t)
    for (std::uint32_t l = 0; l < a.layers(); ++l) {
      const auto x = a.experts_of(t, l), y = b.experts_of(t, l);
      CHECK(std::equal(x.begin(), x.end(), y.begin(), y.end()));
    }
  // Its weights are no BF16, which ZipMoE's own systems compress.
  CHECK(title_of(load_scenario("zipmoe-orin", short_job({{"model", "gpt-oss-20b"}}), {"moe-infinity"})) ==
        "law of this model (measured, ±2 points)");
  CHECK(title_of(load_scenario("zipmoe-orin", short_job({{"model", "moonlight-16b-a3b"}}))) ==
        "by rule (±6 points)");
}

TEST_CASE("what a workload says of its routing goes before its model's law") {
  for (const char* key : {"skew", "reuse", "drift", "gate_decay"}) {
    const Scenario s = load_scenario("zipmoe-orin", short_job({{std::string("workload.") + key, "0.5"}}));
    CHECK(!s.workload.has_law);
    CHECK_THAT(title_of(s), Contains("generator (") && Contains(std::string(key) + " 0.5"));
  }
  CHECK(title_of(load_scenario("recorded-default")) == "recorded trace debian-moe-8x32");
  // A law of another model does not say how near it comes to this one's.
  const Scenario other = load_scenario("zipmoe-orin", short_job({{"workload.law", "gpt-oss-20b"}}));
  CHECK(title_of(other) == "law of openai/gpt-oss-20b");
  CHECK(other.workload.law.points == 0);
}

TEST_CASE("every catalogue model's scenario says how well its routing is known") {
  for (const std::string& name : config_names("models")) {
    const Architecture model = load_any_architecture(name);
    if (!model.is_moe() || model.has_encoder()) continue;
    INFO(name);
    const std::vector<std::string> laws = config_names("laws");
    const std::string title = law_title(law_of_model(model).law);
    const bool known = std::find(laws.begin(), laws.end(), name) != laws.end();
    CHECK_THAT(title, Contains(known ? "law of this model (" : "by rule (") && Contains("points)"));
  }
}

TEST_CASE("a result says what its routing stands on, and explain how far the answer moves with it") {
  const Scenario s = load_scenario("zipmoe-orin", short_job(), {"zipmoe-lru"});
  const RunResult r = run_system(s, s.systems.front(), scenario_trace(s));
  CHECK(nlohmann::json::parse(results_json({r})).at("routing_source") == r.routing);
  CHECK_THAT(results_table(s, {r}),
             Contains("\nrouting: law of this model (from published figures, ±3 points)\n"));
  const Explanation e = explain(results_of_text("r.json", results_json({r})).front());
  REQUIRE(e.routing);
  CHECK(e.routing->points == 0.03);
  // Experts that are kept longer are found more often, so that no token waits longer for them.
  CHECK(judged_seconds(e.routing->higher) <= judged_seconds(e.routing->lower));
  const Scenario parameters =
      load_scenario("zipmoe-orin", short_job({{"workload.skew", "1.4"}}), {"zipmoe-lru"});
  const RunResult p = run_system(parameters, parameters.systems.front(), scenario_trace(parameters));
  CHECK(!explain(results_of_text("r.json", results_json({p})).front()).routing);
}

}  // namespace moelab::model_routing_test
