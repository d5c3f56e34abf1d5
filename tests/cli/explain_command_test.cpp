// moelab explain as a user meets it: what it says, in both forms, and what it refuses.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "models/json.hpp"
#include "sim/results/event_writer.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/sim/timeline_json.hpp"
#include "tests/traces/trace_files.hpp"
#include "traces/import/input_stream.hpp"

namespace moelab::explain_command_test {

using namespace moelab::test;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

namespace {

ProgramResult program(const std::vector<std::string>& arguments) {
  return run_program(MOELAB_PROGRAM, arguments);
}

/// A folder with results of short runs.
class Results {
 public:
  std::string path(const std::string& name) const { return (folder / name).string(); }
  std::string run(const std::string& name, const std::vector<std::string>& systems,
                  const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"run",   "zipmoe-orin",
                                      "--set", "workload.requests=1",
                                      "--set", "workload.output_tokens=4",
                                      "--set", "workload.prompt_tokens=4",
                                      "--out", path(name)};
    for (const std::string& system : systems) words.insert(words.end(), {"--system", system});
    words.insert(words.end(), more.begin(), more.end());
    REQUIRE(program(words).status == 0);
    return path(name);
  }
  const ScratchFolder folder;
};

}  // namespace

TEST_CASE("explain prints each system as it is done, and counts systems and runs on the way") {
  const Results results;
  const std::string file = results.run("r.json", {"zipmoe-lru", "zipmoe"});
  // The second cannot be run again: what was found of the first has been said.
  Json both = Json::parse(read_bytes(file));
  Json& scenario = both[1]["inputs"]["scenario"];
  Json document = scenario.is_string() ? Json::parse(scenario.get<std::string>()) : scenario;
  document["budget"] = "1 PB";
  scenario = scenario.is_string() ? Json(document.dump()) : document;
  write_bytes(file, both.dump());
  const ProgramResult result = program({"explain", file});
  CHECK(result.status == 2);
  CHECK_THAT(result.out, Contains("system zipmoe,") && Contains("What bounds it: "));
  CHECK_THAT(result.err, Contains("budget"));
}

TEST_CASE("what bounds several instances is what bounds the busiest one, in each form", "[plain]") {
  const Results results;
  const auto run = [&](const std::string& name, const std::string& instances) {
    const ProgramResult table = program(
        {"run", "prefill-decode", "--system", "vllm-v1-colocated", "--set",
         "overrides.system.instances.colocated=" + instances, "--set",
         "workload={batch: 4, requests: 2, arrivals_per_s: 0.01, prompt_tokens: 200, output_tokens: 9}",
         "--out", results.path(name)});
    INFO(table.err);
    REQUIRE(table.status == 0);
    return table.out;
  };
  const std::string one = run("one.json", "1"), three = run("three.json", "3");
  const Json alone = Json::parse(read_bytes(results.folder / "one.json"));
  const Json apart = Json::parse(read_bytes(results.folder / "three.json"));
  CHECK(apart["stall_s"] == alone["stall_s"]);  // requests are never there together: two are idle
  CHECK(apart["answer"]["causes"] == alone["answer"]["causes"]);
  CHECK(apart["instances"]["busiest"] == Json({"server0"}));
  CHECK(apart["instances"]["servers"][0]["stall_s"] == apart["stall_s"]);
  const std::string words = "server0, the busiest of 3 instances";
  CHECK(apart["answer"]["causes_of"] == words);
  CHECK(!alone["answer"].contains("causes_of"));
  CHECK_THAT(three,
             Contains("vllm-v1-colocated*            " + words) && Contains(" % of the time of " + words));
  CHECK_THAT(one, !Contains("busiest"));
  const ProgramResult explained = program({"explain", results.path("three.json")});
  CHECK_THAT(explained.out, Contains(" % of the time of " + words + ", prompts included"));
  const ProgramResult as_json = program({"explain", results.path("three.json"), "--format", "json"});
  CHECK(Json::parse(as_json.out)["systems"][0]["critical_path_of"] == words);
  CHECK_THAT(program({"explain", results.path("one.json")}).out, Contains(" % of the run's time, prompts"));
}

