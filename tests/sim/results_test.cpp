// Percentiles, the JSON that scripts rely on, and the table.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "models/json.hpp"
#include "sim/results/result_json.hpp"
#include "sim/results/result_transfer.hpp"
#include "sim/results/statistics.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::results_test {

using namespace moelab::test;
using nlohmann::json;

namespace {

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

bool holds_all(const std::set<std::string>& keys, const std::set<std::string>& wanted) {
  return std::includes(keys.begin(), keys.end(), wanted.begin(), wanted.end());
}

/// A run with compressed weights, pools, prefetch and a page cache: every part of a result says something.
SmallRun full_run(const std::string& name = "full") {
  Random random(5);
  SmallRun run;
  Scenario& s = run.scenario;
  s.name = "results";
  s.seed = 42;
  s.model = small_model({.moe_layers = 3, .experts = 8, .top_k = 2, .shared_width = 48});
  s.device = small_device();
  s.device.unmeasured = true;
  s.device.provenance = {"ssd.read: assumed (a test)"};
  s.workload.batch = 2;
  s.workload.trace_file = "made up";
  SystemConfig system = plain_system(name);
  system.compressed = true;
  system.codec = "lz";
  system.shards = 2;
  system.threads = 3;
  system.page_cache = true;
  system.cache.name = "zipmoe";
  system.pools = {true, true, true, true, false};
  system.ratios = {0.25, 0.25, 0.25, 0.25, 0};
  system.prefetch = {"layer-window", {}};
  system.prefetch_buffer = 4;
  system.host_per_layer = Seconds(1e-6);
  system.host_source = "made up";
  s.systems = {system};
  run.trace = random_trace(random, s.model, {{4, 9}, {2, 5}, {3, 7}});
  give_room(run, 3);
  return run;
}

}  // namespace

TEST_CASE("results: quantiles interpolate between order statistics") {
  // numpy.quantile([1, 2, 4, 8, 16], q) with its default rule: rank q * 4.
  const std::vector<double> v = {1, 2, 4, 8, 16};
  CHECK(quantile(v, 0) == 1);
  CHECK(quantile(v, 0.25) == 2);
  CHECK(quantile(v, 0.5) == 4);
  CHECK(quantile(v, 0.6) == Approx(4 + 0.4 * 4));
  CHECK(quantile(v, 0.9) == Approx(8 + 0.6 * 8));
  CHECK(quantile(v, 0.99) == Approx(8 + 0.96 * 8));
  CHECK(quantile(v, 1) == 16);
  CHECK(quantile({7}, 0.3) == 7);
  const Summary s = summarize({16, 4, 1, 8, 2});
  CHECK(s.mean == Approx(31.0 / 5));
  CHECK(s.p50 == 4);
  CHECK(s.p90 == Approx(12.8));
  CHECK(s.p99 == Approx(15.68));
  const Summary none = summarize({});
  CHECK((none.mean == 0 && none.p50 == 0 && none.p90 == 0 && none.p99 == 0));
  CHECK(mean({}) == 0);
}

