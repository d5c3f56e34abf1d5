// moelab sweep: sweeps run, go on, are checked first, and bad ones are refused.
#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "models/json.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::sweep_command_test {
namespace {

using namespace moelab::test;
using Catch::Contains;
using nlohmann::json;

const std::string kSweep = R"(name: small
question: What does memory bring?
scenario: zipmoe-orin
set: {workload.requests: 1, workload.prompt_tokens: 4, workload.output_tokens: 3}
systems: [zipmoe-lru, accelerate]
axes: {budget: [16 GB, 20 GB]}
)";

class SweepFolder {
 public:
  std::string sweep(const std::string& text = kSweep) const {
    write_bytes(folder_ / "sweep.yaml", text);
    return (folder_ / "sweep.yaml").string();
  }
  std::string name(const std::string& file) const { return (folder_ / file).string(); }
  ProgramResult run(const std::string& text = kSweep, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"sweep", sweep(text), "--db", name("r.db"), "--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(MOELAB_PROGRAM, words);
  }

 private:
  ScratchFolder folder_;
};

}  // namespace

TEST_CASE("sweep: points are run once, and are what single runs give") {
  const SweepFolder folder;
  const ProgramResult first = folder.run();
  INFO(first.err);
  REQUIRE(first.status == 0);
  CHECK(json::parse(first.out)["done"] == 4);
  CHECK(json::parse(folder.run().out)["there"] == 4);
  const ProgramResult point = run_program(MOELAB_PROGRAM, {"results", folder.name("r.db"), "--result", "1"});
  const ProgramResult single =
      run_program(MOELAB_PROGRAM, {"run", "zipmoe-orin", "--set", "workload.requests=1", "--set",
                                   "workload.prompt_tokens=4", "--set", "workload.output_tokens=3", "--set",
                                   "budget=16 GB", "--system", "accelerate", "--format", "json"});
  REQUIRE(point.status == 0);
  // Byte for byte, but for what a run says of all its systems.
  nlohmann::ordered_json without_answer = nlohmann::ordered_json::parse(single.out);
  REQUIRE(without_answer.erase("answer") == 1);
  CHECK(point.out == without_answer.dump(2) + "\n");

  // Conditions choose among results.
  const auto chosen = [&](const std::string& where) {
    const ProgramResult r =
        run_program(MOELAB_PROGRAM, {"results", folder.name("r.db"), "--where", where, "--format", "json"});
    INFO(r.err);
    return r.status == 0 ? json::parse(r.out)["points"].size() : 99;
  };
  CHECK(chosen("budget < 17 GB") == 2);
  CHECK(chosen("system == 'accelerate' and budget == 20 GB") == 1);
  CHECK(chosen("tpot_s > 0 s") == 4);
  CHECK(chosen("tpot_s > 1 h") == 0);
  const ProgramResult unknown =
      run_program(MOELAB_PROGRAM, {"results", folder.name("r.db"), "--where", "tpot_ss > 0 s"});
  CHECK(unknown.status == 2);
  CHECK_THAT(unknown.err, Contains("did you mean 'tpot_s'"));

  // A report of the store.
  const ProgramResult report =
      run_program(MOELAB_PROGRAM, {"report", folder.name("r.db"), "--out", folder.name("r.html")});
  INFO(report.err);
  CHECK(report.status == 0);
  CHECK_THAT(read_bytes(folder.name("r.html")), Contains("What does memory bring?"));
}

TEST_CASE("sweep: where nothing fits the status is 1, and the results say so; where some fits it is 0") {
  const SweepFolder folder;
  const auto at_budgets = [](const std::string& budgets) {
    std::string text = kSweep;
    const std::string both = "[16 GB, 20 GB]";
    return text.replace(text.find(both), both.size(), budgets);
  };
  const ProgramResult none = folder.run(at_budgets("[1 GB, 2 GB]"));
  CHECK(none.status == 1);
  CHECK_THAT(none.err, Contains("nothing fits: sweep small"));
  CHECK(json::parse(none.out)["done"] == 4);
  const ProgramResult some = folder.run(at_budgets("[1 GB, 20 GB]"));
  CHECK(some.status == 0);
  CHECK(some.err.empty());
  const auto results = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"results", folder.name("r.db"), "--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    return json::parse(run_program(MOELAB_PROGRAM, words).out);
  };
  const json points = results({})["points"];
  REQUIRE(points.size() == 4);
  for (const json& point : points)
    CHECK(point["status"] == (point["axes"]["budget"] == "1 GB" ? "does not fit" : "done"));
  CHECK(results({"--where", "status == 'does not fit'"})["points"].size() == 2);
  CHECK_THAT(run_program(MOELAB_PROGRAM, {"results", folder.name("r.db")}).out, Contains("does not fit"));
}

