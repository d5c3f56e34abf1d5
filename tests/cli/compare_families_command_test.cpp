// moelab compare of other families than caches, each held against `moelab run`, and its picture.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "models/json.hpp"
#include "models/text_file.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/cli/xml_document.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::compare_families_test {
namespace {

using nlohmann::json;

struct Case {
  std::string family, scenario, system;
  std::vector<std::string> small;               // settings that make it so
  std::string policy, other, setting_of_other;  // which a run takes
};

const std::vector<std::string> kShort = {"workload.requests=2", "workload.output_tokens=12"};

std::vector<Case> cases() {
  const auto set = [](const std::string& what) { return "overrides.system." + what; };
  return {
      {"routing", "smoe-deepseek-3080ti", "smoe-base", kShort, "model", "smoe",
       set("routing={policy: smoe}")},
      {"schedule", "zipmoe-orin", "zipmoe", kShort, "cache-affinity", "fifo", set("schedule={policy: fifo}")},
      {"prefetch", "zipmoe-orin", "moe-infinity", kShort, "moe-infinity", "layer-window",
       set("prefetch.policy=layer-window")},
      {"execution", "smoe-deepseek-3080ti", "smoe-base", kShort, "gpu-only", "fiddler",
       set("execution={policy: fiddler}")},
      {"batching",
       "fluxmoe-mixtral",
       "fluxmoe",
       {"workload.requests=12", "workload.arrivals_per_s=1"},
       "continuous",
       "continuous:swap=0",
       set("batching.swap=0")},
      {"pressure", "fluxmoe-mixtral", "fluxmoe", kShort, "requests-yield", "experts-yield",
       set("kv.policy=experts-yield")},
      {"storage", "fluxmoe-mixtral", "fluxmoe", kShort, "bandwidth-proportional", "whole-layer",
       set("paging.storage={policy: whole-layer}")},
      {"residency", "fluxmoe-mixtral", "fluxmoe", kShort, "fixed", "budget-aware",
       set("paging.residency={policy: budget-aware}")},
      {"placement",
       "prism-mixtral-bigbench",
       "prism",
       {"workload.servers.0.requests=6", "workload.servers.1.requests=6", "workload.servers.2.requests=6"},
       "prism",
       "uniform",
       set("placement.policy=uniform")}};
}

std::vector<std::string> words(const Case& one, const std::string& command,
                               const std::vector<std::string>& more) {
  std::vector<std::string> all = {command, one.scenario, "--system", one.system, "--format", "json"};
  for (const std::string& setting : one.small) all.insert(all.end(), {"--set", setting});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

json succeeded(const std::vector<std::string>& line) {
  const ProgramResult result = run_program(MOELAB_PROGRAM, line);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out);
}

const json& row_of(const json& block, const std::string& policy) {
  for (const json& row : block["policies"])
    if (row["name"] == policy) return row;
  FAIL("no row of " << policy);
  return block;
}

}  // namespace

TEST_CASE("compare: policies of each family do in a comparison what they do in a run", "[plain]") {
  for (const Case& one : cases()) {
    CAPTURE(one.family);
    const json result =
        succeeded(words(one, "compare", {"--" + one.family, one.policy + "," + one.other, "--seeds", "2"}));
    CHECK(result["family"] == one.family);
    const json& block = result["budgets"][0];
    for (const bool own : {true, false}) {
      std::vector<std::string> more = {"--executor", "fast", "--set", "seed=2"};
      if (!own) more.insert(more.end(), {"--set", one.setting_of_other});
      const json alone = succeeded(words(one, "run", more));
      // In this figure the run's own answer ranks systems.
      const std::string judged_by = alone.at("answer").at("judged_by");
      CHECK(result["judged_by"] == judged_by);
      CHECK(row_of(block, own ? one.policy : one.other)["seeds"][1][judged_by].get<double>() ==
            Approx(alone.at("answer").at("systems")[0].at("seconds").get<double>()).epsilon(1e-12));
    }
  }
}