TEST_CASE("explain says what bounds a run, what would help, and the regret of its cache") {
  const Results results;
  const std::string file = results.run("r.json", {"zipmoe", "zipmoe-lru"});
  const ProgramResult all = program({"explain", file});
  INFO(all.err);
  REQUIRE(all.status == 0);
  CHECK_THAT(all.out, Contains("system zipmoe,") && Contains("system zipmoe-lru,") &&
                          Contains("every figure is the same") && Contains("What bounds it: ") &&
                          Contains("What would help: ") && Contains("Regret of 'lru' against belady"));
  const ProgramResult one = program(
      {"explain", file, "--system", "zipmoe-lru", "--format", "json", "--out", results.path("e.json")});
  REQUIRE(one.status == 0);
  REQUIRE(Json::parse(one.out)["systems"].size() == 1);
  const Json j = Json::parse(one.out)["systems"][0];
  CHECK(one.out == read_bytes(results.folder / "e.json"));
  CHECK(j["system"] == "zipmoe-lru");
  CHECK(j["again"]["same"] == true);
  double shares = 0;
  for (const auto& [cause, share] : j["critical_path"].items()) shares += share.get<double>();
  CHECK(shares == Approx(1).epsilon(1e-9));
  REQUIRE(j["infinitely_fast"].size() == 6);
  for (const Json& freed : j["infinitely_fast"]) {
    CHECK(freed["busy"] >= 0);
    CHECK(freed["busy"] <= 1 + 1e-9);
    // The ratio of the two times that stand beside it.
    CHECK(freed["times_as_fast"].get<double>() ==
          Approx(j["again"]["tpot_s"].get<double>() / freed["tpot_s"].get<double>()).epsilon(1e-12));
  }
  CHECK(j["cache"]["policy"] == "lru");
  CHECK(j["cache"]["references"].size() == 2);
}

TEST_CASE("explain: shares and savings are of the run's time, and sentences fit the terminal", "[plain]") {
  const Results results;
  const std::string file = results.run(
      "r.json", {"zipmoe"}, {"--set", "workload.requests=4", "--set", "workload.output_tokens=32"});
  const ProgramResult text = program({"explain", file});
  REQUIRE(text.status == 0);
  const Json run = Json::parse(read_bytes(results.folder / "r.json"));
  const Json j = Json::parse(program({"explain", file, "--format", "json"}).out)["systems"][0];
  const double wall = j["again"]["wall_s"], tokens = run["metrics"]["tokens"];
  const auto shown = [](double value, const char* form) {
    std::array<char, 32> out{};
    std::snprintf(out.data(), out.size(), form, value);
    return std::string(out.data());
  };
  const double ms = 1e3 * wall / tokens;
  CHECK_THAT(text.out, Contains("The run's time over all generated tokens is " +
                                shown(ms, ms < 10 ? "%.3f" : "%.1f") + " ms") &&
                           Contains("ms of the run a token") && !Contains("ms a token  "));
  const Json& best = j["infinitely_fast"][0];
  const double saved = 1 - best["wall_s"].get<double>() / wall;
  CHECK_THAT(text.out, Contains("The run takes " + shown(100 * saved, "%.1f") + " % less time then"));
  const std::string resource = best["resource"];
  REQUIRE(resource == "decompress");
  const double waited = j["critical_path"][resource];
  REQUIRE(waited > saved);
  CHECK_THAT(text.out, Contains("not the " + shown(100 * waited, "%.1f") + " % that wait for decompression"));
  setenv("COLUMNS", "60", 1);
  std::istringstream lines(program({"explain", file}).out);
  unsetenv("COLUMNS");
  int sentences = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("What ") && !line.starts_with("Every ") && !line.starts_with("Simulated "))
      continue;
    ++sentences;
    CHECK(line.size() <= 60);
  }
  CHECK(sentences >= 2);
}

