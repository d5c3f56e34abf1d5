// Explaining results: what one kind of resources infinitely fast really does, results read back, regret and
// differences.
#include "sim/explain/explain.hpp"
#include "models/json.hpp"
#include "sim/simgrid_module.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "models/input_error.hpp"
#include "sim/explain/result_comparison.hpp"
#include "sim/results/result_json.hpp"
#include "sim/results/result_transfer.hpp"
#include "sim/scenario_trace.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::explain_test {

using namespace moelab::test;
using nlohmann::json;

namespace {

constexpr std::uint64_t kSeeds = 120;

RunResult run_with_free(const SmallRun& run, const std::vector<std::string>& kinds) {
  RunOptions options;
  options.free_resources = kinds;
  return run_system(run.scenario, run.system(), run.trace, options);
}

std::vector<std::string> kinds_of(const RunResult& result) {
  std::vector<std::string> kinds;
  for (const ResourceUse& use : result.busy) kinds.push_back(resource_kind(use.name));
  return kinds;
}

/// The main job's systems, one short request.
std::vector<RunResult> short_runs(const std::vector<std::string>& systems) {
  const Scenario s = load_scenario(
      "zipmoe-orin",
      {{"workload.requests", "1"}, {"workload.prompt_tokens", "4"}, {"workload.output_tokens", "6"}});
  std::vector<RunResult> results;
  for (const SystemConfig& system : s.systems)
    if (std::find(systems.begin(), systems.end(), system.name) != systems.end())
      results.push_back(run_system(s, system, scenario_trace(s)));
  REQUIRE(results.size() == systems.size());
  return results;
}

ResultFile short_result(const std::string& system) {
  return results_of_text("r.json", results_json(short_runs({system}))).front();
}

const ResultFile& with_cache(const Explanation& e, const std::string& policy) {
  for (const CacheReference& r : e.references)
    if (r.policy == policy && r.result) return *r.result;
  throw std::logic_error("no run with " + policy);
}

std::string refusal(const Explanation& e, const std::string& policy) {
  for (const CacheReference& r : e.references)
    if (r.policy == policy) return r.refused;
  return "no such reference";
}

}  // namespace

TEST_CASE("free resources: kinds are names without their server and number") {
  CHECK(resource_kind("io") == "io");
  CHECK(resource_kind("server1/gpu0") == "gpu");
  CHECK(resource_kind("server1/link_out12") == "link_out");
  CHECK(resource_kind("edge2/network") == "network");
  CHECK(resource_kind("r2") == "r2");  // of one device there is no number to take off
}

TEST_CASE("free resources: with all of them infinitely fast a run takes no time, with all but the host its") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    const SmallRun run = random_run(seed);
    Recorder record;
    const RunResult was = run.run(&record);
    std::vector<std::string> kinds = kinds_of(was);
    const RunResult none = run_with_free(run, kinds);
    CHECK(none.metrics.wall_s == 0);
    CHECK(none.metrics.tokens == was.metrics.tokens);
    for (const double gap : none.metrics.token_gaps_s) CHECK(gap == 0);
    for (const double stall : none.metrics.stall_s) CHECK(stall == 0);
    for (const ResourceUse& use : none.busy) CHECK(use.busy_s == 0);

    if (run.scenario.model.has_encoder()) continue;  // whose passes run different layers
    std::erase(kinds, "host");
    std::uint64_t passes = 0;
    for (const DoneGraph& graph : record.graphs) passes = std::max(passes, graph.pass + 1);
    // The framework's cost before each layer, and after each pass.
    const double a_pass =
        static_cast<double>(run.scenario.model.layers.size()) * run.system().host_per_layer.value() +
        run.system().host_per_pass.value();
    CHECK(run_with_free(run, kinds).metrics.wall_s ==
          Approx(static_cast<double>(passes) * a_pass).epsilon(1e-9).margin(1e-15));
  }
}

TEST_CASE("free resources: without prefetching the same is found, read and computed") {
  int runs = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    SmallRun run = random_run(seed);
    if (run.system().prefetch.name != "none") continue;
    ++runs;
    const RunResult was = run.run();
    for (const std::string& kind : kinds_of(was)) {
      const RunResult is = run_with_free(run, {kind});
      CHECK(is.metrics.hits == was.metrics.hits);
      CHECK(is.metrics.bytes == was.metrics.bytes);
      CHECK(is.operations == was.operations);
      for (std::size_t i = 0; i < is.busy.size(); ++i)
        if (is.busy[i].name == kind) CHECK(is.busy[i].busy_s == 0);
    }
  }
  CHECK(runs > 10);
}