// On a cluster a request's latency, as in a run; where no request has a second token, too.
TEST_CASE("compare: what is said and tabled is what it ranks by", "[plain]") {
  const Case cluster = cases().back();
  std::vector<std::string> line = words(cluster, "compare", {"--placement", "prism,uniform", "--seeds", "2"});
  const json result = succeeded(line);
  CHECK(result["judged_by"] == "end_to_end_s");
  const json& policies = result["budgets"][0]["policies"];
  CHECK(policies[0]["end_to_end_s"] <= policies[1]["end_to_end_s"]);
  CHECK(policies[1]["behind_best_s"].get<double>() ==
        Approx(policies[1]["end_to_end_s"].get<double>() - policies[0]["end_to_end_s"].get<double>()));
  std::replace(line.begin(), line.end(), std::string("json"), std::string("table"));
  const ProgramResult table = run_program(MOELAB_PROGRAM, line);
  CHECK((contains(table.out, " s a request") && contains(table.out, "end-to-end s")));
  CHECK_FALSE(contains(table.out, "TPOT"));
  const json one_token =
      succeeded({"compare", "zipmoe-orin", "--system", "zipmoe-lru", "--cache", "lru,fifo", "--seeds", "1",
                 "--set", "workload.requests=1", "--set", "workload.output_tokens=1", "--format", "json"});
  CHECK(one_token["judged_by"] == "end_to_end_s");
}

// A server leaves between the last answer under one placement and that under the other.
TEST_CASE("compare: a placement with which more requests fail has no rank", "[plain]") {
  Case cluster = cases().back();
  double prism_s = 0, uniform_s = 0;
  for (const bool own : {true, false}) {
    std::vector<std::string> more = {"--executor", "fast"};
    if (!own) more.insert(more.end(), {"--set", cluster.setting_of_other});
    (own ? prism_s : uniform_s) = succeeded(words(cluster, "run", more)).at("metrics").at("wall_s");
  }
  REQUIRE(prism_s < uniform_s);
  cluster.small.push_back("faults={events: [" + [&] {
    std::string events;
    for (const char* server : {"server1", "server2", "server3"})
      events += std::string(events.empty() ? "" : ", ") +
                "{at: " + std::to_string((prism_s + uniform_s) / 2) + " s, event: leaves, server: " + server +
                "}";
    return events;
  }() + "]}");
  std::vector<std::string> line = words(cluster, "compare", {"--placement", "uniform,prism", "--seeds", "1"});
  const json block = succeeded(line)["budgets"][0];
  const json &prism = row_of(block, "prism"), &uniform = row_of(block, "uniform");
  CHECK(prism["rank"] == 1);
  CHECK(prism["requests"]["failed"] == 0);
  CHECK_FALSE(uniform.contains("rank"));
  CHECK(uniform["requests"]["asked"] == 18);
  REQUIRE(uniform["requests"]["failed"] > 0);
  CHECK(uniform["unranked"] == std::to_string(uniform["requests"]["failed"].get<int>()) +
                                   " of 18 requests fail with it, 0 with prism");
  std::replace(line.begin(), line.end(), std::string("json"), std::string("table"));
  const ProgramResult table = run_program(MOELAB_PROGRAM, line);
  CHECK(table.out.starts_with("More requests fail with uniform. At "));
  CHECK(contains(table.out, "not ranked: uniform: "));
  CHECK_FALSE(contains(table.out, "\nuniform  "));
}

// Switch routes a token to one expert; of three tensors of one shard there are few orders.
TEST_CASE("compare: the best order is the bound of schedules where a layer is small enough") {
  std::vector<std::string> line = {"compare", "switch-orin", "--schedule", "all", "--seeds", "2"};
  for (const char* setting : {"workload.requests=1", "workload.prompt_tokens=1", "workload.output_tokens=4",
                              "overrides.system.shards=1"})
    line.insert(line.end(), {"--set", setting});
  const ProgramResult table = run_program(MOELAB_PROGRAM, line);
  CHECK(contains(table.out, " Exhaustive, which tries the orders of each layer, takes "));
  CHECK(contains(table.out, "regret, ms"));
  line.insert(line.end(), {"--format", "json"});
  const json result = succeeded(line);
  const json& bound = row_of(result["budgets"][0], "exhaustive");
  CHECK((bound["bound"] == true && !bound.contains("rank")));
  for (const json& row : result["budgets"][0]["policies"])
    CHECK(row["regret"]["tpot_s"].get<double>() ==
          Approx(row["tpot_s"].get<double>() - bound["tpot_s"].get<double>()).margin(1e-15));
}

