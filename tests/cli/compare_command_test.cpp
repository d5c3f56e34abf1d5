// moelab compare: its figures held against `moelab run`, and what it says to bad input.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::compare_command_test {
namespace {

using nlohmann::json;

const std::vector<std::string> kSmall = {"--set", "workload.requests=2", "--set",
                                         "workload.output_tokens=12"};

ProgramResult compare(const std::vector<std::string>& more, const std::string& system = "zipmoe-lru") {
  std::vector<std::string> all = {"compare", "zipmoe-orin"};
  if (!system.empty()) all.insert(all.end(), {"--system", system});
  all.insert(all.end(), kSmall.begin(), kSmall.end());
  all.insert(all.end(), more.begin(), more.end());
  return run_program(MOELAB_PROGRAM, all);
}

/// One system's run, as JSON.
json run(const std::string& system, std::vector<std::string> more) {
  std::vector<std::string> all = {"run", "zipmoe-orin", "--system", system, "--format", "json"};
  all.insert(all.end(), kSmall.begin(), kSmall.end());
  all.insert(all.end(), more.begin(), more.end());
  const ProgramResult result = run_program(MOELAB_PROGRAM, all);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out);
}

double hit_share(const json& result) {
  double all = 0;
  for (const auto& [state, uses] : result.at("decode_hits").items()) all += uses.get<double>();
  return result.at("decode_hits").at("F").get<double>() / all;
}

const json& cache_of(const json& budget, const std::string& policy) {
  for (const json& cache : budget["policies"])
    if (cache["policy"] == policy) return cache;
  FAIL("no row of " << policy);
  return budget;
}

}  // namespace

TEST_CASE("compare: each run is what `moelab run` comes to, on any number of processes", "[plain]") {
  const std::vector<std::string> asked = {"--cache", "lru,arc", "--budget", "16,20 GB",
                                          "--seeds", "2",       "--format", "json"};
  std::vector<std::string> one_by_one = asked, at_once = asked;
  one_by_one.insert(one_by_one.end(), {"--jobs", "1"});
  at_once.insert(at_once.end(), {"--jobs", "3"});
  const ProgramResult compared = compare(one_by_one);
  CAPTURE(compared.err);
  REQUIRE(compared.status == 0);
  CHECK(compared.err.empty());
  CHECK(compared.out == compare(at_once).out);
  const json result = json::parse(compared.out);
  REQUIRE(result["budgets"].size() == 2);
  for (const json& budget : result["budgets"]) {
    CHECK(budget["budget_bytes"] == (budget["budget"] == "16 GB" ? 16e9 : 20e9));
    const json& bound = cache_of(budget, "belady");  // though it is not named
    CHECK((bound["bound"] == true && !bound.contains("rank")));
    for (const char* policy : {"lru", "arc", "belady"})
      for (const json& seed : cache_of(budget, policy)["seeds"]) {
        const json same = run("zipmoe-lru", {"--set", "budget=" + budget["budget"].get<std::string>(),
                                             "--set", std::string("overrides.system.cache.policy=") + policy,
                                             "--set", "seed=" + std::to_string(seed["seed"].get<int>())});
        INFO(policy << " at " << budget["budget"] << ", seed " << seed["seed"]);
        CHECK(seed["hit_share"].get<double>() == Approx(hit_share(same)).epsilon(1e-12));
        CHECK(seed["tpot_s"].get<double>() ==
              Approx(same.at("metrics").at("tpot_s").at("mean").get<double>()).epsilon(1e-12));
      }
  }
}