// Of whole tensors, without prefetching and without a CPU that resources share, never slower. The one I/O
// thread reads in an order that no time changes, so each read ends no later; the experts' stream is one
// machine that never idles while something is ready, and its makespan over jobs with release dates is the
// same in any such order, and no later when these and the lengths are no later. Layers follow each other.
TEST_CASE("free resources: never slower where experts are stored whole and nothing is fetched ahead") {
  int runs = 0, faster = 0;
  for (std::uint64_t seed = 1; seed <= 4 * kSeeds; ++seed) {
    SmallRun run = random_run(seed);
    if (run.system().compressed || run.system().prefetch.name != "none") continue;
    if (run.scenario.device.cpu.sharing) continue;
    INFO("seed " << seed);
    ++runs;
    const RunResult was = run.run();
    for (const std::string& kind : kinds_of(was)) {
      const RunResult is = run_with_free(run, {kind});
      const double rounding = 1e-12 * was.metrics.wall_s;
      CHECK(is.metrics.wall_s <= was.metrics.wall_s + rounding);
      REQUIRE(is.metrics.token_gaps_s.size() == was.metrics.token_gaps_s.size());
      for (std::size_t i = 0; i < is.metrics.token_gaps_s.size(); ++i)
        CHECK(is.metrics.token_gaps_s[i] <= was.metrics.token_gaps_s[i] + rounding);
      faster += is.metrics.wall_s < was.metrics.wall_s ? 1 : 0;
    }
  }
  CHECK(runs > 20);
  CHECK(faster > runs);
}

// X: 1 s, then u on Y: 10 s.  W: 0.5 s, then v on Y: 1 s, then Z: 10 s. As it is, v is there first: Y until
// 1.5, then Z and u side by side until 11.5. With X infinitely fast u has Y until 10, v until 11, Z until 21.
TEST_CASE("free resources: in general a faster resource can make the whole slower") {
  const auto end_of = [](bool free) {
    const auto engine = engine::make_fast_engine();
    const engine::ResourceId x = engine->add_resource("X", 1), w = engine->add_resource("W", 1),
                             y = engine->add_resource("Y", 1), z = engine->add_resource("Z", 1);
    engine::Graph graph;
    const auto add = [&](engine::ResourceId on, double seconds) {
      return graph.add(graph.lane(on), seconds);
    };
    const auto first = add(w, 0.5), v = add(y, 1), last = add(z, 10), other = add(x, 1), u = add(y, 10);
    graph.depend(v, first);
    graph.depend(last, v);
    graph.depend(u, other);
    if (free) engine->make_free(x);
    CHECK(engine->is_free(x) == free);
    engine::Process process = [](engine::Engine& e, engine::Graph& g) -> engine::Process {
      e.submit(g, engine::kDemand);
      co_await e.finished(g);
    }(*engine, graph);
    engine->spawn(process);
    engine->run();
    CHECK(graph.ready(v) == 0.5);
    CHECK(graph.ready(first) == 0);
    return engine->now();
  };
  CHECK(end_of(false) == 11.5);
  CHECK(end_of(true) == 21);
}

// One expert a layer, never kept: read, executed, and nothing beside it.
TEST_CASE("free resources: where one thing follows another, the time of the one is gone and no other") {
  Random random(3);
  SmallRun run;
  run.scenario.name = "chain";
  run.scenario.model = small_model({.moe_layers = 3, .dense_layers = 1, .experts = 5, .top_k = 1});
  run.scenario.device = small_device();
  run.scenario.workload.trace_file = "made up";
  SystemConfig system = plain_system();
  system.host_per_layer = Seconds(2e-5);
  run.scenario.systems = {system};
  run.trace = random_trace(random, run.scenario.model, {{1, 6}, {1, 4}});
  give_room(run, 1);
  const RunResult was = run.run();
  int used = 0;
  for (const ResourceUse& use : was.busy) {
    INFO(use.name);
    const RunResult is = run_with_free(run, {use.name});
    CHECK(is.metrics.wall_s == Approx(was.metrics.wall_s - use.busy_s).epsilon(1e-9));
    used += use.busy_s > 0 ? 1 : 0;
  }
  CHECK(used == 4);  // host, I/O, experts, dense
}

TEST_CASE("free resources: SimGrid's operations take no time either") {
  const SmallRun run = random_run(7);
  const std::vector<std::string> kinds = kinds_of(run.run());
  const auto wall = [&](const std::vector<std::string>& free) {
    return unpack_result(engine::run_in_simgrid_child([&] {
             RunOptions options;
             options.executor = ExecutorKind::simgrid;
             options.free_resources = free;
             return pack_result(run_system(run.scenario, run.system(), run.trace, options));
           }))
        .metrics.wall_s;
  };
  CHECK(wall({}) > 0);
  CHECK(wall(kinds) == 0);
}

