// moelab tune KEY: thresholds held against a law that can be solved by hand and against `moelab run`, and
// what it says to bad input.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "models/json.hpp"
#include "models/text_file.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/random_runs.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::tune_goal_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

/// A machine on which nothing takes time but reading from its SSD: every token reads all of its experts anew,
/// 2 layers of 2 experts of 3 matrices of 32 x 48 weights of 2 bytes.
constexpr double kBytesAToken = 2 * 2 * 3 * 32 * 48 * 2;
constexpr const char* kOneLink = R"(
name: one-link
model: {name: tiny, hidden: 32, vocab: 100, layers: 2, attention: {heads: 4, head_dim: 8}, moe: {experts: 4, top_k: 2, width: 48}}
device:
  name: only-an-ssd
  title: Only an SSD
  sources: {t: {kind: assumed, text: a test}}
  memory: {total: {value: 4 MB, source: t}, system_reserve: {value: 0 B, source: t}, bandwidth: {value: 1e15 B/s, source: t}}
  cpu: {threads: {value: 4, source: t}, dispatch: {value: 0 us, source: t}}
  ssd: {read: {latency: 0 us, rate: 10 MB/s, source: t}, slowdown_while_decompressing: {value: 1, source: t}, readers: {value: [1], source: t}}
  page_cache: {read: {latency: 0 us, rate: 4 GB/s, source: t}}
  codecs: {lz: {ratio: {value: 0.5, source: t}, decompress: {value: 400 MB/s, source: t}}}
  gpu: {peak: {value: 1e18 FLOP/s, source: t}, flops_efficiency: {value: 1, source: t}, launch: {value: 0 us, source: t}}
budget: 300 kB
seed: 3
workload: {batch: 1, requests: 2, prompt_tokens: 1, output_tokens: 5}
systems: [{name: all-read, weights: whole, page_cache: false, cache: {policy: none}}]
)";

class Goals {
 public:
  Goals() { std::ofstream(file()) << kOneLink; }
  std::string file() const { return (folder_ / "one-link.yaml").string(); }
  std::string name(const std::string& of) const { return (folder_ / of).string(); }
  ProgramResult tune(const std::string& key, const Words& more) const {
    Words words = {"tune", key, file()};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(MOELAB_PROGRAM, words);
  }
  Json as_json(const std::string& key, Words more) const {
    more.insert(more.end(), {"--format", "json"});
    const ProgramResult result = tune(key, more);
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    return Json::parse(result.out);
  }

 private:
  test::ScratchFolder folder_;
};

std::string ms_text(double seconds) {
  return std::to_string(1e3 * seconds) + " ms";
}

}  // namespace

TEST_CASE("tune KEY: the rate at which a token takes so long is bytes over time") {
  const Goals goals;
  for (int run = 0; run < test::random_runs(12, 3); ++run) {
    const double seconds = 3e-3 + 1.37e-3 * run;
    const Json found =
        goals.as_json("device.ssd.read.rate", {"--from", "1 MB/s", "--to", "20 MB/s", "--step", "0.01 MB/s",
                                               "--for", "tpot < " + ms_text(seconds)});
    CHECK(found["outcome"] == "holds");
    REQUIRE(found["ranges"].size() == 1);
    CHECK(found["ranges"][0]["to_the_high_end"] == true);
    const double least = std::stod(found["ranges"][0]["from"].get<std::string>());  // in MB/s
    const double by_law = kBytesAToken / seconds / 1e6;
    CAPTURE(seconds, by_law);
    CHECK(least > by_law);
    CHECK(least <= by_law + 0.01 * (1 + 1e-6));
    for (const Json& point : found["points"]) {
      CHECK(point["metric"].get<double>() == Approx(kBytesAToken / point["in_base_units"].get<double>()));
      CHECK(point["bound_by"]["cause"] == "ssd_read");
      CHECK(point["bound_by"]["place"] == "disk");
    }
  }
}