TEST_CASE("compare: what a system cannot run of a family is listed with the reason") {
  const json result = succeeded({"compare", "zipmoe-orin", "--execution", "all", "--seeds", "1", "--set",
                                 "workload.requests=1", "--format", "json"});
  CHECK(contains(row_of(result["budgets"][0], "fiddler")["refused"], "has no GPU with memory of its own"));
  check_refusal(run_program(MOELAB_PROGRAM, {"compare", "zipmoe-orin", "--storage", "all"}),
                "expected a system with 'weights: paged'");
  check_refusal(run_program(MOELAB_PROGRAM, {"compare", "zipmoe-orin", "--batching", "all"}),
                "expected a system with 'batching'");
  check_refusal(
      run_program(MOELAB_PROGRAM, {"compare", "zipmoe-orin", "--planning", "all", "--system", "zipmoe-lru"}),
      "has no pools to plan");
  check_refusal(
      run_program(MOELAB_PROGRAM, {"compare", "zipmoe-orin", "--cache", "lru", "--prefetch", "none"}),
      "--prefetch: is beside --cache: expected policies of one family");
  check_refusal(run_program(MOELAB_PROGRAM, {"compare", "zipmoe-orin", "--schedule", "fif"}),
                "is no schedule policy (did you mean 'fifo'?)");
}

TEST_CASE("compare: what is said of a prefetch policy without room gives it room", "[plain]") {
  const auto compared = [](const std::vector<std::string>& more) {
    std::vector<std::string> all = {
        "compare",  "zipmoe-orin", "--prefetch",          "all",   "--seeds",
        "1",        "--set",       "workload.requests=1", "--set", "workload.output_tokens=12",
        "--format", "json"};
    all.insert(all.end(), more.begin(), more.end());
    return succeeded(all);
  };
  const std::string reason = row_of(compared({})["budgets"][0], "layer-window")["refused"];
  const std::string words =
      "--system zipmoe --set overrides.system.prefetch=\"{policy: hybrimoe, buffer: 4}\"";
  CHECK(contains(reason, words));
  const json with =
      compared({"--system", "zipmoe", "--set", "overrides.system.prefetch={policy: hybrimoe, buffer: 4}"});
  for (const json& row : with["budgets"][0]["policies"]) CHECK_FALSE(row.contains("refused"));
}

TEST_CASE("compare: what takes the same under every seed is called that") {
  const ProgramResult table =
      run_program(MOELAB_PROGRAM, {"compare", "zipmoe-orin", "--system", "zipmoe-lru", "--cache",
                                   "lru,lru-k:k=1", "--seeds", "2", "--set", "workload.requests=2"});
  CHECK(contains(table.out, "; lru-k:k=1 takes the same."));
}

TEST_CASE("compare: of several budgets the picture has a line for each policy over them, of its means",
          "[plain]") {
  test::ScratchFolder folder;
  const std::string svg = (folder / "curves.svg").string();
  const auto compare = [&](const std::vector<std::string>& more) {
    std::vector<std::string> line = {"compare",  "zipmoe-orin",
                                     "--system", "zipmoe-lru",
                                     "--cache",  "lru,none",
                                     "--budget", "16,20,24",
                                     "--seeds",  "2",
                                     "--set",    "workload.requests=2",
                                     "--set",    "workload.output_tokens=12"};
    line.insert(line.end(), more.begin(), more.end());
    const ProgramResult result = run_program(MOELAB_PROGRAM, line);
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    return result.out;
  };
  compare({"--plot", svg});
  const std::string text = read_text_file(svg);
  const test::Element root = test::parse_xml(text);
  CHECK(root.all("g", "series").size() == 2 * 3);  // times and hits, of lru, none and the bound
  CHECK(root.all("path", "band").size() == 2 * 3);
  for (const char* part : {"budget (GB)", "belady (bound)", "their 95 % intervals"})
    CHECK(contains(text, part));
  const json all = json::parse(compare({"--format", "json"}));
  for (const char* policy : {"lru", "none"}) {
    std::vector<double> drawn, mean;
    for (const json& block : all["budgets"])
      for (const json& one : block["policies"])
        if (one["name"] == policy)
          mean.push_back((one["seeds"][0]["tpot_s"].get<double>() + one["seeds"][1]["tpot_s"].get<double>()) /
                         2);
    for (const test::Element* series : root.all("g", "series")) {
      if (series->children.front().text != policy || !drawn.empty()) continue;  // times come first
      for (const test::Element* title : series->all("title"))                   // of each marker
        if (const std::size_t at = title->text.find("TPOT "); at != std::string::npos)
          drawn.push_back(std::stod(title->text.substr(at + 5)));
    }
    REQUIRE(drawn.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) CHECK(drawn[i] == Approx(mean.at(i)).epsilon(1e-3));
  }
}

