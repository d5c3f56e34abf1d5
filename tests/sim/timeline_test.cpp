// The timeline: operations, what they wait for, queues, memory, requests, passes and layers, and its window.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "sim/results/event_legend.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/small_systems.hpp"
#include "tests/sim/timeline_json.hpp"

namespace moelab::timeline_test {

using namespace moelab::test;
using nlohmann::json;

TEST_CASE("timeline: it is what the observer saw, without overlaps on a track") {
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
      if (!is_operation(e)) continue;
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
    if (!is_operation(e)) continue;
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
        if (is_operation(e))
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

TEST_CASE("timeline: bytes of operations are those that the result counts, by tier") {
  double moved = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(60u, 6u); ++seed) {
    INFO("seed " << seed);
    const SmallRun run = random_run(seed);
    Timeline timeline({});
    const RunResult r = run.run(&timeline);
    std::map<std::string, double> bytes;
    const json file = timeline_json(timeline, r);
    for (const json& e : file["traceEvents"])
      if (is_operation(e) && e["args"].contains("from"))
        bytes[e["args"]["from"].get<std::string>()] += e["args"]["bytes"].get<double>();
    for (const Tier tier : {Tier::ssd, Tier::page_cache, Tier::host}) {
      const double counted = r.metrics.bytes[static_cast<std::size_t>(tier)];
      // Each is rounded to whole bytes.
      CHECK(bytes[std::string(to_string(tier))] ==
            Approx(counted).margin(0.5 * static_cast<double>(file["traceEvents"].size())));
      moved += counted;
    }
  }
  CHECK(moved > 0);
}

TEST_CASE("timeline: an operation says what made it ready, and how long it waited for its resource") {
  int after = 0, waited = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(40u, 4u); ++seed) {
    INFO("seed " << seed);
    const SmallRun run = random_run(seed);
    Timeline timeline({});
    const json file = timeline_json(timeline, run.run(&timeline));
    std::map<std::int64_t, std::string> tracks;
    std::set<std::pair<std::string, Nanoseconds>> ends;
    for (const json& e : file["traceEvents"]) {
      if (e["ph"] == "M" && e["name"] == "thread_name") tracks[e["tid"]] = e["args"]["name"];
      if (is_operation(e)) ends.emplace(e["name"], ns_of(e["ts"]) + ns_of(e["dur"]));
    }
    for (const json& e : file["traceEvents"]) {
      if (!is_operation(e)) continue;
      const json& details = e["args"];
      const Nanoseconds waits = ns_of(e["ts"]) - ns_of(details["ready"]);
      CHECK(details.contains("waited_us") == (waits > 0));
      CHECK(details.contains("waited_for") == (waits > 0));
      if (waits > 0) {
        CHECK(ns_of(details["waited_us"]) == waits);
        const std::string track = tracks.at(e["tid"]);
        CHECK(details["waited_for"] == track.substr(0, track.find(' ')));
        ++waited;
      }
      if (!details.contains("after")) continue;
      CHECK(ends.count({details["after"], ns_of(details["ready"])}) == 1);
      ++after;
    }
  }
  CHECK(after > 0);
  CHECK(waited > 0);
}

TEST_CASE("timeline: layers lie in their pass, one behind the other, and computing in its layer") {
  int layers = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(40u, 4u); ++seed) {
    INFO("seed " << seed);
    const SmallRun run = random_run(seed);
    Timeline timeline({});
    const json file = timeline_json(timeline, run.run(&timeline));
    struct Span {
      Nanoseconds start, end;
    };
    std::map<std::int64_t, Span> passes;
    std::map<std::pair<std::int64_t, std::int64_t>, Span> shown;  // layers by pass
    const auto span_of = [](const json& e) { return Span{ns_of(e["ts"]), ns_of(e["ts"]) + ns_of(e["dur"])}; };
    for (const json& e : file["traceEvents"]) {
      if (e["ph"] != "X") continue;
      if (e["cat"] == "pass") REQUIRE(passes.emplace(e["args"]["pass"], span_of(e)).second);
      if (e["cat"] == "layer")
        REQUIRE(shown.emplace(std::pair(e["args"]["pass"], e["args"]["layer"]), span_of(e)).second);
    }
    std::map<std::int64_t, std::vector<Span>> by_pass;
    for (const auto& [key, layer] : shown) by_pass[key.first].push_back(layer);
    Nanoseconds before = 0;
    for (auto& [pass, all] : by_pass) {
      const Span whole = passes.at(pass);
      CHECK(whole.start >= before);
      before = whole.end;
      std::sort(all.begin(), all.end(), [](const Span& a, const Span& b) {
        return std::pair(a.start, a.end) < std::pair(b.start, b.end);
      });
      CHECK(all.front().start == whole.start);
      for (std::size_t i = 0; i < all.size(); ++i) {
        CHECK(all[i].end <= whole.end);
        if (i > 0) CHECK(all[i - 1].end <= all[i].start);
      }
      layers += static_cast<int>(all.size());
    }
    for (const json& e : file["traceEvents"]) {
      if (!is_operation(e) || (e["cat"] != "execute" && e["cat"] != "dense")) continue;
      const Span layer = shown.at({e["args"]["pass"], e["args"]["layer"]}), op = span_of(e);
      CHECK((layer.start <= op.start && op.end <= layer.end));
    }
  }
  CHECK(layers > 0);
}

TEST_CASE("timeline: the legend has a meaning for each kind of operation that is shown") {
  for (int kind = 0; kind < kOpKinds; ++kind) CHECK(meaning_of(static_cast<OpKind>(kind)).size() > 10);
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(20u, 4u); ++seed) {
    const SmallRun run = random_run(seed);
    Timeline timeline({});
    const json file = timeline_json(timeline, run.run(&timeline));
    std::multiset<std::string> legend, kinds;
    for (const json& e : file["traceEvents"]) {
      if (is_operation(e) && kinds.count(e["cat"]) == 0) kinds.insert(e["cat"]);
      if (e["ph"] != "X" || e["cat"] != "legend") continue;
      const std::string name = e["name"];
      legend.insert(name.substr(0, name.find(':')));
      CHECK(name.substr(name.find(':') + 2) == e["args"]["meaning"]);
    }
    CHECK(legend == kinds);
  }
}

}  // namespace moelab::timeline_test