TEST_CASE("explain: of a cluster its times are the requests' latencies, waiting included", "[plain]") {
  const Results results;
  const std::string file = results.path("r.json");
  REQUIRE(program({"run", "prism-offload", "--system", "prism-offload", "--executor", "fast", "--set",
                   "workload.servers=[{tasks: {arithmetic: 1}, requests: 12, arrivals_per_s: 0.1}]", "--set",
                   "faults={events: [{at: 30 s, event: leaves, server: server2}, {at: 100 s, event: returns, "
                   "server: server2}]}",
                   "--out", file})
              .status == 0);
  const Json run = Json::parse(read_bytes(results.folder / "r.json"));
  const double answered = run["metrics"]["requests"], mean = run["metrics"]["end_to_end_s"],
               tokens = run["metrics"]["tokens"];
  std::array<char, 32> ms{};
  std::snprintf(ms.data(), ms.size(), "%.1f", 1e3 * answered * mean / tokens);
  const ProgramResult text = program({"explain", file});
  CAPTURE(text.out, text.err);
  REQUIRE(text.status == 0);
  std::string joined = text.out;
  std::replace(joined.begin(), joined.end(), '\n', ' ');
  CHECK_THAT(joined, Contains("added up, over all generated tokens are " + std::string(ms.data()) + " ms") &&
                         Contains("waiting for a server that is away") && !Contains("ms of the run a token"));
  const Json j = Json::parse(program({"explain", file, "--format", "json"}).out)["systems"][0];
  CHECK(j["again"]["same"] == true);
  CHECK(j["critical_path"]["server_away"].get<double>() ==
        Approx(run["latency_s"]["server_away"].get<double>() / (answered * mean)));
}

TEST_CASE("explain holds a result against another: where the time is, and what was asked", "[plain]") {
  const Results results;
  const std::string a = results.run("a.json", {"zipmoe-lru"});
  const std::string b = results.run("b.json", {"zipmoe-lru", "zipmoe-nocache"}, {"--set", "budget=18 GB"});
  const ProgramResult r = program({"explain", a, b, "--other-system", "zipmoe-nocache"});
  INFO(r.err);
  REQUIRE(r.status == 0);
  CHECK_THAT(r.out, Contains("'zipmoe-nocache' of " + b + " is ") && Contains("times as slow") &&
                        Contains("budget: \"20 GB\" -> \"18 GB\"") &&
                        Contains("system.cache.policy: \"lru\" -> \"none\""));
  const Json all = Json::parse(program({"explain", a, b, "--format", "json"}).out);
  const Json& j = all["systems"][0]["compared_with"];
  CHECK(j["system"] == "zipmoe-lru");  // the same one, where there are several
  REQUIRE(j["scenario"].size() == 1);
  CHECK(j["scenario"][0]["path"] == "budget");
  const ProgramResult same = program({"explain", a, a});
  CHECK_THAT(same.out,
             Contains("takes the same time for a token") && Contains("The scenarios are the same."));
}

TEST_CASE("explain refuses what is no result, with the file and what was expected") {
  const Results results;
  const std::string good = results.run("r.json", {"zipmoe-lru", "zipmoe-fifo"});
  const auto refuses = [&](std::vector<std::string> words, const std::string& what) {
    words.insert(words.begin(), "explain");
    const ProgramResult r = program(words);
    INFO(r.err);
    CHECK(r.status == 2);
    CHECK(r.out.empty());
    CHECK_THAT(r.err, Contains(what));
  };
  const auto file = [&](const std::string& text) {
    write_bytes(results.folder / "bad.json", text);
    return results.path("bad.json");
  };
  refuses({}, "RESULT is required");
  refuses({results.path("absent.json")}, "absent.json: is no file that can be read");
  refuses({results.path(".")}, "is no file that can be read");
  refuses({file("{")}, "bad.json: is not JSON");
  refuses({file("[]")}, "bad.json: holds no result");
  refuses({file("SQLite format 3")},
          "bad.json: is a store of results; expected one result, as 'moelab results");
  refuses({file("{\"name\": \"x\"}")}, "bad.json: has no 'scenario'");
  refuses({file(std::string(1'000'000, '['))}, "nests deeper than 64 levels");
  refuses({good, "--system", "zipmoe-lfu"}, "has no result of system 'zipmoe-lfu'");
  refuses({good, "--other-system", "x"}, "there is none");
  refuses({good, good, "--other-system", "x"}, "has no result of system 'x'");
  refuses({good, "--out", good}, "is an input");
  refuses({good, "--out", "/dev/null/no/x"}, "/dev/null is no folder");

  Json old = Json::parse(read_bytes(good))[0];
  old.erase("inputs");
  refuses({file(old.dump())}, "an older version of moelab wrote it");
  // What a scenario must not say is refused as in a scenario.
  Json wrong = Json::parse(read_bytes(good))[0];
  wrong["inputs"]["scenario"]["budget"] = "2 parsecs";
  refuses({file(wrong.dump())}, "bad.json");
  wrong["inputs"]["scenario"]["budget"] = "20 GB";
  wrong["inputs"]["scenario"]["systems"][0]["cache"]["policy"] = "lrv";
  refuses({file(wrong.dump())}, "did you mean 'lru'?");
  Json loud = Json::parse(read_bytes(good))[0];
  loud["scenario"] = "\x1b[2J\nWhat bounds it: nothing";
  const ProgramResult said = program({"explain", file(loud.dump())});
  CHECK(said.status == 0);
  CHECK(said.out.find('\x1b') == std::string::npos);
  CHECK(said.out.find("\nWhat bounds it: nothing") == std::string::npos);
  wrong["inputs"]["scenario"]["systems"] = 3;
  refuses({file(wrong.dump())}, "'inputs.scenario.systems' is not a list of one system");
}

