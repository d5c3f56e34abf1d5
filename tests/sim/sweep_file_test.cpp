// Sweep files: which points they mean, and what is wrong with them; conditions.
#include "sim/sweep/sweep_file.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "sim/sweep/expression.hpp"
#include "sim/sweep/sweep_point.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/scenario_files.hpp"

namespace moelab::sweep_file_test {

using namespace moelab::test;

namespace {

bool holds(const std::string& text) {
  return Condition(text).holds([](const std::string& name) -> std::optional<Value> {
    if (name == "budget") return value_of_text("16 GB");
    if (name == "batch") return value_of_text("4");
    if (name == "system") return value_of_text("zipmoe");
    return std::nullopt;
  });
}

std::string problem_of(const std::string& text) {
  try {
    holds(text);
  } catch (const ConditionError& error) {
    return error.what();
  }
  return "";
}

/// A sweep over the scenario of scenario_files.hpp.
class SweepFiles : public Files {
 public:
  SweepFile sweep(const std::string& text) const {
    return read_sweep({path("sweep.yaml"), "name: s\nscenario: scenario.yaml\n" + text});
  }
  std::string problem(const std::string& text) const {
    try {
      sweep(text);
    } catch (const InputError& error) {
      return all_of(error.problems());
    }
    return "";
  }
};

std::vector<std::string> values(const SweepFile& sweep, std::size_t axis) {
  std::vector<std::string> shown;
  for (const AxisChoice& choice : sweep.axes[axis].choices) shown.push_back(choice.shown[0].second);
  return shown;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("condition: arithmetic, comparison and logic as in mathematics") {
  for (const std::string text : {"1 + 2 * 3 == 7",
                                 "(1 + 2) * 3 == 9",
                                 "8 / 2 / 2 == 2",
                                 "1 - 2 - 3 == -4",
                                 "-2 * -3 == 6",
                                 "budget == 16 GB",
                                 "budget < 16.1 GB",
                                 "budget / 2 == 8 GB",
                                 "budget / 4 GB == batch",
                                 "budget / (2 GB/s) == 8 s",
                                 "1500 ms == 1.5 s",
                                 "1 GiB > 1 GB",
                                 "system == 'zipmoe'",
                                 "system != \"lru\"",
                                 "not batch == 3",
                                 "batch == 3 or batch == 4",
                                 "batch > 3 and batch < 5",
                                 "true",
                                 "not false",
                                 "false and false or true",
                                 "true or false and false",
                                 "1e3 == 1000",
                                 "batch*2>=8"})
    CHECK(holds(text));
  for (const std::string text : {"1 > 2", "batch != 4", "not true", "budget >= 17 GB", "false"})
    CHECK_FALSE(holds(text));
}

TEST_CASE("condition: random arithmetic equals that of the compiler") {
  // Trees of small integers, printed with all parentheses; the value is computed beside.
  std::mt19937 random(7);
  const std::function<std::pair<std::string, double>(int)> make =
      [&](int depth) -> std::pair<std::string, double> {
    if (depth == 0 || random() % 4 == 0) {
      const int n = static_cast<int>(random() % 9) + 1;
      return {std::to_string(n), n};
    }
    const auto [a, x] = make(depth - 1);
    const auto [b, y] = make(depth - 1);
    switch (random() % 4) {
      case 0:
        return {"(" + a + "+" + b + ")", x + y};
      case 1:
        return {"(" + a + " - " + b + ")", x - y};
      case 2:
        return {"(" + a + "*" + b + ")", x * y};
      default:
        return {"(" + a + "/" + b + ")", x / y};
    }
  };
  for (int i = 0; i < moelab::test::random_runs(2000); ++i) {
    const auto [a, x] = make(4);
    const auto [b, y] = make(4);
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    INFO(a << " < " << b);
    CHECK(holds(a + " < " + b) == (x < y));
    CHECK(holds(a + " == " + a));
  }
}

TEST_CASE("condition: what is not arithmetic or comparison is refused, with its place") {
  using Catch::Contains;
  CHECK_THAT(problem_of("system('rm')"), Contains("character 1") && Contains("functions are not supported"));
  CHECK_THAT(problem_of("budget = 3"), Contains("character 8"));
  CHECK_THAT(problem_of("budget < 3"), Contains("an amount of bytes and a number without unit"));
  CHECK_THAT(problem_of("budget * budget > 3"), Contains("no unit here"));
  CHECK_THAT(problem_of("budgte < 3 GB"), Contains("nothing is named 'budgte'"));
  CHECK_THAT(problem_of("budget < 3 GX"), Contains("'GX' is no unit"));
  CHECK_THAT(problem_of("budget"), Contains("expected a comparison"));
  CHECK_THAT(problem_of("system < 'a'"), Contains("compares numbers"));
  CHECK_THAT(problem_of("system == 3"), Contains("cannot be compared"));
  CHECK_THAT(problem_of("1 <"), Contains("found the end"));
  CHECK_THAT(problem_of("(1 < 2"), Contains("expected ')'"));
  CHECK_THAT(problem_of("'a == 'b'"), Contains("expected the end or an operator"));
  CHECK_THAT(problem_of(std::string(100, '(') + "1"), Contains("deeper than 64"));
  CHECK_THAT(problem_of(std::string(5000, '1')), Contains("longer than"));
  CHECK_THAT(problem_of("__import__ == 1; 2"), Contains("found ';"));
  for (const std::string text :
       {"", " ", "and", "not", "1 +", "== 2", "1 < 2 < 3", "1e999 > 0", "\"", "#", "a..b == 1"})
    CHECK_FALSE(problem_of(text).empty());
}

TEST_CASE("condition: random texts end in an answer or a reason") {
  std::mt19937 random(11);
  const std::vector<std::string> words = {"1",      "2.5", "GB", "budget", "and", "or",  "not", "(",
                                          ")",      "<",   ">=", "==",     "-",   "+",   "/",   "'x'",
                                          "system", " ",   "\"", ".",      "1e9", "\xff"};
  int answers = 0;
  for (int i = 0; i < moelab::test::random_runs(20'000, 4000); ++i) {
    std::string text;
    for (std::size_t n = random() % 12; n > 0; --n)
      text += words[random() % words.size()] + (random() % 2 ? " " : "");
    try {
      holds(text);
      ++answers;
    } catch (const ConditionError&) {
    }
  }
  CHECK(answers > 0);
}

TEST_CASE("sweep file: every combination once, the last axis fastest") {
  const SweepFiles files;
  const SweepFile s = files.sweep(
      "axes: {budget: [300 kB, 400 kB], workload.batch: [1, 2, 4]}\nsystems: [pooled, inline]\nrepeats: 2\n");
  REQUIRE(s.combinations() == 2 * 3 * 2 * 2);
  std::vector<std::string> seen;
  for (std::uint64_t i = 0; i < s.combinations(); ++i) seen.push_back(to_string(point_of(s, i)));
  CHECK(seen[0] == "budget = 300 kB, workload.batch = 1, system = pooled, seed = 3");
  CHECK(seen[1] == "budget = 300 kB, workload.batch = 1, system = pooled, seed = 4");
  CHECK(seen[2] == "budget = 300 kB, workload.batch = 1, system = inline, seed = 3");
  CHECK(seen[23] == "budget = 400 kB, workload.batch = 4, system = inline, seed = 4");
  std::sort(seen.begin(), seen.end());
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
}

TEST_CASE("sweep file: ranges hold their ends and are even, with the unit they were given in") {
  const SweepFiles files;
  const auto axis = [&](const std::string& text) {
    return values(files.sweep("axes: {budget: " + text + "}\n"), 0);
  };
  CHECK(axis("{linspace: {from: 100 kB, to: 500 kB, points: 5}}") ==
        Texts{"100 kB", "200 kB", "300 kB", "400 kB", "500 kB"});
  CHECK(axis("{linspace: {from: 0.1 MB, to: 0.4 MB, points: 4}}") ==
        Texts{"0.1 MB", "0.2 MB", "0.3 MB", "0.4 MB"});
  CHECK(axis("{linspace: {from: 3 MB, to: 9 MB, points: 1}}") == Texts{"3 MB"});
  CHECK(axis("{logspace: {from: 1 MB, to: 1000 MB, points: 4}}") ==
        Texts{"1 MB", "10 MB", "100 MB", "1000 MB"});
  CHECK(axis("{logspace: {from: 1, to: 64, points: 7}}") == Texts{"1", "2", "4", "8", "16", "32", "64"});
  CHECK(axis("{linspace: {from: 1, to: 4, points: 3, whole: true}}") ==
        Texts{"1", "3", "4"});  // 2.5 rounds away
  CHECK(axis("{list: [1 MB, 2 MB]}") == Texts{"1 MB", "2 MB"});
  const Texts drawn = axis("{random: {from: 1 MB, to: 2 MB, points: 200, seed: 5}}");
  CHECK(drawn == axis("{random: {from: 1 MB, to: 2 MB, points: 200, seed: 5}}"));
  CHECK(drawn != axis("{random: {from: 1 MB, to: 2 MB, points: 200, seed: 6}}"));
  double sum = 0;
  for (const std::string& text : drawn) {
    const double mb = std::get<Measure>(value_of_text(text)).value / 1e6;
    CHECK(mb >= 1);
    CHECK(mb <= 2);
    sum += mb;
  }
  CHECK(sum / 200 == Approx(1.5).margin(5 * std::sqrt(1.0 / 12 / 200)));  // five standard errors
}

TEST_CASE("sweep file: keys of a zip vary together, series are named groups") {
  const SweepFiles files;
  const SweepFile s = files.sweep(
      "zip:\n  - {budget: [300 kB, 400 kB], workload.batch: [1, 2]}\n"
      "series:\n  two threads: {system: pooled, overrides.system.threads: 2}\n  whole: {system: inline}\n");
  REQUIRE(s.combinations() == 4);
  const SweepPoint second = point_of(s, 1);
  CHECK(second.series == "whole");
  CHECK(second.system == "inline");
  const SweepPoint third = point_of(s, 2);
  CHECK(third.series == "two threads");
  CHECK(third.system == "pooled");
  CHECK(third.settings ==
        Settings{{"budget", "400 kB"}, {"workload.batch", "2"}, {"overrides.system.threads", "2"}});
}

TEST_CASE("sweep file: what is wrong is said with its line") {
  using Catch::Contains;
  const SweepFiles files;
  CHECK_THAT(files.problem("axes: {budget: []}\n"), Contains("sweep.yaml:3") && Contains("has no value"));
  CHECK_THAT(files.problem("axes: {budget: 3 GB}\n"), Contains("expected a list of values"));
  CHECK_THAT(files.problem("axes: {budget: {linspac: {}}}\n"), Contains("did you mean 'linspace'"));
  CHECK_THAT(files.problem("axes: {budget: {linspace: {from: 1 GB, to: 2 MB, points: 2}}}\n"),
             Contains("same unit"));
  CHECK_THAT(files.problem("axes: {budget: {logspace: {from: 0, to: 2, points: 2}}}\n"), Contains("above 0"));
  CHECK_THAT(files.problem("axes: {budget: {linspace: {from: x, to: 2, points: 2}}}\n"),
             Contains("expected a number"));
  CHECK_THAT(files.problem("axes: {seed: [1]}\nrepeats: 2\n"), Contains("'seed' varies twice"));
  CHECK_THAT(files.problem("axes: {budget: [1 MB]}\nseries: {a: {budget: 2 MB}}\n"),
             Contains("'budget' varies twice"));
  CHECK_THAT(files.problem("axes: {workload.batch: [1], workload: [{batch: 2}]}\n"),
             Contains("'workload' varies twice") && Contains("'workload.batch'"));
  CHECK_THAT(files.problem(
                 "axes: {overrides.system.threads: [1]}\nseries: {a: {overrides: {system: {threads: 2}}}}\n"),
             Contains("'overrides' varies twice"));
  CHECK(files.problem("series: {a: {budget: 300 kB}, b: {budget: 400 kB}}\n").empty());
  CHECK_THAT(files.problem("zip:\n  - {seed: [1, 2], budget: [1 MB]}\n"), Contains("as many"));
  CHECK_THAT(files.problem("axis: {seed: [1]}\n"), Contains("did you mean 'axes'"));
  CHECK_THAT(files.problem("where: import os\n"), Contains("where: at character 8"));
  const std::string many =
      std::string("{linspace: {from: 1, to: 2, points: ") + (kFewerRuns ? "4000" : "1000000") + "}}";
  CHECK_THAT(files.problem("axes: {a: " + many + ", b: " + many + "}\n"), Contains("more than 10,000,000"));
  CHECK_THAT(files.problem("series: {a: {system: pooled}, b: {}}\n"), Contains("'b' says no 'system'"));
  CHECK_THAT(files.problem("set: {budgte: 3 GB}\n"), Contains("budgte") && Contains("did you mean 'budget'"));
}

TEST_CASE("sweep file: a value is set as a person would write it on the command line") {
  const SweepFiles files;
  const SweepFile s =
      files.sweep("axes: {budget: [300 kB], systems.1.cache.policy: [lru], name: ['12', 'a: b']}\n");
  const SweepPoint point = point_of(s, s.combinations() - 1);
  CHECK(point.settings ==
        Settings{{"budget", "300 kB"}, {"systems.1.cache.policy", "lru"}, {"name", "\"a: b\""}});
  CHECK(point_of(s, 0).settings[2].second == "\"12\"");  // a text, not a number
}

}  // namespace moelab::sweep_file_test
