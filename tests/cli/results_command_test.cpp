// moelab results: what it prints of a store, held against what was put in, and what it says to bad input.
#include <catch2/catch.hpp>
#include <filesystem>

#include "models/json.hpp"
#include "sim/store/result_store.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/sim/store_cases.hpp"
#include "tests/traces/trace_files.hpp"
#include "traces/import/csv_reader.hpp"

namespace moelab::results_command_test {
namespace {

using namespace moelab::test;
using nlohmann::json;

/// A result with these times, and no other metric that differs.
std::string result_with(const std::string& ttft, const std::string& tpot) {
  std::string text = result_text(tpot);
  return text.replace(text.find("1.5"), 3, ttft);
}

StoredPoint budget_point(std::uint64_t number, const std::string& budget, const std::string& system) {
  StoredPoint point = stored_point(number, budget, system, system + budget);
  point.axes = {{"budget", budget}};
  point.series = "";
  return point;
}

StoredRun run_of(const std::string& identity, const std::string& ttft, const std::string& tpot) {
  StoredRun run = stored_run(identity);
  run.seed = 1;
  run.result = result_with(ttft, tpot);
  return run;
}

StoredRun failed_run(const std::string& identity) {
  StoredRun run = run_of(identity, "0", "0");
  run.status = RunStatus::failed;
  run.error = "budget: too small,\n\"2 GB\" more";
  run.result = "";
  return run;
}

/// Two systems over three budgets: five are done, one failed, one did not run.
class Store {
 public:
  Store() {
    ResultStore store(file(), ResultStore::Access::write);
    store.put_sweep(stored_sweep("budgets"),
                    {budget_point(0, "12 GB", "zipmoe"), budget_point(1, "8 GB", "zipmoe"),
                     budget_point(2, "900 MB", "zipmoe"), budget_point(3, "12 GB", "lru"),
                     budget_point(4, "8 GB", "lru"), budget_point(5, "900 MB", "lru")});
    store.put_run(run_of("zipmoe12 GB", "1.5", "0.125"));
    store.put_run(run_of("zipmoe8 GB", "2", "0.25"));
    store.put_run(failed_run("zipmoe900 MB"));
    store.put_run(run_of("lru12 GB", "3", "null"));
    store.put_run(run_of("lru8 GB", "4", "0.0625"));
  }
  /// A second sweep: point 0 as before under another number, the system lru 50 % slower at 12 GB and with a
  /// time per token of its own, gone at 8 GB; another budget.
  void add_second(const std::filesystem::path& where) const {
    ResultStore store(where, ResultStore::Access::write);
    StoredPoint slower = budget_point(7, "12 GB", "lru"), gone = budget_point(8, "8 GB", "lru");
    StoredPoint quicker = budget_point(9, "8 GB", "zipmoe");
    slower.run = "slower", gone.run = "gone", quicker.run = "quicker";
    store.put_sweep(stored_sweep("later"), {budget_point(6, "12 GB", "zipmoe"), slower, gone, quicker,
                                            budget_point(10, "16 GB", "zipmoe")});
    store.put_run(run_of("zipmoe12 GB", "1.5", "0.125"));
    store.put_run(run_of("slower", "4.5", "0.5"));
    store.put_run(failed_run("gone"));
    store.put_run(run_of("quicker", "1", "0.2"));
  }
  std::filesystem::path file() const { return folder_ / "results.db"; }
  std::filesystem::path other(const std::string& name) const { return folder_ / name; }

  ProgramResult results(const std::vector<std::string>& options) const {
    std::vector<std::string> words = {"results", file().string()};
    words.insert(words.end(), options.begin(), options.end());
    return run_program(MOELAB_PROGRAM, words);
  }
  void check_refusal(const std::vector<std::string>& options, const std::string& reason) const {
    moelab::check_refusal(results(options), reason);
  }
  json as_json(std::vector<std::string> options) const {
    options.insert(options.end(), {"--format", "json"});
    const ProgramResult result = results(options);
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    return json::parse(result.out);
  }
  std::vector<int> numbers(const std::vector<std::string>& options) const {
    const json result = as_json(options);
    std::vector<int> numbers;
    for (const json& point : result["points"]) numbers.push_back(point["point"]);
    return numbers;
  }