TEST_CASE("compare: the picture has a panel of times and one of hits at one budget") {
  test::ScratchFolder folder;
  const std::string svg = (folder / "caches.svg").string(), page = (folder / "caches.html").string();
  const auto draw = [&](const std::string& file) {
    const ProgramResult result =
        run_program(MOELAB_PROGRAM,
                    {"compare", "zipmoe-orin", "--system", "zipmoe-lru", "--cache", "lru,none", "--budget",
                     "16", "--seeds", "2", "--set", "workload.requests=2", "--set",
                     "workload.output_tokens=12", "--set", "name=<script>alert(1)</script>", "--plot", file});
    CAPTURE(result.err);
    CHECK(result.status == 0);
    CHECK(contains(result.out, "picture: " + file + "\n"));
  };
  draw(svg);
  const std::string text = read_text_file(svg);
  const test::Element root = test::parse_xml(text);
  // Times: level of the best and of the bound, the best, the one behind it, the bound. Hits: no level of the
  // best.
  CHECK(root.all("g", "series").size() == 5 + 4);
  CHECK(contains(text, "Of hits: of their mean"));
  for (const char* part : {"16 GB: time per output token", "16 GB: hits", "level of the bound", "belady",
                           "seeds 1 to 2", "may be noise"})
    CHECK(contains(text, part));
  draw(page);
  const std::string html = read_text_file(page);
  CHECK(html.starts_with("<!DOCTYPE html>"));
  CHECK_FALSE(contains(html, "<script>"));
  for (const char* part : {"<svg", "is the fastest of 2 caches", "cache    rank  hits %", "</html>"})
    CHECK(contains(html, part));
  check_refusal(run_program(MOELAB_PROGRAM, {"compare", "zipmoe-orin", "--plot", "out.png"}),
                "--plot: expected a file that ends in .svg (a picture) or .html");
  check_refusal(run_program(MOELAB_PROGRAM, {"compare", "zipmoe-orin", "--plot", "/dev/null/no/x.svg"}),
                "/dev/null is no folder");
}

TEST_CASE("compare: in every picture the best looks the same, and levels are lines without markers") {
  test::ScratchFolder folder;
  const std::string svg = (folder / "picture.svg").string();
  const auto drawn = [&](const std::vector<std::string>& asked) {
    std::vector<std::string> line = {"compare",  "zipmoe-orin",
                                     "--system", "zipmoe-lru",
                                     "--plot",   svg,
                                     "--set",    "workload.requests=2",
                                     "--set",    "workload.output_tokens=12"};
    line.insert(line.end(), asked.begin(), asked.end());
    REQUIRE(run_program(MOELAB_PROGRAM, line).status == 0);
    return read_text_file(svg);
  };
  std::set<std::string> fills;
  // With a bound and without one, on one panel and two.
  for (const std::string& text : {drawn({"--cache", "lru,none", "--seeds", "2"}),
                                  drawn({"--schedule", "fifo,cache-affinity", "--seeds", "2"})}) {
    std::size_t levels = 0;
    const test::Element root = test::parse_xml(text);
    for (const test::Element* series : root.all("g", "series")) {
      const std::string name = series->children.front().text;
      if (name == "best") fills.insert(series->attributes.at("fill"));
      if (!name.starts_with("level")) continue;
      ++levels;
      REQUIRE(series->children.size() == 2);  // its name and the line
      CHECK(series->children[1].tag == "svg");
    }
    CHECK(levels > 0);
    CHECK(contains(text, "Of hits") == contains(text, ": hits"));
  }
  CHECK(fills.size() == 1);
}

}  // namespace moelab::compare_families_test