TEST_CASE("tune KEY: the same law for tokens a second, and an answer where the goal is out of reach",
          "[plain]") {
  const Goals goals;
  // A request is its prompt of a token and four more, five tokens that each read as much.
  const double most = 20e6 / kBytesAToken;
  const Words range = {"--from", "1 MB/s", "--to", "20 MB/s", "--for"};
  Words reachable = range, beyond = range;
  reachable.push_back("tokens_per_s >= " + std::to_string(0.5 * most));
  beyond.push_back("tokens_per_s > " + std::to_string(1.01 * most));
  const Json found = goals.as_json("device.ssd.read.rate", reachable);
  CHECK(std::stod(found["ranges"][0]["from"].get<std::string>()) == Approx(10.0).margin(0.1));
  const Json none = goals.as_json("device.ssd.read.rate", beyond);
  CHECK(none["outcome"] == "not_reachable");
  CHECK(none["ranges"].empty());
  CHECK(none["best"]["value"] == "20 MB/s");
  CHECK(none["best"]["metric"].get<double>() == Approx(most));
  const std::string said = goals.tune("device.ssd.read.rate", beyond).out;
  CHECK(said.starts_with("Not reachable: tokens_per_s > "));
  CHECK(contains(said, "at 20 MB/s, bound by SSD reads (disk), 100.0 % of the time"));
  CHECK(contains(said, "That is an end of the range"));
}

TEST_CASE("tune KEY: what holds everywhere, the best of a metric, Markdown and a picture", "[plain]") {
  const Goals goals;
  const Json all =
      goals.as_json("device.ssd.read.rate", {"--for", "tpot < 1 s"});  // 2.5 to 40 MB/s, around 10
  REQUIRE(all["ranges"].size() == 1);
  CHECK(all["ranges"][0]["from"] == "2.5 MB/s");
  CHECK(all["ranges"][0]["to"] == "40 MB/s");
  CHECK(all["changes"] == 0);
  const Json best = goals.as_json("device.ssd.read.rate", {"--min", "ttft p95", "--to", "30 MB/s"});
  CHECK(best["outcome"] == "best");
  CHECK(best["best"]["value"] == "30 MB/s");
  CHECK(best["best"]["metric"].get<double>() == Approx(kBytesAToken / 30e6));
  const std::string picture = goals.name("pictures/curve.svg");
  const ProgramResult drawn =
      goals.tune("device.ssd.read.rate", {"--for", "tpot < 5 ms", "--plot", picture, "--format", "markdown"});
  REQUIRE(drawn.status == 0);
  const std::string svg = read_text_file(picture);
  CHECK(svg.starts_with("<?xml"));
  CHECK(contains(svg,
                 "device.ssd.read.rate (MB/s)<"));  // in the unit in which the key is written, not "(B/s)"
  CHECK(contains(svg, ">40<"));                     // the highest that was tried is 40 MB/s
  CHECK(contains(drawn.out, "| :-- | --: | --: | --: | --: |\n"));
  CHECK_FALSE(contains(drawn.out, "picture: "));
}

TEST_CASE("tune KEY: how many tokens to draft is what trying all numbers finds", "[plain]") {
  const Goals goals;
  for (const std::string acceptance : {"0", "0.6", "0.9"}) {
    CAPTURE(acceptance);
    const Words settings = {
        "--set",
        "budget=3 MB",
        "--set",
        "workload.output_tokens=40",
        "--set",
        "speculation={tokens: 0, acceptance: " + acceptance + ", draft: {time: 1 ms, source: a test}}"};
    std::vector<double> tried;
    for (int k = 0; k <= 6; ++k) {
      Words words = {"run", goals.file(), "--format", "json"};
      words.insert(words.end(), settings.begin(), settings.end());
      words.insert(words.end(), {"--set", "speculation.tokens=" + std::to_string(k)});
      const ProgramResult run = run_program(MOELAB_PROGRAM, words);
      CAPTURE(run.err);
      REQUIRE(run.status == 0);
      tried.push_back(Json::parse(run.out)["metrics"]["tpot_s"]["mean"]);
    }
    Words words = {"--min", "tpot", "--from", "0", "--to", "6", "--points", "7"};
    words.insert(words.end(), settings.begin(), settings.end());
    const Json best = goals.as_json("speculation.tokens", words)["best"];
    const auto least = std::min_element(tried.begin(), tried.end());
    CHECK(best["metric"].get<double>() == Approx(*least).epsilon(1e-12));
    CHECK(best["value"] == std::to_string(least - tried.begin()));
  }
}