TEST_CASE("results: quantiles of random samples agree with the definition") {
  Random random(9);
  for (int round = 0; round < moelab::test::random_runs(500); ++round) {
    std::vector<double> v(1 + random.below(40));
    for (double& x : v) x = random.uniform();
    std::sort(v.begin(), v.end());
    const double q = random.uniform(), rank = q * static_cast<double>(v.size() - 1);
    // The piecewise linear function through (i, v[i]).
    double expected = v.back();
    for (std::size_t i = 0; i + 1 < v.size(); ++i) {
      const double share = rank - static_cast<double>(i);
      if (share >= 0 && share < 1) expected = (1 - share) * v[i] + share * v[i + 1];
    }
    CHECK(quantile(v, q) == Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("results: where no request was answered there are no times, rather than 0") {
  RunResult r = full_run().run();
  r.metrics.ttft_s.clear();
  r.metrics.end_to_end_s.clear();
  const json m = json::parse(results_json({r}))["metrics"];
  for (const char* key : {"ttft_s", "ttft_p90_s", "end_to_end_s", "end_to_end_p90_s"})
    CHECK(m[key].is_null());
}

TEST_CASE("results: the JSON interface") {
  const RunResult r = full_run().run();
  const json j = json::parse(results_json({r}));
  CHECK(holds_all(keys_of(j), {"scenario", "system", "executor", "seed", "version", "metrics", "hits",
                               "bytes", "busy_s", "stall_s", "provenance"}));
  CHECK(j["scenario"] == "results");
  CHECK(j["system"] == "full");
  CHECK(j["executor"] == "fast");
  CHECK(j["seed"] == 42);
  CHECK(j["version"].is_string());
  const json& m = j["metrics"];
  CHECK(holds_all(keys_of(m), {"ttft_s", "tpot_s", "end_to_end_s", "throughput_tokens_per_s", "tokens"}));
  for (const char* latency : {"tpot_s", "itl_s", "normalised_latency_s", "queueing_s"})
    CHECK(keys_of(m[latency]) == std::set<std::string>{"mean", "p50", "p90", "p95", "p99"});
  CHECK(keys_of(j["hits"]) == std::set<std::string>{"F", "C", "S", "E", "M"});
  CHECK(keys_of(j["bytes"]) == std::set<std::string>{"ssd", "page_cache", "host"});
  CHECK(keys_of(j["busy_s"]) ==
        std::set<std::string>{"host", "io", "decompress", "recover", "expert_compute", "dense_compute"});
  const std::set<std::string> causes = {
      "ssd_read",   "page_cache_read", "decompress",  "recover",        "expert_compute", "dense_compute",
      "host",       "prefetch",        "expert_load", "low_score_load", "cpu_experts",    "activations",
      "prediction", "all_reduce",      "kv_swap",     "network",        "remote_experts", "recovery"};
  CHECK(keys_of(j["stall_s"]) == causes);
  CHECK(keys_of(j["decode_stall_s"]) == causes);
  CHECK(holds_all(keys_of(j["prefetch"]), {"fetched", "used", "late", "unused"}));
  // There is no discrete GPU, no policy that replaces experts, and no KV cache in blocks.
  for (const char* key : {"execution", "routing", "serving"}) CHECK_FALSE(j.contains(key));

  CHECK(keys_of(j["layers"]) == std::set<std::string>{"decode_hits", "decode_stall_s"});
  CHECK(j["layers"]["decode_hits"]["F"].get<std::vector<std::uint64_t>>() ==
        r.metrics.layers.hits[index(State::F)]);
  CHECK(j["layers"]["decode_stall_s"].get<std::vector<double>>() == r.metrics.layers.stall_s);
  const RunResult back = unpack_result(pack_result(r));
  CHECK(results_json({back}) == results_json({r}));

  // Doubles are written so that they read back as they were.
  const Summary gaps = summarize(r.metrics.token_gaps_s);
  CHECK(m["ttft_s"].get<double>() == mean(r.metrics.ttft_s));
  CHECK(m["itl_s"]["mean"].get<double>() == gaps.mean);
  CHECK(m["itl_s"]["p50"].get<double>() == gaps.p50);
  CHECK(m["itl_s"]["p90"].get<double>() == gaps.p90);
  CHECK(m["itl_s"]["p99"].get<double>() == gaps.p99);
  CHECK(m["end_to_end_s"].get<double>() == mean(r.metrics.end_to_end_s));
  CHECK(m["tokens"] == 3 + 9 + 5 + 7);  // the first token of each request comes with its prompt
  CHECK(m["throughput_tokens_per_s"].get<double>() == 24 / r.metrics.wall_s);
  for (const State s : kAllStates)
    CHECK(j["hits"][std::string(kStateNames[index(s)])] == r.metrics.hits[index(s)]);
  CHECK(j["bytes"]["ssd"].get<double>() == r.metrics.bytes[static_cast<std::size_t>(Tier::ssd)]);
  CHECK(j["bytes"]["page_cache"].get<double>() ==
        r.metrics.bytes[static_cast<std::size_t>(Tier::page_cache)]);
  for (const ResourceUse& use : r.busy) CHECK(j["busy_s"][use.name].get<double>() == use.busy_s);
  for (std::size_t c = 0; c < kCausesOfAll; ++c)
    CHECK(j["stall_s"][std::string(kCauseNames[c])].get<double>() == r.metrics.stall_s[c]);
  CHECK(j["prefetch"]["fetched"] == r.metrics.prefetch.fetched);
  CHECK(j["prefetch"]["unused"] == r.metrics.prefetch.unused);
  CHECK(j["provenance"].get<std::vector<std::string>>() == r.provenance);
  const std::string provenance = j["provenance"].dump();
  for (const char* part :
       {"trace: made up by a test", "model: ", "host overhead: made up", "device ssd.read: assumed (a test)"})
    CHECK(provenance.find(part) != std::string::npos);
  CHECK(j["warnings"].dump().find("holds numbers that were not measured on that device") !=
        std::string::npos);
  CHECK(j["warnings"].dump().find("synthetic") != std::string::npos);
}

TEST_CASE("results: several results are an array in their order") {
  const RunResult a = full_run("a").run(), b = full_run("b").run();
  const json both = json::parse(results_json({b, a}));
  REQUIRE(both.is_array());
  REQUIRE(both.size() == 2);
  CHECK(both[0] == json::parse(results_json({b})));
  CHECK(both[1] == json::parse(results_json({a})));
  CHECK(json::parse(results_json({})) == json::array());
}

namespace {

/// Rows of the table that begin with a system's name, as words.
std::vector<std::vector<std::string>> rows_of(const std::string& table, const std::string& system) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<std::string> row;
    for (std::string word; words >> word;) row.push_back(word);
    if (!row.empty() && row.front() == system) rows.push_back(row);
  }
  return rows;
}

/// The number in a cell is the value, rounded to the digits shown.
bool shows(const std::string& cell, double value) {
  const std::size_t point = cell.find('.');
  const double unit = point == std::string::npos ? 1 : std::pow(10.0, -double(cell.size() - point - 1));
  return std::abs(std::stod(cell) - value) <= unit / 2 * (1 + 1e-9);
}

}  // namespace

TEST_CASE("results: the table shows every system with the figures of the JSON") {
  SmallRun first = full_run("first"), second = full_run("second-system");
  second.scenario.systems[0].prefetch = {"none", {}};
  const std::vector<RunResult> results = {first.run(), second.run()};
  const std::string table = results_table(first.scenario, results);
  const json j = json::parse(results_json(results));
  for (const json& r : j) {
    const auto rows = rows_of(table, r["system"].get<std::string>());
    REQUIRE(rows.size() == 4);  // speed, hits, critical path, pools
    const json& m = r["metrics"];
    const auto& speed = rows[0];
    REQUIRE(speed.size() == 8);
    CHECK(shows(speed[1], m["ttft_s"].get<double>()));
    CHECK(shows(speed[2], 1e3 * m["tpot_s"]["mean"].get<double>()));
    CHECK(shows(speed[3], 1e3 * m["itl_s"]["p50"].get<double>()));
    CHECK(shows(speed[4], 1e3 * m["itl_s"]["p90"].get<double>()));
    CHECK(shows(speed[5], 1e3 * m["itl_s"]["p99"].get<double>()));
    CHECK(shows(speed[6], m["throughput_tokens_per_s"].get<double>()));
    CHECK(shows(speed[7], m["end_to_end_s"].get<double>()));

    double used = 0;
    for (const auto& [state, n] : r["decode_hits"].items()) used += n.get<double>();
    REQUIRE(rows[1].size() == 9);
    const char* states[] = {"F", "C", "S", "E", "M"};
    for (std::size_t i = 0; i < 5; ++i)
      CHECK(shows(rows[1][1 + i], 100 * r["decode_hits"][states[i]].get<double>() / used));
    CHECK(shows(rows[1][6], r["bytes"]["ssd"].get<double>() / 1e9));
    CHECK(shows(rows[1][7], r["bytes"]["page_cache"].get<double>() / 1e9));
    CHECK(shows(rows[1][8], r["memory_bytes"]["expert_cache"].get<double>() / 1e9));

    std::size_t column = 1;
    double shares = 0;
    for (const auto name : kCauseNames) {
      const auto takes_time = [&](const json& any) {
        return any["stall_s"].value(std::string(name), 0.0) > 0;
      };
      if (std::none_of(j.begin(), j.end(), takes_time)) continue;
      REQUIRE(column < rows[2].size());
      CHECK(shows(rows[2][column],
                  100 * r["stall_s"][std::string(name)].get<double>() / m["wall_s"].get<double>()));
      shares += std::stod(rows[2][column++]);
    }
    CHECK(column == rows[2].size());
    CHECK(shares == Approx(100).margin(0.05 * kCauses));
    for (const char* pool : {"F", "C", "S", "E"}) {
      const std::string capacity = std::to_string(r["plan"]["capacity"][pool].get<int>());
      CHECK(std::find(rows[3].begin(), rows[3].end(), capacity) != rows[3].end());
    }
  }
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);)
    if (line.rfind("note:", 0) != 0 && line.rfind("results:", 0) != 0) CHECK(line.size() <= 120);
  // Said once, though both results say it.
  const std::string note = "note: the routing trace is synthetic";
  const std::size_t once = table.find(note);
  REQUIRE(once != std::string::npos);
  CHECK(table.find(note, once + 1) == std::string::npos);
  CHECK(results_table(first.scenario, {}).empty());
}

}  // namespace moelab::results_test
