// moelab load and run --requests: what they print, held against `moelab run`, and what they say to bad input.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::load_command_test {
namespace {

using nlohmann::json;

const std::vector<std::string> kSmall = {
    "smoe-deepseek-3080ti",    "--system", "smoe-base", "--set", "workload.output_tokens=4", "--set",
    "workload.prompt_tokens=8"};

std::vector<std::string> words(const std::string& command, const std::vector<std::string>& more) {
  std::vector<std::string> all = {command};
  all.insert(all.end(), kSmall.begin(), kSmall.end());
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

ProgramResult load(const std::vector<std::string>& more) {
  return run_program(MOELAB_PROGRAM, words("load", more));
}

/// 40 requests with each of two seeds.
ProgramResult small_load(std::vector<std::string> more) {
  for (const char* word : {"--requests", "40", "--seeds", "2"}) more.emplace_back(word);
  return load(more);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("load: each point is what a run at that rate comes to, on any number of processes", "[plain]") {
  const ProgramResult loaded =
      small_load({"--rates", "0.5,2", "--slo", "ttft p95 < 2 s", "--format", "json", "--jobs", "1"});
  CAPTURE(loaded.err);
  REQUIRE(loaded.status == 0);
  CHECK(loaded.err.empty());
  CHECK(loaded.out ==
        small_load({"--rates", "2,0.5", "--slo", "ttft p95 < 2 s", "--format", "json", "--jobs", "3"}).out);
  const json result = json::parse(loaded.out);
  CHECK(result["requests"] == 40);
  CHECK(result["level"]["clauses"][0]["limit_s"] == 2);
  const json& points = result["systems"][0]["points"];
  REQUIRE(points.size() == 2);
  for (const json& point : points)
    for (const json& seed : point["seeds"]) {
      const ProgramResult alone = run_program(
          MOELAB_PROGRAM, words("run", {"--set", "workload.requests=40", "--set",
                                        "workload.arrivals_per_s=" + point["rate_per_s"].dump(), "--set",
                                        "seed=" + seed["seed"].dump(), "--format", "json"}));
      REQUIRE(alone.status == 0);
      const json m = json::parse(alone.out)["metrics"];
      for (const char* key :
           {"tpot_s", "itl_s", "queueing_s", "normalised_latency_s", "throughput_requests_per_s",
            "throughput_tokens_per_s", "throughput_input_tokens_per_s", "wall_s", "preemptions"})
        CHECK(seed[key] == m[key]);
      CHECK(seed["ttft_s"]["mean"] == m["ttft_s"]);
      CHECK(seed["ttft_s"]["p95"] == m["ttft_p95_s"]);
      CHECK(seed["end_to_end_s"]["p99"] == m["end_to_end_p99_s"]);
      CHECK(point["meets_level"] ==
            (point["verdict"] == "steady" && std::ranges::all_of(point["seeds"], [](const json& s) {
               return s["ttft_s"]["p95"].get<double>() < 2;
             })));
    }
}

TEST_CASE("load: the JSON names the class that a condition is of") {
  const ProgramResult r =
      run_program(MOELAB_PROGRAM, {"load", "chat-and-code", "--rates", "8", "--requests", "300", "--seeds",
                                   "1", "--set", "workload.requests=100", "--slo",
                                   "chat ttft p95 < 500 ms, tpot mean < 1 s", "--format", "json"});
  CAPTURE(r.err);
  REQUIRE(r.status == 0);
  const json whole = json::parse(r.out);
  CHECK(whole["answer"]["text"].get<std::string>().starts_with("vllm-v1 "));
  const json clauses = whole["level"]["clauses"];
  CHECK(clauses[0]["class"] == "chat");
  CHECK_FALSE(clauses[1].contains("class"));
}

TEST_CASE("load: each class has what run says of it, in each form", "[plain]") {
  const test::ScratchFolder folder;
  const std::string csv = (folder / "classes.csv").string(), out = (folder / "classes.json").string();
  const std::vector<std::string> asked = {"--set", "workload.warm_up=0", "--set", "workload.cool_down=0",
                                          "--set", "workload.batch=256"};
  std::vector<std::string> load = {
      "load",  "chat-and-code",      "--rates", "8", "--requests", "300", "--seeds", "2",
      "--slo", "chat e2e p95 < 3 s", "--csv",   csv, "--out",      out};
  load.insert(load.end(), asked.begin(), asked.end());
  const ProgramResult r = run_program(MOELAB_PROGRAM, load);
  CAPTURE(r.err);
  REQUIRE(r.status == 0);
  const json sample = json::parse(test::read_bytes(out))["systems"][0]["points"][0]["seeds"][0];
  std::vector<std::string> alone = {"run",      "chat-and-code",
                                    "--format", "json",
                                    "--set",    "workload.requests=300",
                                    "--set",    "workload.arrivals_per_s=8",
                                    "--set",    "seed=" + sample["seed"].dump()};
  alone.insert(alone.end(), asked.begin(), asked.end());
  const json run = json::parse(run_program(MOELAB_PROGRAM, alone).out);
  REQUIRE((sample["classes"].size() == 2 && run["classes"].size() == 2));
  std::uint64_t met = 0, answered = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const json &ours = sample["classes"][i], &its = run["classes"][i];
    for (const char* key : {"name", "requests", "ttft_s", "tpot_s", "itl_s", "end_to_end_s", "queueing_s",
                            "normalised_latency_s"})
      CHECK(ours[key] == its[key]);
    met += ours["met_requests"].get<std::uint64_t>();
    answered += ours["answered"].get<std::uint64_t>();
  }
  CHECK(met == sample["met_requests"]);
  CHECK(answered == sample["answered"]);
  CHECK(sample["classes"][0]["met_share"] < 1);   // answers of a chat are long
  CHECK(sample["classes"][1]["met_share"] == 1);  // the level says nothing of code
  const std::vector<std::string> lines = lines_of(test::read_bytes(csv));
  REQUIRE(lines.size() == 1 + 2 * 3);  // seeds; all requests, and two classes
  CHECK(lines.front().starts_with("system,rate_per_s,verdict,seed,class,requests,"));
  for (const std::string& line : lines)
    CHECK(std::ranges::count(line, ',') == std::ranges::count(lines.front(), ','));
  CHECK(contains(lines[2], ",chat," + sample["classes"][0]["requests"].dump() + ","));
  CHECK(contains(r.out, "by class  requests/s  class  served/s  TTFT s p50"));
}

// 700 W of an H100 by its data sheet, times 0.57; 3.6 USD/h are 0.001 USD a second.
TEST_CASE("load: what a token takes is power and price over the tokens a second, in each form", "[plain]") {
  const test::ScratchFolder folder;
  const std::string csv = (folder / "cost.csv").string(), out = (folder / "cost.json").string();
  const ProgramResult r =
      run_program(MOELAB_PROGRAM, {"load", "chat-and-code", "--rates", "8", "--requests", "900", "--seeds",
                                   "2", "--set", "price=3.6 USD/h", "--csv", csv, "--out", out});
  CAPTURE(r.err);
  REQUIRE(r.status == 0);
  const json result = json::parse(test::read_bytes(out));
  double joules = 0, money = 0;
  for (const json& seed : result["systems"][0]["points"][0]["seeds"]) {
    const json& service = seed["service"];
    const double of_output = seed["throughput_tokens_per_s"],
                 of_input = seed["throughput_input_tokens_per_s"];
    CHECK(service["power_w"].get<double>() == Approx(399));
    CHECK(service["power_from"] == "rated power");
    CHECK(service["energy_j_per_output_token"].get<double>() == Approx(399 / of_output));
    CHECK(service["energy_j_per_token"].get<double>() == Approx(399 / (of_output + of_input)));
    CHECK(service["cost_per_million_output_tokens"].get<double>() == Approx(1000 / of_output));
    CHECK(service["cost_per_million_tokens"].get<double>() == Approx(1000 / (of_output + of_input)));
    CHECK(service["currency"] == "USD");
    joules += service["energy_j_per_output_token"].get<double>() / 2;
    money += service["cost_per_million_output_tokens"].get<double>() / 2;
  }
  std::array<char, 80> due{};
  std::snprintf(due.data(), due.size(), "; %.3f kWh (estimate) and %.2f USD a million output tokens",
                joules / 3.6, money);
  CHECK(contains(result["answer"]["text"].get<std::string>(), due.data()));
  const std::vector<std::string> lines = lines_of(test::read_bytes(csv));
  CHECK(contains(lines.front(), ",goodput_requests_per_s,power_w,energy_j_per_output_token,"));
  for (const std::string& line : lines)
    CHECK(std::ranges::count(line, ',') == std::ranges::count(lines.front(), ','));
}

TEST_CASE("load: of what is found the sentence says what a token takes", "[plain]") {
  const test::ScratchFolder folder;
  const std::string out = (folder / "found.json").string();
  const ProgramResult r =
      run_program(MOELAB_PROGRAM, {"load", "chat-and-code", "--find", "--requests", "300", "--seeds", "1",
                                   "--tolerance", "0.2", "--slo", "ttft p95 < 1 s", "--set",
                                   "price=3.6 EUR/h", "--set", "power=1 kW", "--out", out});
  CAPTURE(r.out, r.err);
  REQUIRE(r.status == 0);
  const std::string first = lines_of(r.out).front();
  CHECK(contains(first, " kWh and "));
  CHECK(contains(first, " EUR a million output tokens"));
  const json service = json::parse(test::read_bytes(out))["systems"][0]["highest_rate"]["service"];
  // By the same tokens: 1000 J and 0.001 EUR a second.
  CHECK(service["cost_per_million_output_tokens"].get<double>() ==
        Approx(service["energy_j_per_output_token"].get<double>()));
  CHECK(service["power_from"] == "scenario");
}

TEST_CASE("load: what a token takes is absent where neither power nor price is known") {
  const ProgramResult r = small_load({"--rates", "1", "--format", "json"});
  REQUIRE(r.status == 0);
  const json result = json::parse(r.out);
  for (const json& seed : result["systems"][0]["points"][0]["seeds"]) CHECK_FALSE(seed.contains("service"));
  CHECK_FALSE(contains(small_load({"--rates", "1"}).out, "a token takes"));
}

TEST_CASE("load: a sentence first, and no saturated point is the best", "[plain]") {
  const test::ScratchFolder folder;
  const std::string svg = (folder / "load.svg").string();
  const ProgramResult r = load({"--rates", "0.5,4,40", "--requests", "400", "--seeds", "1", "--plot", svg});
  CAPTURE(r.out, r.err);
  REQUIRE(r.status == 0);
  CHECK(contains(test::read_bytes(svg), "saturated"));
  CHECK(r.out.rfind("smoe-base keeps up with 0.5 requests/s; saturated at ", 0) == 0);
  int best = 0, saturated = 0;
  for (const std::string& line : lines_of(r.out)) {
    const bool is_row = line.rfind("smoe-base  ", 0) == 0, is_best = is_row && contains(line, "best");
    best += is_best ? 1 : 0;
    saturated += is_row && contains(line, "saturated") ? 1 : 0;
    if (is_best) CHECK(contains(line, "steady"));
  }
  CHECK(best == 1);
  CHECK(saturated >= 1);
  const ProgramResult none = load({"--rates", "40", "--requests", "400", "--seeds", "1"});
  CHECK(none.out.rfind("smoe-base does not keep up at this rate; saturated at 40 requests/s", 0) == 0);
  CHECK_FALSE(contains(none.out, "best"));
}

TEST_CASE("load: what is found lies where a curve says so", "[plain]") {
  const std::vector<std::string> level = {"--slo", "e2e p95 < 5 s"};
  const ProgramResult found =
      small_load({level[0], level[1], "--find", "--tolerance", "0.1", "--format", "json"});
  CAPTURE(found.err);
  REQUIRE(found.status == 0);
  const json highest = json::parse(found.out)["systems"][0]["highest_rate"];
  REQUIRE(highest["by_seed_per_s"].size() == 2);
  CHECK(highest["low_per_s"] == std::min(highest["by_seed_per_s"][0], highest["by_seed_per_s"][1]));
  const double low = highest["low_per_s"], high = highest["high_per_s"];
  std::ostringstream rates;
  rates.precision(17);
  rates << low << "," << 1.5 * high;
  const json curve = json::parse(
      small_load({level[0], level[1], "--rates", rates.str(), "--format", "json"}).out)["systems"][0];
  for (const json& seed : curve["points"][0]["seeds"]) CHECK(seed["end_to_end_s"]["p95"].get<double>() < 5);
  CHECK(curve["points"][1]["meets_level"] == false);
  const ProgramResult table = small_load({level[0], level[1], "--find", "--tolerance", "0.1"});
  CHECK(table.out.rfind("smoe-base meets 'e2e p95 < 5 s' up to ", 0) == 0);
}

TEST_CASE("load: the limit at the lowest rate that is too high is the level's, and what bounds it is run's") {
  const test::ScratchFolder folder;
  const std::string svg = (folder / "load.svg").string();
  const std::vector<std::string> asked = {"--rates", "0.25,4,8", "--slo", "ttft p95 < 2 s, tpot mean < 1 s"};
  std::vector<std::string> as_json = asked, as_text = asked;
  as_json.insert(as_json.end(), {"--format", "json"});
  as_text.insert(as_text.end(), {"--plot", svg});
  const ProgramResult loaded = small_load(as_json);
  CAPTURE(loaded.err);
  REQUIRE(loaded.status == 0);
  const json curve = json::parse(loaded.out)["systems"][0];
  REQUIRE(curve["best_rate_per_s"] == 0.25);
  const json &limit = curve["limit"], &point = curve["points"][1];
  CHECK(limit["rate_per_s"] == 4);
  CHECK(limit["verdict"] == point["verdict"]);
  REQUIRE(limit["failed"].size() == 1);
  CHECK(limit["failed"][0]["condition"] == "ttft p95 < 2 s");
  double worst = 0;
  for (const json& seed : point["seeds"]) worst = std::max(worst, seed["ttft_s"]["p95"].get<double>());
  CHECK(limit["failed"][0]["value_s"] == worst);
  const ProgramResult alone =
      run_program(MOELAB_PROGRAM, words("run", {"--set", "workload.requests=40", "--set",
                                                "workload.arrivals_per_s=4", "--format", "json"}));
  const json answer = json::parse(alone.out)["answer"];
  const json& cause = answer["causes"][answer["causes"][0]["cause"] == "idle" ? 1 : 0];
  CHECK(limit["bound_by"]["cause"] == cause["cause"]);
  CHECK(limit["bound_by"]["share"] == cause["share"]);
  const ProgramResult said = small_load(as_text);
  CHECK(contains(said.out, "\n  at 4 requests/s: "));
  CHECK(contains(said.out, " > 2 s; bound there by "));
  const std::string picture = test::read_bytes(svg);
  CHECK(contains(picture, "ttft p95 &lt; 2 s"));
  CHECK(contains(picture, "tpot mean &lt; 1 s"));
}

TEST_CASE("load: the limit of what is found is at a rate within the tolerance above it") {
  const ProgramResult loaded = small_load(
      {"--slo", "ttft p95 < 2 s", "--share", "90", "--find", "--tolerance", "0.1", "--format", "json"});
  CAPTURE(loaded.err);
  REQUIRE(loaded.status == 0);
  const json highest = json::parse(loaded.out)["systems"][0]["highest_rate"];
  const double found = highest["median_per_s"], missed = highest["limit"]["rate_per_s"];
  CHECK(missed > found);
  CHECK(missed <= found * 1.1);
  CHECK(highest["limit"]["failed"].empty());  // a share is asked for, no percentile
  CHECK((highest["limit"]["met_share"] < 0.9 || highest["limit"]["verdict"] == "saturated"));
}

TEST_CASE("load: the CSV file has a line for each run, the picture a curve for each system") {
  const test::ScratchFolder folder;
  const std::string csv = (folder / "load.csv").string(), svg = (folder / "load.svg").string();
  const ProgramResult r =
      small_load({"--rates", "1,50", "--system", "llama-cpp", "--csv", csv, "--plot", svg});
  CAPTURE(r.err);
  REQUIRE(r.status == 0);
  const std::vector<std::string> lines = lines_of(test::read_bytes(csv));
  CHECK(lines.size() == 1 + 2 * 2 * 2);  // systems, rates, seeds
  CHECK(lines.front().rfind("system,rate_per_s,verdict,seed,", 0) == 0);
  const auto commas = [](const std::string& line) { return std::ranges::count(line, ','); };
  for (const std::string& line : lines) CHECK(commas(line) == commas(lines.front()));
  CHECK(lines[1].rfind("smoe-base,1.0,", 0) == 0);
  const std::string picture = test::read_bytes(svg);
  for (const char* text : {"smoe-base", "llama-cpp", "Time to first token", "Time per output token",
                           "Throughput over TTFT", "TPOT p99", "unsettled"})
    CHECK(contains(picture, text));
}

TEST_CASE("load: --out holds what --format json prints, and report draws it") {
  const test::ScratchFolder folder;
  const std::string out = (folder / "made/load.json").string(), page = (folder / "load.html").string();
  const std::vector<std::string> rates = {"--rates", "1,50", "--slo", "ttft p95 < 2 s"};
  std::vector<std::string> printed = rates, written = rates;
  printed.insert(printed.end(), {"--format", "json"});
  written.insert(written.end(), {"--out", out});
  const ProgramResult r = small_load(written);
  CAPTURE(r.err);
  REQUIRE(r.status == 0);
  CHECK(contains(r.out, "results: " + out));
  CHECK(test::read_bytes(out) == small_load(printed).out);
  CHECK(json::parse(test::read_bytes(out))["load_format"] == 1);
  const ProgramResult drawn = run_program(MOELAB_PROGRAM, {"report", out, "--out", page});
  CAPTURE(drawn.err);
  REQUIRE(drawn.status == 0);
  CHECK(contains(drawn.out, "(1 result)"));
  check_refusal(small_load({"--rates", "1", "--out", "/dev/null/no/a.json"}), "/dev/null is no folder");
}

TEST_CASE("load: its records are those of runs at its rates, and its percentiles theirs") {
  const test::ScratchFolder folder;
  const std::string of_load = (folder / "load.jsonl").string(), of_run = (folder / "run.jsonl").string();
  const ProgramResult r = small_load({"--rates", "0.5,2", "--records", of_load, "--format", "json"});
  CAPTURE(r.err);
  REQUIRE(r.status == 0);
  std::map<std::pair<double, int>, std::vector<json>> records;
  for (const std::string& line : lines_of(test::read_bytes(of_load))) {
    json q = json::parse(line);
    std::vector<json>& run = records[{q["rate_per_s"], q["seed"]}];
    q.erase("rate_per_s");
    run.push_back(q);
  }
  REQUIRE(records.size() == 2 * 2);
  const json result = json::parse(r.out);
  for (const json& point : result["systems"][0]["points"])
    for (const json& seed : point["seeds"]) {
      const std::vector<json>& run = records[{point["rate_per_s"], seed["seed"]}];
      REQUIRE(run.size() == 40);
      double ttft = 0;
      for (const json& q : run) ttft += q["first_token_s"].get<double>() - q["arrival_s"].get<double>();
      CHECK(seed["ttft_s"]["mean"].get<double>() == Approx(ttft / 40).epsilon(1e-9));
    }
  REQUIRE(run_program(MOELAB_PROGRAM,
                      words("run", {"--executor", "fast", "--requests", of_run, "--set",
                                    "workload.requests=40", "--set", "workload.arrivals_per_s=2"}))
              .status == 0);
  std::vector<json> run;
  for (const std::string& line : lines_of(test::read_bytes(of_run))) run.push_back(json::parse(line));
  CHECK(run == records[{2.0, run.at(0)["seed"]}]);
}

TEST_CASE("load: records have commas where asked for, and the columns of all systems") {
  const test::ScratchFolder folder;
  const std::string csv = (folder / "r.csv").string();
  const ProgramResult r = small_load({"--rates", "2", "--system", "llama-cpp", "--records", csv});
  CAPTURE(r.err);
  REQUIRE(r.status == 0);
  CHECK(contains(r.out, "requests: " + csv));
  const std::vector<std::string> lines = lines_of(test::read_bytes(csv));
  REQUIRE(lines.size() == 1 + 2 * 2 * 40);
  CHECK(lines.front().starts_with("system,rate_per_s,seed,request,server,arrival_s,"));
  for (const std::string& line : lines)
    CHECK(std::ranges::count(line, ',') == std::ranges::count(lines.front(), ','));
  CHECK(lines[1].starts_with("smoe-base,2.0,1,0,,"));
  check_refusal(small_load({"--rates", "2", "--records", (folder / "r.txt").string()}),
                "expected a file that ends in .jsonl (a JSON object a request) or .csv");
}

TEST_CASE("load: where no system fits there are no records, and report takes them beside the result",
          "[plain]") {
  const test::ScratchFolder folder;
  const std::string csv = (folder / "r.csv").string(), jsonl = (folder / "r.jsonl").string(),
                    out = (folder / "r.json").string(), page = (folder / "r.html").string();
  const auto none = [&](const std::string& records) {
    return load({"--rates", "1", "--seeds", "1", "--set", "budget=1 GB", "--records", records, "--out", out});
  };
  CHECK(none(csv).status == 1);
  CHECK(test::read_bytes(csv).starts_with("system,rate_per_s,seed,request,server,arrival_s,"));
  CHECK(lines_of(test::read_bytes(csv)).size() == 1);
  CHECK(none(jsonl).status == 1);
  CHECK(run_program(MOELAB_PROGRAM, {"report", out, jsonl, "--out", page}).status == 0);
  check_refusal(run_program(MOELAB_PROGRAM, {"report", jsonl, "--out", page}), "has no requests");
  check_refusal(run_program(MOELAB_PROGRAM, {"report", csv, "--out", page}),
                "'moelab report' draws those of a .jsonl file");
}

TEST_CASE("load: where no system fits the status is 1, and what lacks is printed", "[plain]") {
  const ProgramResult none = load({"--rates", "1", "--seeds", "1", "--set", "budget=1 GB"});
  CHECK(none.status == 1);
  CHECK(contains(none.out, "does not fit: it needs "));
  CHECK(none.err.starts_with(
      "moelab: nothing fits: smoe-deepseek-3080ti: system 'smoe-base' does not fit: it needs "));
}

TEST_CASE("load: bad input") {
  check_refusal(load({}), "expected --rates, such as 1,2,4,8, or --find");
  check_refusal(load({"--rates", "1,0,x,-2"}), "0 requests a second: expected a rate above 0");
  check_refusal(load({"--rates", "1,0,x,-2"}), "'x' is no number of requests a second");
  check_refusal(load({"--rates", "1,0,x,-2"}), "-2 requests a second: expected a rate above 0");
  check_refusal(load({"--rates", "nan"}), "'nan' is no number");
  check_refusal(load({"--rates", "1,,2"}), "'' is no number");
  for (const char* rate : {"1e6", "1e10"}) check_refusal(load({"--rates", rate}), "more than any machine");
  check_refusal(load({"--find", "--slo", "tpt p95 < 1 s"}), "did you mean 'tpot'?");
  check_refusal(load({"--find", "--slo", "tpot p95 < 1"}), "expected a time with a unit");
  check_refusal(load({"--find", "--share", "99"}), "expected --slo with it");
  check_refusal(load({"--rates", "1", "--slo", ""}), "--slo: is empty; expected limits");
  check_refusal(load({"--rates", "1", "--system", "smoe-bas"}), "did you mean 'smoe-base'?");
  check_refusal(load({"--rates", "1", "--plot", "/dev/null/no/a.svg"}), "/dev/null is no folder");
  check_refusal(run_program(MOELAB_PROGRAM,
                            {"load", "prism-offload", "--rates", "1", "--set",
                             "workload.servers=[{server: server2, requests: 9, tasks: {arithmetic: 1}}]"}),
                "server 'server2' are there from the start");
  const ProgramResult range = load({"--rates", "1", "--requests", "1"});
  CHECK(range.status == 2);
  CHECK(contains(range.err, "--requests"));
}

TEST_CASE("load: notes are said in each form") {
  const test::ScratchFolder folder;
  test::write_bytes(folder / "log.csv", "arrival_s,prompt_tokens,output_tokens\n0,3,4\n0.5,2,2\n1,2,2\n");
  const std::string workload =
      "workload={batch: 2, speed: 2, request_log: " + (folder / "log.csv").string() + "}";
  const auto with = [&](const char* form) {
    return run_program(MOELAB_PROGRAM, {"load", "smoe-deepseek-3080ti", "--system", "smoe-base", "--set",
                                        workload, "--rates", "1", "--seeds", "1", "--format", form});
  };
  const std::string note = "workload.speed changes nothing here: the log is played at each of the rates";
  const ProgramResult table = with("table"), as_json = with("json");
  INFO(table.err);
  REQUIRE(table.status == 0);
  CHECK(contains(table.out, "note: " + note));
  const json notes = json::parse(as_json.out)["notes"];
  REQUIRE(notes.size() == 1);
  CHECK(contains(notes[0].get<std::string>(), note));
}

TEST_CASE("load: on a cluster a rate is of all users, and says so in each form") {
  const std::vector<std::string> asked = {"load",       "prism-mixtral-alone",
                                          "--system",   "moe-infinity-edge",
                                          "--executor", "fast",
                                          "--rates",    "0.03",
                                          "--seeds",    "1",
                                          "--requests", "60"};
  const auto with = [&](const std::string& form) {
    std::vector<std::string> words = asked;
    words.insert(words.end(), {"--format", form});
    return run_program(MOELAB_PROGRAM, words);
  };
  const ProgramResult table = with("table"), json = with("json");
  REQUIRE(table.status == 0);
  CHECK(contains(table.out, "60 requests a run, seed 1, arrivals poisson at each server"));
  CHECK(contains(table.out, "three edge servers"));
  const nlohmann::json point = nlohmann::json::parse(json.out)["systems"][0]["points"][0]["seeds"][0];
  CHECK(point["requests"] == 60);
  CHECK(point["second_half"]["came"].get<int>() > 15);  // of 60, half of the time
}

TEST_CASE("load: a rate above what any machine could do is unsettled, and said to be") {
  const ProgramResult r = small_load({"--rates", "100000"});
  REQUIRE(r.status == 0);
  CHECK(contains(r.out, "unsettled"));
  CHECK(contains(r.out,
                 "note: smoe-base at 1e+05 requests/s: half of the requests stay longer than an eighth"));
  CHECK_FALSE(contains(r.out, "best"));
}

TEST_CASE("load: where too few requests come, the sentence says that it cannot tell, and what would") {
  // Each request stays for longer than the milliseconds in which all come, and no latency is an hour.
  const std::string whether =
      "whether it meets 'TTFT P95 < 1 h': too few requests came for a steady state, "
      "more of them (--requests) or a lower rate would tell";
  const std::vector<std::string> level{"--slo", "TTFT P95 < 1 h"};
  const ProgramResult one = small_load({"--rates", "100000", level[0], level[1]});
  CAPTURE(one.err);
  REQUIRE(one.status == 0);
  CHECK(one.out.rfind("smoe-base: cannot tell at this rate " + whether + "\n", 0) == 0);
  CHECK(contains(one.out, "100.0"));  // per cent of requests within the limit
  const ProgramResult two = small_load({"--rates", "100000,200000"});
  CHECK(two.out.rfind("smoe-base: cannot tell at any of these rates whether it keeps up: ", 0) == 0);
}

TEST_CASE("load: at one rate it cannot tell, at another it does not") {
  // 400 requests at 40 a second saturate it; at a hundred thousand a second they come within 4 ms.
  const ProgramResult r = load({"--rates", "40,100000", "--requests", "400", "--seeds", "1"});
  REQUIRE(r.status == 0);
  CHECK(r.out.rfind("smoe-base: cannot tell at 1e+05 requests/s whether it keeps up: ", 0) == 0);
  CHECK(contains(r.out, "; at the other rates it does not; saturated at 40 requests/s\n"));
}

TEST_CASE("run --requests: a line a system and request") {
  const test::ScratchFolder folder;
  const std::string jsonl = (folder / "r.jsonl").string(), csv = (folder / "r.csv").string();
  const std::vector<std::string> under_load = {"--system", "llama-cpp", "--set", "workload.arrivals_per_s=2"};
  const auto run = [&](const std::string& file) {
    std::vector<std::string> all = words("run", under_load);
    for (const std::string& word : {std::string("--requests"), file}) all.push_back(word);
    return run_program(MOELAB_PROGRAM, all);
  };
  const ProgramResult r = run(jsonl);
  REQUIRE(r.status == 0);
  CHECK(contains(r.out, "requests: " + jsonl));
  CHECK(contains(r.out, "latency of requests"));
  std::set<std::pair<std::string, int>> seen;
  for (const std::string& line : lines_of(test::read_bytes(jsonl))) {
    const json q = json::parse(line);
    seen.emplace(q["system"], q["request"]);
    CHECK(q["server"].is_null());
    CHECK(q["arrival_s"] <= q["started_s"]);
    CHECK(q["started_s"] < q["first_token_s"]);
    CHECK(q["first_token_s"] < q["end_s"]);
  }
  CHECK(seen.size() == 2 * 8);
  REQUIRE(run(csv).status == 0);
  CHECK(lines_of(test::read_bytes(csv)).size() == 1 + 2 * 8);
  check_refusal(run((folder / "r.txt").string()), "expected a file that ends in .jsonl");
}

TEST_CASE("run --requests: of a cluster each line names the server, and has no end where it left") {
  const test::ScratchFolder folder;
  const std::string file = (folder / "r.jsonl").string();
  const ProgramResult r =
      run_program(MOELAB_PROGRAM, {"run", "prism-offload", "--executor", "fast", "--system", "prism-offload",
                                   "--requests", file, "--format", "json"});
  REQUIRE(r.status == 0);
  const json result = json::parse(r.out);
  std::map<std::string, std::size_t> answered;
  std::size_t lost = 0, number = 0;
  double before = 0;
  for (const std::string& line : lines_of(test::read_bytes(file))) {
    const json q = json::parse(line);
    CHECK(q["request"] == number++);
    CHECK(q["arrival_s"] >= before);
    before = q["arrival_s"];
    if (q["end_s"].is_null())
      ++lost;
    else
      ++answered[q["server"]];
  }
  std::size_t failed = 0;
  for (const json& server : result["cluster"]["servers"]) {
    CHECK(answered[server["name"]] == server["requests"].get<std::size_t>());
    failed += server["failed_requests"].get<std::size_t>();
  }
  CHECK(lost == failed);  // all of them were under way when server2 left
}

}  // namespace moelab::load_command_test
