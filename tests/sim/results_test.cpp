// Percentiles, the JSON that scripts rely on, the table, and the timeline.
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
#include "sim/results/timeline.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/small_systems.hpp"
#include "tests/sim/timeline_json.hpp"

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

TEST_CASE("results: a timeline is what the observer saw, without overlaps on a track") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(60u, 6u); ++seed) {
    const SmallRun run = random_run(seed);
    INFO("seed " << seed);
    Recorder record;
    run.run(&record);
    const std::uint64_t last_pass = seed % 3 == 0 ? 1 : 1'000'000;
    Timeline timeline({.last_pass = last_pass});
    const RunResult r = run.run(&timeline);
    const json file = timeline_json(timeline, r);

    using Slice = std::pair<std::int64_t, std::int64_t>;  // start and end in nanoseconds
    const auto ns = [](double seconds) { return std::llround(seconds * 1e9); };
    std::map<std::string, std::multiset<Slice>> expected, shown;  // by resource
    for (const DoneGraph& graph : record.graphs)
      for (const DoneOp& op : graph.ops)
        if (graph.pass <= last_pass) expected[r.busy[op.resource].name].insert({ns(op.start), ns(op.end)});

    std::map<int, std::string> track_names;
    for (const json& e : file["traceEvents"])
      if (e["ph"] == "M" && e["name"] == "thread_name")
        track_names[e["tid"].get<int>()] = e["args"]["name"].get<std::string>();
    std::map<int, std::vector<Slice>> tracks;
    for (const json& e : file["traceEvents"]) {
      CHECK(e["pid"] == 1);
      if (e["ph"] != "X" || e["cat"] == "request") continue;
      const auto begin = std::llround(e["ts"].get<double>() * 1e3);
      const auto end = begin + std::llround(e["dur"].get<double>() * 1e3);
      tracks[e["tid"].get<int>()].emplace_back(begin, end);
      std::string resource = track_names.at(e["tid"].get<int>());
      resource = resource.substr(0, resource.find(' '));  // "decompress 2" is its third slot
      shown[resource].insert({begin, end});
    }
    CHECK(shown == expected);
    std::map<std::string, std::size_t> tracks_of;
    for (auto& [tid, slices] : tracks) {
      ++tracks_of[track_names[tid].substr(0, track_names[tid].find(' '))];
      std::sort(slices.begin(), slices.end());
      bool apart = true;
      for (std::size_t i = 1; i < slices.size(); ++i) apart &= slices[i - 1].second <= slices[i].first;
      CHECK(apart);
    }
    for (const auto& [resource, count] : tracks_of)
      CHECK(count <= (resource == "decompress" ? run.system().threads : 1));
  }
}

namespace {

using Nanoseconds = std::int64_t;

Nanoseconds ns_of(const json& microseconds) {
  return std::llround(microseconds.get<double>() * 1e3);
}

/// A slice of a file.
struct Shown {
  std::int64_t track;
  Nanoseconds ready, start, end;
  std::string resource;  // of its track, without the slot
};

std::vector<Shown> operations_of(const json& file) {
  std::map<std::int64_t, std::string> names;
  for (const json& e : file["traceEvents"])
    if (e["ph"] == "M" && e["name"] == "thread_name") names[e["tid"]] = e["args"]["name"];
  std::vector<Shown> slices;
  for (const json& e : file["traceEvents"]) {
    if (e["ph"] != "X" || e["cat"] == "request") continue;
    const std::string name = names.at(e["tid"]);
    slices.push_back({e["tid"], ns_of(e["args"]["ready"]), ns_of(e["ts"]), ns_of(e["ts"]) + ns_of(e["dur"]),
                      name.substr(0, name.find(' '))});
  }
  return slices;
}

/// Says which tokens each pass makes, besides what a timeline keeps.
class PassTokens final : public GraphObserver {
 public:
  void finished(const LabelledGraph&, std::uint64_t, std::int32_t) override {}
  void pass_ended(double, std::uint64_t pass, std::uint64_t tokens) override {
    if (pass == after.size()) after.push_back(tokens);
  }
  std::vector<std::uint64_t> after;  // by pass: tokens so far
};

}  // namespace