TEST_CASE("compare: means, regret and paired intervals follow from its runs") {
  const ProgramResult compared = compare({"--cache", "lru,fifo,none", "--seeds", "3", "--format", "json"});
  REQUIRE(compared.status == 0);
  const json result = json::parse(compared.out);
  const json& budget = result["budgets"][0];
  const auto values = [&](const std::string& policy) {
    std::vector<double> all;
    for (const json& seed : cache_of(budget, policy)["seeds"]) all.push_back(seed["tpot_s"]);
    return all;
  };
  const auto mean = [](const std::vector<double>& v) { return (v[0] + v[1] + v[2]) / 3; };
  CHECK(budget["policies"][0]["rank"] == 1);
  const std::vector<double> best = values(budget["policies"][0]["policy"]);
  for (const char* policy : {"lru", "fifo", "none"}) {
    const json& row = cache_of(budget, policy);
    std::vector<double> apart = values(policy);
    CHECK(row["tpot_s"].get<double>() == Approx(mean(apart)));
    CHECK(row["regret"]["tpot_s"].get<double>() == Approx(mean(apart) - mean(values("belady"))));
    CHECK(row["regret"]["hit_share"].get<double>() >= 0);
    for (std::size_t i = 0; i < 3; ++i) apart[i] -= best[i];
    // Student's t, 0.975, two degrees of freedom: 4.303 (any table); half width t s / sqrt(3).
    double squares = 0;
    for (const double d : apart) squares += (d - mean(apart)) * (d - mean(apart));
    const double half = 4.303 * std::sqrt(squares / 2 / 3);
    CHECK(row["behind_best_s"].get<double>() == Approx(mean(apart)).margin(1e-15));
    CHECK(row["behind_best_half_width_s"].get<double>() == Approx(half).margin(1e-15));
    CHECK(row["noise"] == (row["rank"] > 1 && mean(apart) <= half));
  }
  CHECK(cache_of(budget, "none")["rank"] == 3);
  CHECK(cache_of(budget, "none")["ranks"] == json::array({3, 3}));  // every expert is loaded every time
}

TEST_CASE("compare: the answer comes first, then a table, or a line a run") {
  const ProgramResult table = compare({"--cache", "lru,none", "--seeds", "2"});
  CHECK(table.out.substr(0, 33) == "At 20 GB lru is the fastest of 2 ");
  for (const char* part : {"ms a token", "Belady, which knows the future", "regret, points",
                           "behind the best", "bound", "seeds 1 to 2", "Student's t"})
    CHECK(contains(table.out, part));
  CHECK(contains(compare({"--cache", "lru,none", "--seeds", "1"}).out, "One seed gives no interval"));
  const std::string csv = compare({"--cache", "lru,none", "--seeds", "2", "--format", "csv"}).out;
  CHECK(csv.substr(0, csv.find('\n')) == "budget_bytes,cache,seed,tpot_s,hit_share,parts_share");
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 1 + 3 * 2);
}

TEST_CASE("compare: of all policies, those that the system cannot run are named with the reason", "[plain]") {
  const json result = json::parse(compare({"--seeds", "1", "--format", "json"}).out);
  const json& budget = result["budgets"][0];
  const json policies = json::parse(run_program(MOELAB_PROGRAM, {"policies", "--format", "json"}).out);
  const auto caches = std::count_if(policies.begin(), policies.end(),
                                    [](const json& policy) { return policy["family"] == "cache"; });
  CHECK(budget["policies"].size() == static_cast<std::size_t>(caches));
  CHECK(contains(cache_of(budget, "zipmoe")["refused"], "planning"));
  CHECK_FALSE(cache_of(budget, "w-tinylfu").contains("refused"));
  CHECK(cache_of(
            json::parse(
                compare({"--cache", "zipmoe,lru", "--seeds", "1", "--format", "json"}, "").out)["budgets"][0],
            "zipmoe")["parts_share"] > 0.0);  // the scenario's first system has pools
}

// LRU-K with k = 1 orders experts by their last use, and W-TinyLFU that is all window has nothing else: both
// are LRU.
TEST_CASE("compare: a policy's parameters are those that follow its name") {
  const ProgramResult made = compare({"--cache", "lru,lru-k:k=1,w-tinylfu:window=1,lru-k,lru-k:k=3",
                                      "--budget", "16", "--seeds", "2", "--format", "json"});
  CAPTURE(made.err);
  REQUIRE(made.status == 0);
  const json budget = json::parse(made.out)["budgets"][0];
  const json& lru = cache_of(budget, "lru");
  std::size_t same = 0, other = 0;
  for (const json& cache : budget["policies"]) {
    if (cache["name"] == "lru-k:k=1" || cache["name"] == "w-tinylfu:window=1") {
      CHECK(cache["seeds"] == lru["seeds"]);
      CHECK(cache["parameters"].size() == 1);
      ++same;
    } else if (cache["policy"] == "lru-k") {
      CHECK(cache["seeds"] != lru["seeds"]);
      ++other;
    }
  }
  CHECK(same == 2);
  CHECK(other == 2);
}