TEST_CASE("explain: a result is run again to the last figure, and its bounds are sorted by what they bring") {
  const ResultFile given = short_result("zipmoe");
  const Explanation e = explain(given);
  CHECK(e.ran);
  CHECK(e.changed.empty());
  CHECK(e.changed_data.empty());
  REQUIRE(e.freed.size() ==
          6);  // I/O, decompression, recovery, experts, dense, and the runtime's own on the host
  for (std::size_t i = 0; i < e.freed.size(); ++i) {
    const FreedResource& f = e.freed[i];
    INFO(f.kind);
    CHECK(f.slots == (f.kind == "decompress" ? 6 : 1));
    CHECK(f.busy_s / f.slots <= e.again.wall_s * (1 + 1e-12));
    // What the others do still takes its time: no resource does more than its slots in a second.
    for (const FreedResource& other : e.freed)
      if (other.kind != f.kind) CHECK(f.result.wall_s >= other.busy_s / other.slots * (1 - 1e-9));
    if (i > 0) CHECK(judged_seconds(e.freed[i - 1].result) <= judged_seconds(f.result));
  }
  double all = 0;
  for (const auto& [cause, seconds] : seconds_a_token(e.again)) all += seconds;
  CHECK(all == Approx(e.again.wall_s / static_cast<double>(e.again.tokens)).epsilon(1e-9));
}

TEST_CASE("explain: its progress counts runs to the number that it said, and changes nothing") {
  const ResultFile given = short_result("zipmoe-lru");
  std::vector<ExplainProgress> told;
  const Explanation e = explain(given, [&](const ExplainProgress& now) { told.push_back(now); });
  REQUIRE(told.size() > 1);
  CHECK(told.front().run == 1);
  CHECK(told.front().runs == 0);  // the run as it was says which resources there are
  const std::size_t runs = 1 + e.freed.size() + e.references.size() + (e.routing ? 2 : 0);
  CHECK(told.back().run == runs);
  CHECK(told.back().runs == runs);
  for (std::size_t i = 1; i < told.size(); ++i) {
    CHECK((told[i].run == told[i - 1].run || told[i].run == told[i - 1].run + 1));
    CHECK(told[i].tokens <= told[i].all);
    if (told[i].run > 1) CHECK(told[i].runs == runs);
  }
  const Explanation quiet = explain(given);
  CHECK(quiet.again.figures == e.again.figures);
  REQUIRE(quiet.freed.size() == e.freed.size());
  for (std::size_t i = 0; i < e.freed.size(); ++i)
    CHECK(quiet.freed[i].result.figures == e.freed[i].result.figures);
}

TEST_CASE("explain: regret is against the family's ceiling and floor; theirs against themselves is none") {
  const Explanation lru = explain(short_result("zipmoe-lru"));
  const ResultFile belady = short_result("zipmoe-belady"), none = short_result("zipmoe-nocache");
  // configs/systems/zipmoe-belady.yaml and -nocache.yaml differ from zipmoe-lru.yaml in the cache alone.
  CHECK(with_cache(lru, "belady").tpot_s == belady.tpot_s);
  CHECK(with_cache(lru, "belady").decode_hits == belady.decode_hits);
  CHECK(with_cache(lru, "none").tpot_s == none.tpot_s);
  // Belady's is the most hits of all caches of one pool that keep what is used.
  CHECK(with_cache(lru, "belady").decode_hits[index(State::F)] >= lru.again.decode_hits[index(State::F)]);
  CHECK(with_cache(lru, "none").decode_hits[index(State::F)] == 0);

  const Explanation best = explain(belady), floor = explain(none);
  CHECK(with_cache(best, "belady").figures == best.again.figures);
  CHECK(with_cache(floor, "none").figures == floor.again.figures);
  // A planned cache gives way with its plan.
  CHECK(with_cache(explain(short_result("zipmoe")), "belady").tpot_s == belady.tpot_s);
}