TEST_CASE("sweep: check says how many points there are and the first of them") {
  const SweepFolder folder;
  const ProgramResult r = run_program(MOELAB_PROGRAM, {"check", folder.sweep()});
  CHECK(r.status == 0);
  CHECK_THAT(r.out,
             Contains("4 points of 4 combinations") && Contains("budget = 16 GB, system = zipmoe-lru"));
}

TEST_CASE("sweep: check knows the sweeps of the program by name", "[long]") {
  const ProgramResult named = run_program(MOELAB_PROGRAM, {"check", "orin-budgets"});
  CHECK(named.status == 0);
  CHECK_THAT(named.out, Contains("200 points"));
}

TEST_CASE("sweep: bad sweeps, stores and options are refused before anything runs") {
  const SweepFolder folder;
  const ProgramResult many = folder.run(
      kSweep +
      "repeats: 1000\nseries: {a: {workload.batch: 1}, b: {workload.batch: 2}, c: {workload.batch: 3}}\n");
  CHECK(many.status == 2);
  CHECK_THAT(many.err, Contains("12000 combinations") && Contains("--yes"));
  const ProgramResult unknown = folder.run("name: x\nscenario: zipmoe-orni\naxes: {seed: [1]}\n");
  CHECK(unknown.status == 2);
  CHECK_THAT(unknown.err, Contains("sweep.yaml:2") && Contains("zipmoe-orin"));
  const ProgramResult key =
      folder.run("name: x\nscenario: zipmoe-orin\nsystems: [zipmoe-lru]\naxes: {bugdet: [1 GB, 2 GB]}\n");
  CHECK(key.status == 2);
  CHECK_THAT(key.err, Contains("did you mean 'budget'"));
  write_bytes(folder.name("r.db"), "not a database");
  const ProgramResult store = folder.run();
  CHECK(store.status == 2);
  CHECK_THAT(store.err, Contains("r.db"));
  CHECK(read_bytes(folder.name("r.db")) == "not a database");
}

TEST_CASE("sweep: an interrupt leaves a store that the same command completes", "[long]") {
  const SweepFolder folder;
  const std::string slow = "name: slow\nscenario: zipmoe-orin\nsystems: [zipmoe]\nrepeats: 60\n";
  const ProgramResult r =
      run_program(MOELAB_PROGRAM, {"sweep", folder.sweep(slow), "--db", folder.name("r.db"), "--jobs", "2"},
                  [&](pid_t child) {
                    for (int i = 0; i < 600; ++i) {  // until the store has something
                      std::this_thread::sleep_for(std::chrono::milliseconds(100));
                      const ProgramResult so_far =
                          run_program(MOELAB_PROGRAM, {"results", folder.name("r.db"), "--sweep", "slow",
                                                       "--where", "tpot_s > 0 s", "--format", "json"});
                      if (so_far.status == 0 && !json::parse(so_far.out)["points"].empty()) break;
                    }
                    kill(child, SIGINT);
                  });
  CHECK(r.status == 130);
  CHECK_THAT(r.out, Contains("the same command goes on"));
  const ProgramResult list = run_program(
      MOELAB_PROGRAM, {"results", folder.name("r.db"), "--where", "tpot_s > 0 s", "--format", "json"});
  REQUIRE(list.status == 0);
  const std::size_t done = json::parse(list.out)["points"].size();
  CHECK(done >= 1);
  CHECK(done < 60);
}

}  // namespace moelab::sweep_command_test