TEST_CASE("compare: where the routing is recorded no seed makes an interval") {
  std::vector<std::string> all = {"compare",    "recorded-default", "--system",
                                  "zipmoe-lru", "--cache",          "lru,fifo"};
  all.insert(all.end(), {"--seeds", "2"});
  const ProgramResult table = run_program(MOELAB_PROGRAM, all);
  CHECK(table.status == 0);
  CHECK(table.out.find("No seed changes anything here") != std::string::npos);
  CHECK(table.out.find("more than noise") == std::string::npos);
  all.insert(all.end(), {"--format", "json"});
  const json budget = json::parse(run_program(MOELAB_PROGRAM, all).out).at("budgets").at(0);
  CHECK_FALSE(cache_of(budget, "lru").contains("noise"));
  CHECK_FALSE(cache_of(budget, "fifo").contains("behind_best_half_width_s"));
}

TEST_CASE("compare: a trace brings its requests, as many as the workload has") {
  test::ScratchFolder folder;
  const auto part = [&](const std::string& requests) {
    const std::string file = (folder / (requests.substr(2) + ".safetensors")).string();
    REQUIRE(run_program(MOELAB_PROGRAM,
                        {"trace", "slice", "debian-moe-8x32", "--requests", requests, "--out", file})
                .status == 0);
    return file;
  };
  const std::string two = part("0:2"), five = part("0:5");
  const ProgramResult compared = run_program(
      MOELAB_PROGRAM, {"compare", "recorded-default", "--system", "zipmoe-lru", "--cache", "lru,fifo",
                       "--set", "workload.requests=3", "--trace", two + "," + five + ",debian-moe-8x32",
                       "--budget", "10 MB", "--seeds", "1", "--format", "json"});
  CAPTURE(compared.err);
  REQUIRE(compared.status == 0);
  const json blocks = json::parse(compared.out)["budgets"];
  REQUIRE(blocks.size() == 3);
  CHECK(blocks[0]["trace"] == two);
  CHECK(contains(run_program(MOELAB_PROGRAM,
                             {"compare", "recorded-default", "--system", "zipmoe-lru", "--cache", "lru,fifo",
                              "--trace", two + "," + five, "--budget", "10 MB", "--seeds", "1"})
                     .out,
                 "\nOver all 2 traces "));
  const auto same = [&](const json& block, const std::string& workload) {
    const ProgramResult alone =
        run_program(MOELAB_PROGRAM, {"run", "recorded-default", "--system", "zipmoe-lru", "--format", "json",
                                     "--set", "workload={batch: 1, " + workload + "}"});
    CAPTURE(alone.err, workload);
    REQUIRE(alone.status == 0);
    CHECK(cache_of(block, "lru")["tpot_s"].get<double>() ==
          Approx(json::parse(alone.out).at("metrics").at("tpot_s").at("mean").get<double>()).epsilon(1e-12));
  };
  same(blocks[0], "trace: " + two);  // it has fewer than 3
  same(blocks[1], "requests: 3, trace: " + five);
  CHECK(cache_of(blocks[2], "lru")["seeds"] == cache_of(blocks[1], "lru")["seeds"]);  // they begin alike
}