 private:
  ScratchFolder folder_;
};

using Numbers = std::vector<int>;

}  // namespace

TEST_CASE("results: help says where the tables are documented and ends with an example") {
  const ProgramResult help = run_program(MOELAB_PROGRAM, {"results", "--help"});
  CHECK(help.status == 0);
  CHECK(contains(help.out, "sim/store/README.md"));
  CHECK(contains(help.out, "Example:\n  moelab results "));
  CHECK(std::filesystem::exists(std::string(MOELAB_SOURCE_DIR) + "/sim/store/README.md"));
}

TEST_CASE("results: the only sweep with its points; several sweeps as a list") {
  const Store store;
  const ProgramResult only = store.results({});
  CAPTURE(only.out, only.err);
  REQUIRE(only.status == 0);
  CHECK(only.err.empty());
  CHECK(contains(only.out,
                 "sweep    points  done  failed  missing               created\n"
                 "budgets       6     4       1        1  2026-11-22T05:00:00Z\n"
                 "which budget?\n\n"));
  CHECK(contains(only.out,
                 "point  budget  system  status   TTFT s  TPOT ms  tokens/s  end-to-end s\n"
                 "0      12 GB   zipmoe  done       1.50    125.0      9.98          12.0\n"));
  CHECK(contains(only.out, "2      900 MB  zipmoe  failed        -        -         -             -\n"));
  CHECK(contains(only.out, "3      12 GB   lru     done       3.00        -      9.98          12.0\n"));
  CHECK(contains(only.out, "5      900 MB  lru     missing       -        -         -             -\n"));

  store.add_second(store.file());
  const ProgramResult both = store.results({});
  CHECK(both.status == 0);
  CHECK(contains(both.out, "budgets       6     4       1        1"));
  CHECK(contains(both.out, "later         5     3       1        1"));
  CHECK_FALSE(contains(both.out, "TTFT"));
  CHECK(contains(both.out, "points of one: moelab results " + store.file().string() + " --sweep budgets\n"));
  CHECK(store.results({"--sweep", "budgets"}).out == only.out);
  CHECK(store.as_json({})["sweeps"].size() == 2);
  CHECK_FALSE(store.as_json({}).contains("points"));
}

TEST_CASE("results: conditions take tune's names of metrics, and a word that is a text's") {
  const Store store;
  CHECK(store.numbers({"--where", "ttft < 2.5 s"}) == store.numbers({"--where", "ttft_s < 2.5 s"}));
  CHECK(store.numbers({"--where", "ttft < 2.5 s"}) == Numbers{0, 1});
  CHECK(store.numbers({"--where", "tpot < 100 ms"}) == Numbers{4});
  CHECK(store.numbers({"--where", "system == zipmoe and budget == 8 GB"}) == Numbers{1});
  CHECK(store.numbers({"--where", "zipmoe != system and budget == 8 GB"}) == Numbers{4});
  store.check_refusal({"--where", "system == zipmo"},
                      "no point has 'zipmo' in 'system' (did you mean 'zipmoe'?)");
  // A number is no text, and a word that stands alone is a column's or nothing.
  store.check_refusal({"--where", "ttft == zipmoe"}, "there is no axis or column 'zipmoe'");
  store.check_refusal({"--where", "tokens_per_sec > 3"}, "did you mean 'tokens_per_s'?");
  store.check_refusal({"--where", "system"}, "expected a comparison");
}

TEST_CASE(
    "results: where points answer different numbers of requests these are shown; none is not too little "
    "memory") {
  const Store store;
  CHECK_FALSE(contains(store.results({}).out, "answered"));
  const auto with = [](StoredRun run, std::initializer_list<std::pair<std::string, std::string>> changes) {
    for (const auto& [was, is] : changes) run.result.replace(run.result.find(was), was.size(), is);
    return run;
  };
  const std::string none = "\"tokens\": 0, \"requests\": 0", five = "\"tokens\": 1000, \"requests\": 5";
  {
    ResultStore fewer(store.other("fewer.db"), ResultStore::Access::write);
    fewer.put_sweep(stored_sweep("fewer"),
                    {budget_point(0, "12 GB", "all"), budget_point(1, "12 GB", "lossy"),
                     budget_point(2, "12 GB", "lost"), budget_point(3, "12 GB", "unfit")});
    fewer.put_run(run_of("all12 GB", "2", "0.1"));
    fewer.put_run(with(run_of("lossy12 GB", "1", "0.1"), {{"\"requests\": 5", "\"requests\": 2"}}));
    fewer.put_run(with(run_of("lost12 GB", "null", "null"), {{five, none + ", \"asked_requests\": 5"}}));
    fewer.put_run(with(run_of("unfit12 GB", "null", "null"), {{five, none}, {"64.0", "0.0"}}));
  }
  const ProgramResult shown = run_program(MOELAB_PROGRAM, {"results", store.other("fewer.db").string()});
  CAPTURE(shown.out, shown.err);
  CHECK(contains(shown.out, "tokens/s  end-to-end s  answered\n"));
  CHECK(contains(shown.out, "9.98          12.0         5\n"));
  CHECK(contains(shown.out, "9.98          12.0         2\n"));
  CHECK(contains(shown.out,
                 "12 GB   lost    done               -        -      9.98          12.0         0\n"));
  CHECK(contains(shown.out,
                 "12 GB   unfit   does not fit       -        -         -             -         -\n"));
}

TEST_CASE("results: JSON has every metric, null where there is none") {
  const Store store;
  const json result = store.as_json({});
  CHECK(result["sweeps"][0] == json({{"name", "budgets"},
                                     {"question", "which budget?"},
                                     {"created", "2026-11-22T05:00:00Z"},
                                     {"version", "0.1.0"},
                                     {"points", 6},
                                     {"done", 4},
                                     {"failed", 1},
                                     {"missing", 1}}));
  const json& slow = result["points"][3];
  CHECK(slow["axes"] == json({{"budget", "12 GB"}}));
  CHECK(slow["metrics"]["ttft_s"] == 3);
  CHECK(slow["metrics"]["tpot_s"].is_null());
  CHECK(slow["metrics"]["tpot_p99_s"] == 1e-7);
  CHECK(slow["seed"] == 1);
  CHECK(slow["cpu_s"] == 0.1);
  CHECK(slow["settings"] == json::parse(R"([["budget", "12 GB"]])"));
  CHECK(result["points"][5]["status"] == "missing");
  CHECK_FALSE(result["points"][5].contains("metrics"));
}

TEST_CASE("results: the columns are what a real run's result has") {
  const ProgramResult ran = run_program(
      MOELAB_PROGRAM, {"run", "zipmoe-orin", "--system", "zipmoe-lru", "--set", "workload.requests=2",
                       "--set", "workload.output_tokens=3", "--format", "json"});
  REQUIRE(ran.status == 0);
  const json expected = json::parse(ran.out)["metrics"];
  const Store store;
  StoredRun run = stored_run("lru900 MB");  // of point 5
  run.result = ran.out;
  ResultStore(store.file(), ResultStore::Access::write).put_run(run);
  CHECK(store.results({"--result", "5"}).out == ran.out);
  const json result = store.as_json({});
  const json& found = result["points"][5]["metrics"];
  CHECK(found["tokens"] == 6);  // two requests of three
  for (const char* same : {"ttft_s", "end_to_end_s", "throughput_tokens_per_s", "tokens", "requests"})
    CHECK(found[same] == expected[same]);
  CHECK(found["tpot_s"] == expected["tpot_s"]["mean"]);
  for (const char* percentile : {"p50", "p90", "p99"})
    CHECK(found["tpot_" + std::string(percentile) + "_s"] == expected["tpot_s"][percentile]);
  CHECK(found["simulated_s"] == expected["wall_s"]);
}

TEST_CASE("results: points chosen by their axes and status, in the order asked for") {
  const Store store;
  CHECK(store.numbers({"--axis", "budget=8 GB"}) == Numbers{1, 4});
  CHECK(store.numbers({"--axis", "budget=8000MB"}) == Numbers{1, 4});  // the same quantity
  CHECK(store.numbers({"--axis", "budget=8 GB", "--axis", "budget=900 MB"}) == Numbers{1, 2, 4, 5});
  CHECK(store.numbers({"--failed"}) == Numbers{2});
  CHECK(store.numbers({"--failed", "--axis", "budget=8 GB"}).empty());
  CHECK(store.numbers({"--sort", "budget"}) == Numbers{2, 5, 1, 4, 0, 3});  // as quantities
  CHECK(store.numbers({"--sort", "system"}) == Numbers{3, 4, 5, 0, 1, 2});
  CHECK(store.numbers({"--sort", "tpot_s"}) == Numbers{4, 0, 1, 2, 3, 5});  // without a value last
  CHECK(store.numbers({"--sort", "tpot_s", "--reverse"}) == Numbers{1, 0, 4, 2, 3, 5});
  const ProgramResult failed = store.results({"--failed"});
  CHECK(contains(failed.out,
                 "point 2 (budget=900 MB zipmoe): failed after 1.2 s: budget: too small,?\"2 GB\" more\n"));
  CHECK(contains(store.results({"--failed", "--axis", "budget=8 GB"}).out, "no point failed\n"));

  store.check_refusal({"--axis", "budgte=8 GB"}, "the sweep has no axis 'budgte' (did you mean 'budget'?)");
  store.check_refusal({"--axis", "budget=7 GB"}, "no point has '7 GB' there (did you mean '8 GB'?)");
  store.check_refusal({"--axis", "budget"}, "--axis budget: expected NAME=VALUE");
  store.check_refusal({"--sort", "tpot"}, "there is no such column (did you mean 'tpot_s'?)");
  CHECK(store.results({"--reverse"}).status == 2);
}

TEST_CASE("results: CSV that a reader of CSV gets everything back from") {
  const Store store;
  const std::string out = store.other("out.csv").string();
  const ProgramResult written = store.results({"--csv", out});
  CAPTURE(written.err);
  REQUIRE(written.status == 0);
  CHECK(written.out == out + ": 6 points\n");
  const std::string text = read_bytes(out);
  CHECK(contains(text, "point,budget,series,system,status,ttft_s,tpot_s,"));
  CHECK(std::count(text.begin(), text.end(), '\r') == 7);
  CHECK(contains(text, "\r\n2,900 MB,,zipmoe,failed,,,,,,,,,,,\"budget: too small,\n\"\"2 GB\"\" more\","));
  CsvReader csv(out);
  std::vector<std::string> statuses;
  while (csv.next()) {
    statuses.emplace_back(csv.field(csv.column("status")));
    if (statuses.size() != 1) continue;
    CHECK(csv.field(csv.column("budget")) == "12 GB");
    CHECK(csv.number_at(csv.column("tpot_p99_s"), "a time") == 1e-7);
    CHECK(csv.field(csv.column("tokens")) == "1000");
    CHECK(csv.number_at(csv.column("cpu_s"), "a time") == 0.1);
    CHECK(csv.field(csv.column("peak_bytes")) == "123456789");
    CHECK(csv.field(csv.column("run")) == "zipmoe12 GB");
  }
  CHECK(statuses == std::vector<std::string>{"done", "done", "failed", "done", "done", "missing"});
  for (const MetricColumn& column : kMetricColumns) csv.column(column.name);  // throws where it is not

  CHECK(store.results({"--axis", "budget=8 GB", "--csv", out}).out == out + ": 2 points\n");
  store.check_refusal({"--csv", store.file().string()}, "is an input; it would be lost");
  store.check_refusal({"--csv", "/dev/null/no/folder.csv"}, "/dev/null is no folder");
}

TEST_CASE("results: a spreadsheet runs no cell of the CSV file, and numbers stay numbers") {
  const Store store;
  const std::string out = store.other("out.csv").string();
  const std::pair<std::string, std::string> cells[] = {
      {"=1+1", "'=1+1"}, {"@sum", "'@sum"}, {"+1+1", "'+1+1"}, {"-1,5", "'-1,5"},
      {"-1.5", "-1.5"},  {"+2e3", "+2e3"},  {"\t=1", "'\t=1"}, {"a=1", "a=1"}};
  std::vector<StoredPoint> points;
  for (const auto& [text, written] : cells) points.push_back(budget_point(points.size(), text, "lru"));
  ResultStore(store.file(), ResultStore::Access::write).put_sweep(stored_sweep("cells"), points);
  REQUIRE(store.results({"--sweep", "cells", "--csv", out}).status == 0);
  CsvReader csv(out);
  for (const auto& [text, written] : cells) {
    REQUIRE(csv.next());
    CHECK(csv.field(csv.column("budget")) == written);
  }
}

TEST_CASE("results: a damaged store is refused by a sweep, and what is whole of it is saved") {
  const Store store;
  std::string bytes = read_bytes(store.file());
  const std::size_t result = bytes.find("\"metrics\"");
  REQUIRE(result != std::string::npos);
  bytes[result] = '}';
  write_bytes(store.file(), bytes);
  const std::string copy = store.other("copy.db").string();
  const ProgramResult sweep =
      run_program(MOELAB_PROGRAM, {"sweep", "orin-budgets", "--db", store.file().string(), "--set",
                                   "axes={budget: [16 GB]}", "--set", "systems=[zipmoe-lru]"});
  check_refusal(sweep, "is damaged: the result of run ");
  CHECK(contains(sweep.err, "--repair NEW"));
  const ProgramResult saved = store.results({"--repair", copy, "--format", "json"});
  CAPTURE(saved.err);
  const json counts = json::parse(saved.out);
  CHECK(counts["points"] == 6);
  CHECK(counts["runs"] == 4);  // of five
  CHECK(counts["lost_runs"] == 1);
  CHECK(read_bytes(store.file()) == bytes);
}

TEST_CASE("results: an axis that is called as another column is told apart from it") {
  const Store store;
  StoredPoint point = budget_point(0, "8 GB", "zipmoe");
  point.axes = {{"system", "of the axis"}, {"tpot_s", "x"}};
  ResultStore(store.file(), ResultStore::Access::write).put_sweep(stored_sweep("clash"), {point});
  const std::string out = store.other("out.csv").string();
  REQUIRE(store.results({"--sweep", "clash", "--csv", out}).status == 0);
  CsvReader csv(out);  // throws where two columns have one name
  REQUIRE(csv.next());
  CHECK(csv.field(csv.column("axis system")) == "of the axis");
  CHECK(csv.field(csv.column("system")) == "zipmoe");
}

TEST_CASE("results: a point's result comes out byte for byte") {
  const Store store;
  CHECK(store.results({"--result", "1"}).out == result_with("2", "0.25"));
  const std::string out = store.other("result.json").string();
  REQUIRE(store.results({"--result", "0", "--out", out}).status == 0);
  CHECK(read_bytes(out) == result_with("1.5", "0.125"));
  store.check_refusal({"--result", "2"}, "--result 2: the point has no result: failed: budget: too small");
  store.check_refusal({"--result", "5"}, "--result 5: the point did not run yet");
  store.check_refusal({"--result", "6"}, "the sweep has no such point; it has 6, numbered 0 to 5");
  CHECK(store.results({"--result", "-1"}).status == 2);
  CHECK(store.results({"--out", out}).status == 2);
  CHECK(store.results({"--result", "0", "--csv", out}).status == 2);
}

// The changes: 4.5 / 3 - 1 = 50 % in TTFT and none before in TPOT; 1 / 2 - 1 = -50 % and 0.2 / 0.25 - 1 =
// -20 %.
TEST_CASE("results: what moved between two sweeps, largest first, and what only one has") {
  const Store store;
  store.add_second(store.file());
  const ProgramResult table = store.results({"--sweep", "budgets", "--compare", "later"});
  CAPTURE(table.out, table.err);
  REQUIRE(table.status == 0);
  CHECK(contains(table.out, "from budgets to later: 2 of 3 points done in both moved\n"));
  CHECK(contains(
      table.out,
      "moved               point  there  TTFT %  TPOT %  tokens/s %  end-to-end %      largest %\n"
      "budget=12 GB lru        3      7  +50.00     new        0.00          0.00     tpot_s new\n"
      "budget=8 GB zipmoe      1      9  -50.00  -20.00        0.00          0.00  ttft_s -50.00\n"));
  CHECK(
      contains(table.out,
               "not compared: 1 point\n  point 4 (budget=8 GB lru): done in budgets, failed in later\n"
               "only in budgets: 2 points\n  point 2 (budget=900 MB zipmoe)\n  point 5 (budget=900 MB lru)\n"
               "only in later: 1 point\n  point 10 (budget=16 GB zipmoe)\n"));

  const json result = store.as_json({"--sweep", "budgets", "--compare", "later"});
  CHECK(result["done_in_both"] == 3);
  REQUIRE(result["moved"].size() == 2);
  CHECK(result["moved"][0]["metrics"]["tpot_s"]["change"].is_null());
  CHECK(result["moved"][1]["largest"] == "ttft_s");
  CHECK(result["moved"][1]["metrics"]["ttft_s"] == json({{"from", 2}, {"to", 1}, {"change", -0.5}}));
  CHECK(result["moved"][1]["metrics"]["tpot_s"]["change"].get<double>() == Approx(-0.2));
  CHECK(result["only_in_from"] == json({2, 5}));
  CHECK(result["only_in_to"] == json({10}));
  CHECK(result["not_compared"][0]["other_status"] == "failed");

  const json none = store.as_json({"--sweep", "budgets", "--compare", "budgets"});
  CHECK(none["done_in_both"] == 4);
  CHECK(none["moved"].empty());
}

TEST_CASE("results: the same seed is the same point, another is another; one that did not run has none") {
  const Store store;
  const auto put = [&](const std::string& sweep, const std::vector<int>& seeds) {
    ResultStore writer(store.file(), ResultStore::Access::write);
    std::vector<StoredPoint> points;
    for (const int seed : seeds) {
      StoredPoint point = budget_point(points.size(), "8 GB", "zipmoe");
      point.run = sweep + std::to_string(seed);
      points.push_back(point);
      StoredRun run = run_of(point.run, std::to_string(seed), "0.5");
      run.seed = static_cast<std::uint64_t>(seed);
      if (seed > 0) writer.put_run(run);  // 0: did not run
    }
    writer.put_sweep(stored_sweep(sweep), points);
  };
  put("a", {3, 4, 5});
  put("b", {5, 0, 4, 6});
  const json result = store.as_json({"--sweep", "a", "--compare", "b"});
  CHECK(result["done_in_both"] == 2);  // 4 and 5, whose results are the same
  CHECK(result["moved"].empty());
  REQUIRE(result["not_compared"].size() == 1);  // 3 with what did not run
  CHECK(result["not_compared"][0]["point"] == 0);
  CHECK(result["not_compared"][0]["other_point"] == 1);
  CHECK(result["only_in_from"].empty());
  CHECK(result["only_in_to"] == json({3}));  // 6
}

TEST_CASE("results: of many points that only one sweep has, the first few, and how many there are") {
  const Store store;
  std::vector<StoredPoint> points;
  for (std::uint64_t i = 0; i < 7; ++i)
    points.push_back(budget_point(i, std::to_string(20 + i) + " GB", "lru"));
  ResultStore(store.file(), ResultStore::Access::write).put_sweep(stored_sweep("others"), points);
  const ProgramResult table = store.results({"--sweep", "others", "--compare", "budgets"});
  CAPTURE(table.out, table.err);
  CHECK(contains(table.out, "only in others: 7 points, the first 5 of them\n  point 0 (budget=20 GB lru)\n"));
  CHECK(
      contains(table.out, "  point 4 (budget=24 GB lru)\nonly in budgets: 6 points, the first 5 of them\n"));
  CHECK(store.as_json({"--sweep", "others", "--compare", "budgets"})["only_in_from"].size() == 7);
}

/// Two budgets with three seeds each: 8 GB's times are 0.1, 0.2 and 0.6 s a token, whose mean is 0.3; of 12
/// GB's one failed and one did not run, which leaves 0.25.
class Seeds : public Store {
 public:
  Seeds() {
    ResultStore store(file(), ResultStore::Access::write);
    std::vector<StoredPoint> points;
    for (const char* budget : {"8 GB", "12 GB"})
      for (const char* seed : {"1", "2", "3"}) {
        points.push_back(budget_point(points.size(), budget, "lru"));
        points.back().axes.emplace_back("seed", seed);
        points.back().run = std::string(budget) + seed;
      }
    store.put_sweep(stored_sweep("seeds"), points);
    for (const auto& [run, tpot] : {std::pair("8 GB1", "0.1"), {"8 GB2", "0.2"}, {"8 GB3", "0.6"}})
      store.put_run(run_of(run, "2", tpot));
    store.put_run(run_of("12 GB1", "3", "0.25"));
    store.put_run(failed_run("12 GB2"));
  }
};

TEST_CASE("results: repeats are one line of means and ranges, or a line each when asked for") {
  const Seeds store;
  const ProgramResult table = store.results({"--sweep", "seeds"});
  CAPTURE(table.out, table.err);
  CHECK(contains(
      table.out,
      "points  budget  system  seeds  status                       TTFT s              TPOT ms  tokens/s"));
  CHECK(contains(table.out,
                 "0–2     8 GB    lru     3      done                           2.00  300.0 (100.0–600.0)"));
  CHECK(contains(table.out,
                 "3–5     12 GB   lru     3      1 done, 1 failed, 1 missing    3.00                250.0"));
  const std::string each = store.results({"--sweep", "seeds", "--each-seed"}).out;
  CHECK(contains(each, "point  budget  seed  system  status   TTFT s  TPOT ms"));
  CHECK(contains(each, "2      8 GB    3     lru     done       2.00    600.0"));
  CHECK(contains(each, "4      12 GB   2     lru     failed        -        -"));
  // Means decide: 0.25 comes before 0.3, though 0.1 is the least of all.
  const std::string sorted = store.results({"--sweep", "seeds", "--sort", "tpot_s"}).out;
  CHECK(sorted.find("3–5 ") < sorted.find("0–2 "));
  const std::string turned = store.results({"--sweep", "seeds", "--sort", "tpot_s", "--reverse"}).out;
  CHECK(turned.find("3–5 ") > turned.find("0–2 "));
  // Of some of the seeds: the first and the last.
  CHECK(contains(store.results({"--sweep", "seeds", "--axis", "seed=1", "--axis", "seed=3"}).out,
                 "0, 2    8 GB"));
  CHECK(store.numbers({"--sweep", "seeds"}) == Numbers{0, 1, 2, 3, 4, 5});  // JSON has each
}

TEST_CASE("results: a sweep in another store") {
  const Store store;
  const std::string other = store.other("other.db").string();
  store.add_second(other);
  // No sweep of the same name there, but only one.
  const json result = store.as_json({"--compare-db", other});
  CHECK(result["from"] == store.file().string() + ": budgets");
  CHECK(result["to"] == other + ": later");
  CHECK(result["moved"].size() == 2);
  const json chosen = store.as_json({"--compare-db", other, "--compare", "later", "--axis", "budget=12 GB"});
  CHECK(chosen["done_in_both"] == 2);
  CHECK(chosen["only_in_from"].empty());
  store.check_refusal({"--compare-db", other, "--compare", "latr"}, "(did you mean 'later'?)");
  store.check_refusal({"--compare-db", store.other("none.db").string()}, "none.db: no such file");
}

TEST_CASE("results: a sweep has to be named where there are several, and to be there") {
  const Store store;
  store.check_refusal({"--sweep", "budget"}, "has no such sweep (did you mean 'budgets'?)");
  store.add_second(store.file());
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--failed"}, {"--sort", "tpot_s"}, {"--result", "0"}, {"--csv", "x.csv"}})
    store.check_refusal(options, "holds 2 sweeps; choose one with --sweep (known: budgets, later)");
  const std::string empty = store.other("empty.db").string();
  { ResultStore(empty, ResultStore::Access::write); }
  CHECK(run_program(MOELAB_PROGRAM, {"results", empty}).status == 0);
  const ProgramResult none = run_program(MOELAB_PROGRAM, {"results", empty, "--failed"});
  CHECK(none.status == 2);
  CHECK(contains(none.err, "holds no sweep yet"));
}

TEST_CASE("results: what is no store is refused, and left as it is") {
  const Store store;
  const std::string notes = store.other("notes.txt").string();
  write_bytes(notes, std::string(2000, 'n'));
  const ProgramResult text = run_program(MOELAB_PROGRAM, {"results", notes});
  CHECK(text.status == 2);
  CHECK(text.err == "moelab: " + notes + ": is not an SQLite database\n");
  CHECK(read_bytes(notes) == std::string(2000, 'n'));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"results"}, {"results", ""}, {"results", store.other("").string()}})
    CHECK(run_program(MOELAB_PROGRAM, words).status == 2);
}

}  // namespace moelab::results_command_test