TEST_CASE("tune KEY: a budget's threshold is where runs change sides, and seeds have intervals", "[plain]") {
  const Words small = {"--set", "workload.requests=1",     "--set", "workload.output_tokens=8",
                       "--set", "workload.prompt_tokens=4"};
  Words words = {"tune",          "budget", "zipmoe-orin", "--system", "zipmoe-lru", "--for",
                 "tpot < 100 ms", "--to",   "30 GB",       "--format", "json"};
  words.insert(words.end(), small.begin(), small.end());
  const ProgramResult tuned = run_program(MOELAB_PROGRAM, words);
  CAPTURE(tuned.err);
  REQUIRE(tuned.status == 0);
  const Json found = Json::parse(tuned.out);
  for (const Json& point : found["points"]) {
    if (point["metric"].is_null()) continue;
    Words alone = {"run",      "zipmoe-orin", "--system", "zipmoe-lru",
                   "--format", "json",        "--set",    "budget=" + point["value"].get<std::string>()};
    alone.insert(alone.end(), small.begin(), small.end());
    const Json result = Json::parse(run_program(MOELAB_PROGRAM, alone).out);
    CHECK(result["metrics"]["tpot_s"]["mean"] == point["metric"]);
    CHECK(point["half_width"].is_null());  // of one seed
    if (test::kFewerRuns) break;
  }
  words.insert(words.end(), {"--seeds", "3", "--jobs", "2"});
  const Json seeds = Json::parse(run_program(MOELAB_PROGRAM, words).out);
  for (const Json& point : seeds["points"]) {
    const auto values = point["by_seed"].get<std::vector<double>>();
    if (values.empty()) continue;
    REQUIRE(values.size() == 3);
    const double mean = (values[0] + values[1] + values[2]) / 3;
    double squares = 0;
    for (const double value : values) squares += (value - mean) * (value - mean);
    CHECK(point["metric"].get<double>() == Approx(mean));
    // Student's t for two degrees of freedom, 0.975: 4.303 (NIST/SEMATECH, table 1.3.6.7.2).
    CHECK(point["half_width"].get<double>() == Approx(4.303 * std::sqrt(squares / 2 / 3)).margin(1e-12));
  }
}

TEST_CASE("tune KEY: a budget's answer says what the page cache has beside it, and where to look further") {
  const Goals goals;
  // Of a memory of 4 MB, all of it usable, what the budget leaves.
  const Words small = {"--from", "1 MB",  "--to",       "2 MB",  "--step",
                       "0.5 MB", "--for", "tpot < 1 s", "--set", "systems.0.page_cache=true"};
  const Json found = goals.as_json("budget", small);
  REQUIRE(found["points"].size() >= 2);
  for (const Json& point : found["points"])
    CHECK(point["page_cache_bytes"].get<double>() == Approx(4e6 - point["in_base_units"].get<double>()));
  const std::string said = goals.tune("budget", small).out;
  CHECK(contains(said, "holds for budget of all-read everywhere that was looked at"));
  CHECK(contains(
      said, "At 1 MB the page cache has another 3 MB beside the budget, from which reads are served.\n"));
  CHECK(contains(said, "It was not seen to end: look further by --from below 1 MB, --to above 2 MB.\n"));
  CHECK(contains(said, "page cache beside"));
  // Without such a cache nothing is said of one.
  Words without = small;
  without.back() = "systems.0.page_cache=false";
  CHECK_FALSE(contains(goals.tune("budget", without).out, "page cache"));
  CHECK_FALSE(goals.as_json("budget", without)["points"][0].contains("page_cache_bytes"));
}

TEST_CASE("tune KEY: a least value beyond what the machine has is named, and no end that was not asked for") {
  const Goals goals;
  check_refusal(goals.tune("budget", {"--from", "5 MB", "--for", "tpot < 1 s"}),
                "--from 5 MB: is no less than all that the machine has to give, 4 MB");
  check_refusal(goals.tune("budget", {"--from", "2 MB", "--to", "1 MB", "--for", "tpot < 1 s"}),
                "--to 1 MB: expected more than --from, 2 MB");
}

TEST_CASE("tune KEY: of two conditions it is said that --for takes one") {
  const Goals goals;
  const ProgramResult two = goals.tune("budget", {"--for", "ttft < 3 s and tpot < 125 ms"});
  check_refusal(two, "has more than one condition; expected one; ask for each by itself");
}