TEST_CASE("run's timeline: a window of tokens", "[long]") {
  const Results results;
  const auto slices = [&](const std::vector<std::string>& more) {
    results.run("r.json", {"zipmoe-lru"}, more);
    std::size_t n = 0;
    const Json events = Json::parse(read_bytes(results.folder / "t.json"));
    for (const Json& e : events["traceEvents"]) n += is_operation(e) ? 1 : 0;
    return n;
  };
  const std::string file = results.path("t.json");
  const std::size_t all = slices({"--timeline", file}),
                    first = slices({"--timeline", file, "--timeline-tokens", "1:1"}),
                    rest = slices({"--timeline", file, "--timeline-tokens", "2:99"});
  CHECK(first + rest == all);  // four passes, a token each
  CHECK(first > 0);
  CHECK(rest > 0);
}

TEST_CASE("run's timeline: named .gz, it is the same one, packed") {
  const Results results;
  results.run("r.json", {"zipmoe-lru"}, {"--timeline", results.path("t.json")});
  results.run("r.json", {"zipmoe-lru"}, {"--timeline", results.path("t.json.gz")});
  const std::string plain = read_bytes(results.folder / "t.json");
  std::vector<std::byte> unpacked(plain.size() + 1);
  REQUIRE(InputStream(results.folder / "t.json.gz").read(unpacked) == plain.size());
  CHECK((std::string(reinterpret_cast<const char*>(unpacked.data()), plain.size()) == plain));
  CHECK(read_bytes(results.folder / "t.json.gz").size() * 10 < plain.size());
}

TEST_CASE("run's timeline: Perfetto's own form by the file's name") {
  for (const char* name : {"a.pftrace", "a.b/t.perfetto-trace", "t.pftrace.gz"})
    CHECK(timeline_form(name) == TimelineForm::perfetto);
  for (const char* name : {"a.json", "t.pftrace.json", "t.json.gz", "pftrace", "a.pftrace/t", ""})
    CHECK(timeline_form(name) == TimelineForm::json);
}

TEST_CASE("run's timeline: what is no window of tokens is refused") {
  const Results results;
  const std::string file = results.path("t.json");
  const auto refuses = [&](const std::vector<std::string>& more, const std::string& what) {
    std::vector<std::string> words = {"run", "zipmoe-orin", "--timeline", file};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramResult r = program(words);
    INFO(r.err);
    CHECK(r.status == 2);
    CHECK_THAT(r.err, Contains(what));
  };
  for (const char* bad : {"3", "0:4", "5:4", "a:b", "1:2:3", "1:", ":2", "-1:2", "1:99999999999999999999"})
    refuses({"--timeline-tokens", bad}, "expected FIRST:LAST, such as 100:120");
  refuses({"--timeline-tokens", "1:2", "--timeline-passes", "3"}, "excludes");
  CHECK(program({"run", "zipmoe-orin", "--timeline-tokens", "1:2"}).status == 2);
}

}  // namespace moelab::explain_command_test