TEST_CASE("explain: where no cache can be held against the oracle it says why", "[long]") {
  const auto one = [](const std::string& scenario, const std::string& system,
                      std::vector<std::pair<std::string, std::string>> settings) {
    const Scenario s = load_scenario(scenario, settings);
    for (const SystemConfig& of : s.systems)
      if (of.name == system)
        return explain(
            results_of_text("r.json", results_json({run_system(s, of, scenario_trace(s))})).front());
    throw std::logic_error("no such system");
  };
  const std::vector<std::pair<std::string, std::string>> brief = {
      {"workload.requests", "1"}, {"workload.prompt_tokens", "4"}, {"workload.output_tokens", "3"}};
  const Explanation smoe = one("smoe-deepseek-3080ti", "smoe", brief);
  CHECK(smoe.changed.empty());
  CHECK_THAT(refusal(smoe, "belady"), Catch::Contains("looks up what the trace will use"));
  CHECK(refusal(smoe, "none").empty());
  const Explanation paged = one("fluxmoe-mixtral", "fluxmoe", brief);
  CHECK(paged.changed.empty());
  CHECK(paged.references.empty());
  CHECK(paged.freed.size() >= 3);
  const Explanation pins = one("window-deepseek-3080ti", "fluxmoe-ahead", brief);
  CHECK(pins.changed.empty());
  CHECK_THAT(refusal(pins, "belady"), Catch::Contains("Expected a policy that learns"));
  CHECK(refusal(pins, "none").empty());
  const std::pair<std::string, std::string> few = {"workload.servers",
                                                   "[{tasks: {abstract-narrative: 1}, requests: 2}]"};
  const Explanation placed = one("prism-deepseek-bigbench", "uniform", {few});
  CHECK(placed.changed.empty());
  CHECK(placed.references.empty());
  std::vector<std::string> kinds;
  for (const FreedResource& f : placed.freed) kinds.push_back(f.kind);
  std::sort(kinds.begin(), kinds.end());
  CHECK(kinds == std::vector<std::string>{"gpu", "host", "link", "link_out", "network"});
  const Explanation alone = one("prism-mixtral-alone", "moe-infinity-edge", {few});
  CHECK(alone.changed.empty());
  CHECK_THAT(refusal(alone, "belady"), Catch::Contains("needs to know more of the routing"));
}

TEST_CASE("explain: figures and data that are not what they were are named") {
  json j = json::parse(results_json(short_runs({"zipmoe-lru"})));
  const double was = j["metrics"]["ttft_s"].get<double>();
  j["metrics"]["ttft_s"] = 2 * was;
  j["stall_s"]["recover"] = 7;
  const Explanation e = explain(results_of_text("r.json", j.dump()).front());
  REQUIRE(e.changed.size() == 2);
  CHECK(e.changed[0].path == "metrics.ttft_s");
  CHECK(e.changed[0].was == 2 * was);
  CHECK(e.changed[0].is == was);
  CHECK(e.changed[1].path == "stall_s.recover");
}

TEST_CASE("explain: what did not fit has nothing to explain") {
  const Scenario s = load_scenario("fluxmoe-mixtral");
  const auto vllm =
      std::find_if(s.systems.begin(), s.systems.end(), [](const auto& of) { return of.name == "vllm"; });
  REQUIRE(vllm != s.systems.end());
  const RunResult r = run_system(s, *vllm, scenario_trace(s));
  REQUIRE(r.memory.shortfall > Bytes(0));
  const Explanation e = explain(results_of_text("r.json", results_json({r})).front());
  CHECK_FALSE(e.ran);
  CHECK(e.freed.empty());
}

TEST_CASE("explain: a result differs from itself in nothing, from another in what was asked") {
  const ResultFile lru = short_result("zipmoe-lru"), none = short_result("zipmoe-nocache");
  const Comparison same = compare(lru, lru);
  CHECK(same.keys.empty());
  CHECK(same.data.empty());
  CHECK(same.a_s == same.b_s);
  for (const CauseDifference& d : same.causes) CHECK(d.a_s == d.b_s);

  const Comparison c = compare(lru, none);
  std::vector<std::string> paths;
  for (const KeyDifference& d : c.keys) paths.push_back(d.path);
  CHECK(paths == std::vector<std::string>{"system.name", "system.title", "system.cache.policy"});
  CHECK(c.keys.back().a == "\"lru\"");
  CHECK(c.keys.back().b == "\"none\"");
  // Causes add up to all of the time: a run's wall over its tokens, as the server waits for none here.
  double a = 0, b = 0;
  for (const CauseDifference& d : c.causes) {
    a += d.a_s;
    b += d.b_s;
  }
  CHECK(a == Approx(lru.wall_s / static_cast<double>(lru.tokens)).epsilon(1e-9));
  CHECK(b == Approx(none.wall_s / static_cast<double>(none.tokens)).epsilon(1e-9));
  CHECK(c.a_s == Approx(a).epsilon(1e-12));
  for (std::size_t i = 1; i < c.causes.size(); ++i)
    CHECK(std::abs(c.causes[i - 1].a_s - c.causes[i - 1].b_s) >= std::abs(c.causes[i].a_s - c.causes[i].b_s));
}