TEST_CASE("tune KEY: a request rate is judged as load --find judges it") {
  const Goals goals;
  const double tolerance = 0.02, step = 5;
  // A token takes 3.7 ms; those that come while others are served wait for them.
  const Words common = {"--set", "workload.output_tokens=1", "--requests", "200"};
  Words load = {"load", goals.file(), "--find", "--slo", "ttft p95 < 15 ms"};
  load.insert(load.end(), common.begin(), common.end());
  load.insert(load.end(), {"--format", "json"});
  const ProgramResult loaded = run_program(MOELAB_PROGRAM, load);
  CAPTURE(loaded.err);
  REQUIRE(loaded.status == 0);
  const Json highest = Json::parse(loaded.out)["systems"][0]["highest_rate"];
  REQUIRE(highest["by_seed_per_s"].size() == 3);
  const double median = highest["median_per_s"];
  Words rate = {"--for", "ttft p95 < 15 ms", "--from", "20", "--to", "400", "--step", "5"};
  rate.insert(rate.end(), common.begin(), common.end());
  const Json found = goals.as_json("workload.arrivals_per_s", rate);
  CHECK(found["seeds"] == 3);
  CHECK(found["requests"] == 200);
  REQUIRE(found["ranges"].size() == 1);
  const double most = std::stod(found["ranges"][0]["to"].get<std::string>());
  CHECK(most + step > median);
  CHECK(most < median * (1 + tolerance));
  for (const Json& point : found["points"]) {
    auto values = point["by_seed"].get<std::vector<double>>();
    const auto kept_up = std::count(point["verdicts"].begin(), point["verdicts"].end(), "steady");
    std::sort(values.begin(), values.end());
    CHECK(point["metric"] == values[1]);  // of three seeds two decide
    if (kept_up == 3) CHECK(point["holds"] == (values[1] < 15e-3));
    if (kept_up < 2) CHECK(point["holds"] == false);
  }
  CHECK(contains(found["answer"]["text"].get<std::string>(),
                 "A rate counts where 2 of 3 seeds, of 200 requests a run, keep up and meet the limit"));
}

TEST_CASE("tune KEY: without --requests and --seeds a request rate has load's") {
  const Goals goals;
  const Json found =
      goals.as_json("workload.arrivals_per_s", {"--for", "ttft p95 < 1 h", "--from", "20", "--to", "40",
                                                "--step", "20", "--set", "workload.output_tokens=1"});
  CHECK(found["requests"] == 2000);
  CHECK(found["seeds"] == 3);
  const Json other = goals.as_json("device.ssd.read.rate", {"--from", "1 MB/s", "--to", "2 MB/s", "--step",
                                                            "1 MB/s", "--for", "tpot < 1 h"});
  CHECK(other["requests"] == 2);  // the scenario's
  CHECK(other["seeds"] == 1);
}

TEST_CASE("tune KEY: people read four digits, or as many as tell steps apart; what is set again is exact") {
  const Goals goals;
  const auto shown_and_exact = [&](const Words& range, const std::string& shown, const std::string& exact) {
    Words words = range;
    words.insert(words.end(), {"--for", "tpot < 1 s"});
    const ProgramResult printed = goals.tune("device.ssd.read.rate", words);
    CAPTURE(printed.out, printed.err);
    REQUIRE(printed.status == 0);
    CHECK(contains(printed.out, "from " + shown + " ("));
    CHECK_FALSE(contains(printed.out, exact));
    CHECK(goals.as_json("device.ssd.read.rate", words)["points"][0]["value"] == exact);
  };
  shown_and_exact({"--from", "14.179869184 MB/s", "--to", "40 MB/s"}, "14.18 MB/s", "14.179869184 MB/s");
  shown_and_exact({"--from", "30.123456 MB/s", "--to", "30.5 MB/s", "--step", "0.0001 MB/s"}, "30.1235 MB/s",
                  "30.123456 MB/s");
}

TEST_CASE("tune KEY: a whole number is tried as one, and what cannot be run is said") {
  const Goals goals;
  const Json found = goals.as_json("workload.batch", {"--from", "1", "--to", "2", "--max", "tokens_per_s"});
  for (const Json& point : found["points"]) CHECK((point["value"] == "1" || point["value"] == "2"));
  // Below some budget nothing fits: the first that runs is in the range's own answer.
  const Json budget = goals.as_json("budget", {"--from", "1 kB", "--to", "300 kB", "--for", "tpot < 1 s"});
  CHECK(budget["points"][0]["metric"].is_null());
  CHECK(contains(budget["points"][0]["refused"].get<std::string>(), "too small"));
  CHECK(budget["ranges"][0]["to_the_high_end"] == true);
}