TEST_CASE("timeline: each arrow leaves one slice and arrives at the begin of a later one on another track") {
  std::size_t arrows = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(40u, 4u); ++seed) {
    INFO("seed " << seed);
    const SmallRun run = random_run(seed);
    Timeline timeline({});
    const RunResult r = run.run(&timeline);
    const json file = timeline_json(timeline, r, {.process = 3, .name = "x", .shift_s = 1});
    const std::vector<Shown> slices = operations_of(file);
    struct End {
      std::int64_t track;
      Nanoseconds at;
    };
    std::map<std::int64_t, End> from, to;
    for (const json& e : file["traceEvents"]) {
      CHECK(e["pid"] == 3);
      if (e["ph"] == "s" || e["ph"] == "f")
        CHECK((e["ph"] == "s" ? from : to).emplace(e["id"], End{e["tid"], ns_of(e["ts"])}).second);
    }
    CHECK(from.size() == to.size());
    for (const auto& [id, arrow] : to) {
      const End& end = arrow;
      REQUIRE(from.count(id) == 1);
      const End begin = from.at(id);
      CHECK(begin.at <= end.at);
      CHECK(begin.track != end.track);
      CHECK(std::any_of(slices.begin(), slices.end(), [&](const Shown& s) {
        return s.track == begin.track && s.start <= begin.at && begin.at <= s.end;
      }));
      CHECK(std::any_of(slices.begin(), slices.end(), [&](const Shown& s) {
        return s.track == end.track && s.start == end.at && s.ready >= begin.at;
      }));
    }
    arrows += from.size();
  }
  CHECK(arrows > moelab::test::random_runs(1000, 100));
}

TEST_CASE("timeline: queues are the operations that are ready and have not started") {
  std::size_t waiting = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(40u, 4u); ++seed) {
    INFO("seed " << seed);
    const SmallRun run = random_run(seed);
    Timeline timeline({});
    const json file = timeline_json(timeline, run.run(&timeline));
    const std::vector<Shown> slices = operations_of(file);
    std::map<std::string, std::map<Nanoseconds, int>> counters;  // by resource: from when on
    for (const json& e : file["traceEvents"])
      if (e["ph"] == "C" && e["name"].get<std::string>().rfind("ready: ", 0) == 0)
        counters[e["name"].get<std::string>().substr(7)][ns_of(e["ts"])] = e["args"]["operations"];
    for (const Shown& s : slices) {
      CHECK(s.ready <= s.start);
      for (const Nanoseconds at : {s.ready, s.start, s.end}) {
        int expected = 0;
        for (const Shown& other : slices)
          expected += other.resource == s.resource && other.ready <= at && at < other.start ? 1 : 0;
        const auto& counter = counters[s.resource];
        const auto after = counter.upper_bound(at);
        CHECK((after == counter.begin() ? 0 : std::prev(after)->second) == expected);
        waiting += expected > 0 ? 1 : 0;
      }
    }
  }
  CHECK(waiting > moelab::test::random_runs(1000, 100));
}