TEST_CASE("explain: documents differ by dotted paths, in lists by number") {
  const auto keys =
      document_differences(R"({"a":1,"m":{"x":[1,2,3],"y":"t"},"systems":[{"threads":3}]})",
                           R"({"m":{"x":[1,5],"y":{"z":1}},"systems":[{"threads":4}],"b":true})");
  const auto shown = [&] {
    std::vector<std::string> all;
    for (const KeyDifference& d : keys) all.push_back(d.path + ": " + d.a + " -> " + d.b);
    return all;
  }();
  CHECK(shown == std::vector<std::string>{"a: 1 -> ", "m.x.1: 2 -> 5", "m.x.2: 3 -> ",
                                          "m.y: \"t\" -> {\"z\":1}", "system.threads: 3 -> 4",
                                          "b:  -> true"});
}

TEST_CASE("result files: whatever is missing or of another type is an error that names file and key") {
  const json good = json::parse(results_json(short_runs({"zipmoe-lru"})));
  REQUIRE(results_of_text("r.json", good.dump()).size() == 1);
  REQUIRE(results_of_text("r.json", json::array({good, good}).dump()).size() == 2);
  const auto says = [](const std::string& text, const std::string& what) {
    INFO(text.substr(0, 200));
    CHECK_THROWS_WITH(results_of_text("r.json", text),
                      Catch::StartsWith("r.json: ") && Catch::Contains(what));
    CHECK_THROWS_AS(results_of_text("r.json", text), InputError);
  };
  for (const char* key :
       {"scenario", "system", "executor", "version", "metrics", "decode_hits", "bytes", "stall_s"}) {
    json cut = good;
    cut.erase(key);
    if (key == std::string("decode_hits") || key == std::string("bytes"))  // not every system has them
      CHECK(results_of_text("r.json", cut.dump()).size() == 1);
    else
      says(cut.dump(), "'" + std::string(key) + "'");
    for (const json& other : {json(3), json("x"), json::array(), json::object()}) {
      if (other.type() == good[key].type()) continue;
      json changed = good;
      changed[key] = other;
      says(changed.dump(), key);
    }
  }
  json changed = good;
  changed.erase("inputs");
  says(changed.dump(), "an older version of moelab wrote it");
  changed = good;
  changed["inputs"]["scenario"]["systems"] = json::array();
  says(changed.dump(), "a list of one system");
  changed = good;
  changed["system"] = "other";
  says(changed.dump(), "does not name the result's system 'other'");
  changed = good;
  changed["metrics"]["tokens"] = -1;
  says(changed.dump(), "'metrics.tokens' is not a number of 0 or more");
  changed["metrics"]["tokens"] = 1.5;
  says(changed.dump(), "'metrics.tokens' is not a whole number");
  changed["metrics"]["tokens"] = 1e300;
  says(changed.dump(), "'metrics.tokens' is not a whole number");
  changed = good;
  changed["executor"] = "hardware";
  says(changed.dump(), "'fast' or 'simgrid'");
  says("[]", "holds no result");
  says("", "is not JSON");
  says("{\"metrics\": 1e999}", "is not JSON");
  says(std::string(100'000, '['), "nests deeper than 64 levels");
}

TEST_CASE("result files: damaged ones are refused or read, and never end the program") {
  Random random(11);
  const std::string good = results_json(short_runs({"zipmoe-lru"}));
  int refused = 0;
  for (int round = 0; round < moelab::test::random_runs(400); ++round) {
    std::string text = good;
    for (int i = 0; i < 3; ++i) text[random.below(text.size())] = static_cast<char>(random.below(256));
    if (round % 4 == 0) text.resize(random.below(text.size()));
    try {
      results_of_text("r.json", text);
    } catch (const InputError&) {
      ++refused;
    }
  }
  CHECK(refused >= moelab::test::random_runs(100, 10));  // those that were cut off, for one
}

TEST_CASE("result files: one of several is chosen by its system") {
  const auto results = results_of_text("r.json", results_json(short_runs({"zipmoe-lru", "zipmoe-fifo"})));
  CHECK(result_of_system(results, "zipmoe-lru").system == "zipmoe-lru");
  CHECK_THROWS_WITH(result_of_system(results, "zipmoe-lfu"), Catch::Contains("no result of system"));
  CHECK_THROWS_WITH(result_of_system(results, ""), Catch::Contains("zipmoe-fifo, zipmoe-lru"));
  CHECK(result_of_system({results[1]}, "").system == results[1].system);
}

}  // namespace moelab::explain_test