TEST_CASE("tune KEY: GPUs are tried where they divide the model, and what is not possible is said") {
  // Mixtral has 8 experts, 32 heads and 8 groups of them, the node 4 GPUs: 3 divide nothing.
  const Words line = {"tune",
                      "tensor_parallel",
                      "fluxmoe-mixtral",
                      "--system",
                      "fluxmoe",
                      "--max",
                      "tokens_per_s",
                      "--set",
                      "workload.output_tokens=8",
                      "--set",
                      "workload.requests=4"};
  Words json = line;
  json.insert(json.end(), {"--format", "json"});
  const ProgramResult result = run_program(MOELAB_PROGRAM, json);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const Json found = Json::parse(result.out);
  std::vector<std::string> values;
  for (const Json& point : found["points"]) values.push_back(point["value"]);
  CHECK(values == std::vector<std::string>{"1", "2", "4"});
  REQUIRE(found["not_possible"].size() == 1);
  CHECK(found["not_possible"][0]["value"] == "3");
  const ProgramResult check = run_program(
      MOELAB_PROGRAM, {"run", "fluxmoe-mixtral", "--system", "fluxmoe", "--set", "tensor_parallel=3"});
  CHECK(check.status == 2);
  CHECK(contains(check.err, found["not_possible"][0]["why"]));
  const std::string said = run_program(MOELAB_PROGRAM, line).out;
  CHECK(contains(said, "not possible: 3 (3: "));
  REQUIRE(found["best"]["value"] == "4");
  CHECK_FALSE(contains(said, "beyond it"));  // the node has no more
}

TEST_CASE("tune KEY: where the system fits nowhere the status is 1") {
  const Goals goals;
  const ProgramResult none =
      goals.tune("budget", {"--from", "1 kB", "--to", "2 kB", "--max", "tokens_per_s"});
  CHECK(none.status == 1);
  CHECK(none.out.empty());
  CHECK(
      none.err.starts_with("moelab: nothing fits: system 'all-read': gives no tokens_per_s at any of the "));
  CHECK(contains(none.err,
                 "values looked at (--points), from 1 kB to 2 kB; at 1 kB: budget 1 kB is too small"));
  CHECK(goals.tune("budget", {"--for", "tpot < 1 s", "--from", "1 kB", "--to", "2 kB"}).status == 1);
}

TEST_CASE("tune KEY: a place that holds is found between the ones looked at, where the best is sought") {
  const std::vector<std::string> line = {
      "tune",  "workload.skew", "validate-small", "--system", "affinity-lru",
      "--for", "hits > 75 %",   "--from",         "1.0",      "--to",
      "1.4",   "--step",        "0.01",           "--format", "json"};
  const ProgramResult result = run_program(MOELAB_PROGRAM, line);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const Json found = Json::parse(result.out);
  bool any = false;  // of the places that were run
  for (const Json& point : found["points"]) any |= point["metric"].is_number() && point["metric"] > 0.75;
  CHECK(any == !found["ranges"].empty());
  CHECK((found["outcome"] == "not_reachable") == !any);
}