TEST_CASE("compare: a law takes the place of the scenario's, and each has its block at each budget",
          "[plain]") {
  const ProgramResult compared = compare({"--cache", "lru,fifo", "--law", "mixtral-8x7b,deepseek-v2-lite",
                                          "--budget", "16,20", "--seeds", "2", "--format", "json"});
  CAPTURE(compared.err);
  REQUIRE(compared.status == 0);
  const json result = json::parse(compared.out);
  REQUIRE(result["budgets"].size() == 4);
  CHECK((result["budgets"][1]["law"] == "mixtral-8x7b" && result["budgets"][1]["budget"] == "20 GB"));
  const json same = run("zipmoe-lru", {"--set", "workload.law=mixtral-8x7b", "--set", "seed=2"});
  const json& lru = cache_of(result["budgets"][1], "lru");
  CHECK(lru["seeds"][1]["hit_share"].get<double>() == Approx(hit_share(same)).epsilon(1e-12));

  // Mean rank and counts, from the blocks.
  for (const json& overall : result["overall"]) {
    double ranks = 0;
    int best = 0, level = 0;
    for (const json& block : result["budgets"]) {
      const json& row = cache_of(block, overall["name"]);
      ranks += row["rank"].get<double>();
      best += row["rank"] == 1 ? 1 : 0;
      level += row["noise"] == true ? 1 : 0;
    }
    CHECK(overall["mean_rank"] == ranks / 4);
    CHECK((overall["best_in"] == best && overall["level_in"] == level && overall["blocks"] == 4));
  }
  CHECK(result["overall"].size() == 2);  // the bound has no rank
  CHECK(result["overall"][0]["mean_rank"] <= result["overall"][1]["mean_rank"]);
}

TEST_CASE("compare: each block has its sentence, and all of them one more", "[plain]") {
  const std::vector<std::string> asked = {"--cache",  "lru,none", "--law",   "deepseek-v2-lite",
                                          "--budget", "16,20",    "--seeds", "2"};
  const std::string table = compare(asked).out;
  CHECK(table.starts_with("With law deepseek-v2-lite at 16 GB lru is the fastest of 2 caches: "));
  // What keeps experts is faster than what loads each of them each time.
  CHECK(contains(table, "\nOver all 2 budgets lru has the best mean rank, 1.00: it is the best in 2.\n"));
  CHECK(contains(table, "\nover all\ncache  mean rank"));
  std::vector<std::string> lines = asked;
  lines.insert(lines.end(), {"--format", "csv"});
  const std::string csv = compare(lines).out;
  CHECK(csv.starts_with(
      "trace,law,budget_bytes,cache,seed,tpot_s,hit_share,parts_share\n,deepseek-v2-lite,16"));
}

// What loads every expert each time is the slower one; alone it is the fastest.
TEST_CASE("compare: a policy called none denies nothing in a sentence") {
  CHECK(compare({"--cache", "none", "--seeds", "2"}).out.starts_with("At 20 GB 'none' takes "));
  CHECK(
      contains(compare({"--cache", "lru,none", "--seeds", "2"}).out, " ms before 'none': more than noise."));
}

TEST_CASE("compare: what the blocks differ in is named where they are ranked over all", "[plain]") {
  const auto table = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--cache", "lru,none", "--seeds", "2"});
    return compare(more).out;
  };
  const std::string laws = "deepseek-v2-lite,qwen3-30b-a3b";
  CHECK(contains(table({"--law", laws}), "\nOver all 2 laws lru has the best mean rank, 1.00"));
  CHECK(contains(table({"--law", laws, "--budget", "16,20"}), "\nOver all 4 pairs of laws and budgets lru"));
}

TEST_CASE("compare: a budget at which nothing fits is said, the others are compared; where none fits it is 1",
          "[plain]") {
  const std::vector<std::string> asked = {"--cache", "lru,fifo", "--seeds", "1"};
  const auto at = [&](const std::string& budgets, const std::string& format) {
    std::vector<std::string> words = asked;
    words.insert(words.end(), {"--budget", budgets, "--format", format});
    return compare(words);
  };
  const ProgramResult some = at("2,20", "json");
  CAPTURE(some.err);
  REQUIRE(some.status == 0);
  const json with = json::parse(some.out), alone = json::parse(at("20", "json").out);
  CHECK(with["budgets"] == alone["budgets"]);
  REQUIRE(with["unfit"].size() == 1);
  CHECK(with["unfit"][0]["budget_bytes"] == 2e9);
  CHECK_FALSE(alone.contains("unfit"));
  CHECK(contains(at("2,20", "table").out, "At 2 GB nothing fits: budget 2 GB is too small for system "));
  const ProgramResult none = at("1,2", "table");
  CHECK(none.status == 1);
  CHECK(none.out.empty());
  CHECK(none.err.starts_with("moelab: nothing fits: zipmoe-orin: budget 2 GB is too small"));
}