TEST_CASE("timeline: memory stays within its plan, and experts kept by state are worth their bytes") {
  std::size_t samples = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(60u, 6u); ++seed) {
    INFO("seed " << seed);
    const SmallRun run = random_run(seed);
    Timeline timeline({});
    const RunResult r = run.run(&timeline);
    const json file = timeline_json(timeline, r);
    const ExpertCosts costs = run.costs();
    const std::string cache = run.system().cache.name;
    std::map<Nanoseconds, double> bytes, worth;
    for (const json& e : file["traceEvents"]) {
      if (e["ph"] != "C") continue;
      if (e["name"] == "expert bytes") {
        bytes[ns_of(e["ts"])] = e["args"]["bytes"];
        CHECK(e["args"]["bytes"] <= r.memory.expert_cache.value() + 1);
        ++samples;
      } else if (e["name"] == "KV cache bytes") {
        CHECK(e["args"]["bytes"] <= r.memory.kv_cache.value() + 1);
      } else if (e["name"] == "experts kept") {
        double all = 0;
        for (const State s : {State::F, State::C, State::S, State::E})
          all += e["args"][std::string(kStateNames[index(s)])].get<double>() * costs.bytes[index(s)];
        worth[ns_of(e["ts"])] = all;
      }
    }
    for (const auto& [at, all] : worth)
      if (bytes.count(at) == 1) CHECK(bytes[at] == Approx(all).margin(1));
  }
  CHECK(samples > moelab::test::random_runs(100, 5));
}

TEST_CASE("timeline: requests wait, have their prompt run and decode, as long as their latency says") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(40u, 4u); ++seed) {
    INFO("seed " << seed);
    const SmallRun run = random_run(seed);
    Timeline timeline({});
    const RunResult r = run.run(&timeline);
    const json file = timeline_json(timeline, r);
    std::map<std::int64_t, std::vector<std::pair<Nanoseconds, Nanoseconds>>> tracks;
    std::set<std::int64_t> requests;
    Nanoseconds all = 0;
    for (const json& e : file["traceEvents"]) {
      if (e["ph"] != "X" || e["cat"] != "request") continue;
      tracks[e["tid"]].emplace_back(ns_of(e["ts"]), ns_of(e["ts"]) + ns_of(e["dur"]));
      requests.insert(e["args"]["request"].get<std::int64_t>());
      all += ns_of(e["dur"]);
    }
    CHECK(requests.size() == r.metrics.end_to_end_s.size());
    double expected = 0;
    for (const double s : r.metrics.end_to_end_s) expected += s;
    CHECK(static_cast<double>(all) ==
          Approx(1e9 * expected).margin(4.0 * static_cast<double>(requests.size())));
    for (auto& [track, parts] : tracks) {
      std::sort(parts.begin(), parts.end());
      for (std::size_t i = 1; i < parts.size(); ++i) CHECK(parts[i - 1].second <= parts[i].first);
    }
  }
}

TEST_CASE("timeline: a window of tokens keeps exactly the operations of the passes that make them") {
  int windows = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(60u, 6u); ++seed) {
    INFO("seed " << seed);
    const SmallRun run = random_run(seed);
    const TimelineWindow window{.first_token = 2 + seed % 4, .last_token = 4 + seed % 5};
    Timeline whole({}), part(window);
    PassTokens tokens;
    const RunResult r = run.run(&whole);
    run.run(&part);
    run.run(&tokens);
    const auto passes_of = [&](const Timeline& timeline) {
      std::map<std::uint64_t, std::multiset<std::string>> by_pass;
      const json file = timeline_json(timeline, r);
      for (const json& e : file["traceEvents"])
        if (e["ph"] == "X" && e["cat"] != "request")
          by_pass[e["args"]["pass"]].insert(e["name"].dump() + e["ts"].dump() + e["dur"].dump());
      return by_pass;
    };
    // A pass makes the tokens behind those so far; one that makes none goes on towards the next.
    auto expected = passes_of(whole);
    for (std::uint64_t pass = 0; pass < tokens.after.size(); ++pass) {
      const std::uint64_t first = (pass == 0 ? 0 : tokens.after[pass - 1]) + 1;
      const std::uint64_t last = std::max(first, tokens.after[pass]);
      if (last < window.first_token || first > window.last_token) expected.erase(pass);
    }
    CHECK(passes_of(part) == expected);
    windows += expected.empty() ? 0 : 1;
  }
  CHECK(windows > moelab::test::random_runs(30, 3));
}

}  // namespace moelab::results_test