TEST_CASE("tune KEY: what is wrong is said with the nearest name") {
  const Goals goals;
  const Words goal = {"--for", "tpot < 1 s"};
  check_refusal(goals.tune("bugdet", goal), "is no number of a scenario (did you mean 'budget'?)");
  check_refusal(goals.tune("workload.batchh", {"--from", "1", "--to", "4", "--for", "tpot < 1 s"}),
                "did you mean 'batch'");
  check_refusal(goals.tune("systems.0.cache.policy", goal),
                "the scenario has 'none' there, which is no number");
  check_refusal(goals.tune("workload.arrivals_per_s", goal), "--from: is missing");
  // Whole weights are decompressed by no thread.
  check_refusal(goals.tune("systems.0.threads", goal), "unknown key 'threads' in systems.0");
  check_refusal(goals.tune("budget", {}), "expected one of --for");
  check_refusal(goals.tune("budget", {"--for", "tpot < 1 s", "--max", "hits"}), "expected one of --for");
  check_refusal(goals.tune("budget", {"--for", "tpt < 1 s"}),
                "there is no metric 'tpt' (did you mean 'tpot'?)");
  check_refusal(goals.tune("budget", {"--for", "tpot"}), "says no limit");
  check_refusal(goals.tune("budget", {"--for", "tpot < 1"}), "expected a time with a unit");
  check_refusal(goals.tune("budget", {"--for", "tpot < 0 s"}), "is not above 0");
  check_refusal(goals.tune("budget", {"--for", "tokens_per_s > 5 ms"}),
                "expected a number such as '12 tokens/s'");
  check_refusal(goals.tune("budget", {"--for", "hits p95 > 5 %"}), "which is one number");
  check_refusal(goals.tune("budget", {"--for", "ttft p101 < 5 s"}), "'p101' is no statistic of a latency");
  check_refusal(goals.tune("budget", {"--max", "token_per_s"}), "did you mean 'tokens_per_s'");
  check_refusal(goals.tune("budget", {"--for", "tpot < 1 s", "--from", "1 s"}), "--from 1 s");
  check_refusal(goals.tune("budget", {"--for", "tpot < 1 s", "--from", "300 kB", "--to", "200 kB"}),
                "expected more than --from");
  check_refusal(goals.tune("budget", {"--for", "tpot < 1 s", "--step", "1 B", "--to", "3 MB"}),
                "more than a million steps");
  check_refusal(goals.tune("budget", {"--for", "tpot < 1 s", "--system", "all-red"}),
                "did you mean 'all-read'");
  check_refusal(goals.tune("seed", {"--min", "tpot"}), "expected --seeds");
  check_refusal(goals.tune("budget", {"--for", "hits > 50"}), "expected a share of 1 at most");
  check_refusal(run_program(MOELAB_PROGRAM, {"tune", "systems.1.threads", "validate-small", "--max", "hits"}),
                "is of system 'affinity-lru', and 'affinity-zipmoe' is run");
  check_refusal(run_program(MOELAB_PROGRAM, {"tune", "budget"}), "expected a key and a scenario");
  check_refusal(run_program(MOELAB_PROGRAM,
                            {"tune", "alpha", "zipmoe-orin", "--system", "zipmoe", "--for", "ttft < 1 s"}),
                "expected a budget of the mean time per output token");
  check_refusal(run_program(MOELAB_PROGRAM, {"tune", "alpha", "zipmoe-orin", "--system", "zipmoe"}),
                "expected --tpot 40ms or --for");
}

TEST_CASE("tune: of a cluster on which requests fail it says how many, and that the metric is of the others",
          "[plain]") {
  const Words asked = {"prism-offload",
                       "--system",
                       "moe-infinity-edge",
                       "--set",
                       "workload.servers=[{tasks: {arithmetic: 1}, requests: 5, arrivals_per_s: 0.1}]",
                       "--set",
                       "faults={events: [{at: 20 s, event: leaves, server: server2}]}"};
  const auto with = [&](const Words& before, const Words& behind) {
    Words words = before;
    words.insert(words.end(), asked.begin(), asked.end());
    words.insert(words.end(), behind.begin(), behind.end());
    return run_program(MOELAB_PROGRAM, words);
  };
  const Json run =
      Json::parse(with({"run"}, {"--set", "budget=16 GB", "--executor", "simgrid", "--format", "json"}).out);
  const std::uint64_t failed = run["metrics"]["failed_requests"];
  REQUIRE(failed > 0);
  const Words range = {"--min", "e2e", "--from", "15 GB", "--to", "16 GB", "--step", "1 GB", "--points", "2"};
  Words json = range;
  json.insert(json.end(), {"--format", "json"});
  const Json point = Json::parse(with({"tune", "budget"}, json).out)["points"].back();
  CHECK(point["requests"]["asked"] == 15);
  CHECK(point["requests"]["failed"] == failed);
  const ProgramResult shown = with({"tune", "budget"}, range);
  CAPTURE(shown.out, shown.err);
  CHECK(shown.out.starts_with("Requests fail here: the metric is of those that are answered.\n"));
  CHECK(contains(shown.out, " " + std::to_string(failed) + " of 15\n"));
}

}  // namespace moelab::tune_goal_test