TEST_CASE("compare: a block in which nothing fits names its routing as the others do") {
  const ProgramResult compared = compare({"--cache", "lru", "--law", "deepseek-v2-lite", "--budget", "2,20",
                                          "--seeds", "1", "--format", "json"});
  CAPTURE(compared.err);
  REQUIRE(compared.status == 0);
  const json result = json::parse(compared.out);
  REQUIRE(result["unfit"].size() == 1);
  CHECK(result["unfit"][0]["law"] == "deepseek-v2-lite");
  CHECK_FALSE(result["unfit"][0].contains("trace"));
  for (const char* key : {"law", "budget", "budget_bytes"}) CHECK(result["budgets"][0].contains(key));
}

TEST_CASE("compare: routing that does not fit is refused") {
  check_refusal(compare({"--trace", "deepseek-v2-lite"}),
                "--trace deepseek-v2-lite: is no trace but a law; expected --law deepseek-v2-lite");
  check_refusal(compare({"--trace", "debian-moe-8x3"}), "did you mean 'debian-moe-8x32'?");
  check_refusal(compare({"--trace", "debian-moe-8x32"}), "the trace has 8 MoE layers");
  check_refusal(compare({"--trace", "/nowhere/x"}), "cannot open");
  check_refusal(compare({"--law", "deepseek-v2-lit"}), "--law deepseek-v2-lit: unknown law");
  check_refusal(compare({"--law", "olmoe-1b-7b,olmoe-1b-7b"}), "is named twice");
  check_refusal(compare({"--law", ","}), "expected routing laws, found nothing between commas");
  check_refusal(run_program(MOELAB_PROGRAM, {"compare", "recorded-default", "--law", "olmoe-1b-7b"}),
                "expected a scenario with 'workload.output_tokens'");
}

TEST_CASE("compare: refusals name what was expected") {
  check_refusal(compare({"--cache", "lrru"}), "is no cache policy (did you mean 'lru'?)");
  check_refusal(compare({"--cache", "lru,lru"}), "is named twice");
  check_refusal(compare({"--cache", "lru-k:kk=3"}), "has no parameter 'kk'");
  check_refusal(compare({"--cache", "lru:k=3"}), "policy 'lru' has no parameters");
  check_refusal(compare({"--cache", "lru-k:k=3:k=2"}), "parameter 'k' is given twice");
  check_refusal(compare({"--cache", "lru-k:k=much"}), "expected a number from 1 to 64 for 'k', found 'much'");
  check_refusal(compare({"--cache", "lru-k:"}), "expected PARAMETER=NUMBER behind ':'");
  check_refusal(compare({"--cache", "lru-k:k=2.0,lru-k"}), "is named twice: it is 'lru-k:k=2'");
  check_refusal(compare({"--cache", "lru-k:k=0"}), "--cache lru-k:k=0: expected a number from 1 to 64");
  check_refusal(compare({"--cache", "all,lru"}), "--cache all: stands alone");
  check_refusal(compare({"--cache", "lru,,arc"}), "found nothing between commas");
  check_refusal(compare({"--cache", "belady"}), "besides belady");
  check_refusal(compare({"--cache", "lru,zipmoe", "--seeds", "1"}), "needs 'planning'");
  check_refusal(compare({"--budget", "16,much"}), "'much' is no budget; expected GB above 0");
  check_refusal(compare({"--budget", "-1"}), "expected GB above 0");
  check_refusal(compare({"--seeds", "0"}), "not in range 1 to 1000");
  check_refusal(compare({"--cache", "lru"}, "zipmoe-lr"), "did you mean 'zipmoe-lru'?");
  check_refusal(run_program(MOELAB_PROGRAM, {"compare", "fluxmoe-qwen3-next", "--seeds", "1"}),
                "keeps experts by no cache policy");
  check_refusal(run_program(MOELAB_PROGRAM, {"compare", "orin-budgets"}), "moelab sweep");
}

}  // namespace moelab::compare_command_test
