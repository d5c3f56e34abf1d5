// The benchmark kit: statistics against their equations, what is checked, skipped and reported, and every
// case of the table run once at a small size. No test says how fast anything is.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <deque>
#include <thread>

#include "hw/bench/bench_report.hpp"
#include "hw/bench/bench_team.hpp"
#include "hw/bench/bench_workspace.hpp"
#include "hw/bench/handoff_team.hpp"
#include "hw/io/system_memory.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "tests/random_runs.hpp"
#include "tests/traces/trace_files.hpp"
#include "traces/random.hpp"

namespace moelab::bench_test {
namespace {

using namespace moelab::test;
using Catch::Matchers::Contains;

TEST_CASE("statistics of samples follow their equations") {
  const std::vector<double> samples = {4, 1, 3, 2, 5, 6};
  const SampleStatistics found = statistics_of(samples);
  CHECK(found.count == 6);
  CHECK(found.median == Approx(3.5));                      // between the 3rd and 4th
  CHECK(found.p10 == Approx(1.5));                         // rank 0.1 * 5
  CHECK(found.p90 == Approx(5.5));                         // rank 4.5
  CHECK(found.mean == Approx(3.5));                        // 21 / 6
  CHECK(found.variation == Approx(std::sqrt(3.5) / 3.5));  // squares 2 (6.25 + 2.25 + 0.25) = 17.5, over 5
  CHECK(statistics_of({}).count == 0);
  const double one[] = {7};
  CHECK(statistics_of(one).median == 7);
  CHECK(statistics_of(one).p90 == 7);
  CHECK(statistics_of(one).variation == 0);
}

TEST_CASE("percentiles lie where as many samples are below as they say") {
  Random random(111);
  for (int round = 0; round < moelab::test::random_runs(500); ++round) {
    std::vector<double> samples(1 + random.below(60));
    for (double& sample : samples) sample = static_cast<double>(random.below(1'000));
    const SampleStatistics found = statistics_of(samples);
    const auto below = [&](double value) {
      return static_cast<double>(std::ranges::count_if(samples, [&](double s) { return s <= value; }));
    };
    const auto n = static_cast<double>(samples.size());
    for (const auto& [q, value] :
         {std::pair{0.1, found.p10}, std::pair{0.5, found.median}, std::pair{0.9, found.p90}}) {
      REQUIRE(below(value) >= std::floor(q * (n - 1)) + 1);
      REQUIRE(n - below(value - 1e-9) >= n - std::ceil(q * (n - 1)));
    }
  }
}

TEST_CASE("each thread of a team is handed each operation, once, and is gone with the team") {
  for (const bool spin : {false, true})
    for (const unsigned threads : {1U, 3U}) {
      HandoffTeam team(threads, spin);
      CHECK(team.handled() == 0);
      for (std::uint64_t i = 1; i <= 20; ++i) {
        CHECK(team.hand_over(i % 2 == 0 ? 0 : 1e-6) >= 0);
        CHECK(team.handled() == i * threads);
      }
    }
  const HandoffTeam never_used(2, false);
}

TEST_CASE("parameters are found by name, and partly compared") {
  const BenchParameters parameters{{"codec", "lz4"}, {"bytes", std::uint64_t{65'536}}};
  CHECK(to_string(parameters) == "codec=lz4 bytes=65536");
  CHECK(parameters.text("codec") == "lz4");
  CHECK(parameters.number("bytes") == 65'536);
  CHECK_THROWS_AS(parameters.number("size"), std::out_of_range);
  CHECK_THROWS_AS(parameters.text("bytes"), std::bad_variant_access);
  CHECK(parameters.include({}));
  CHECK(parameters.include({{"bytes", std::uint64_t{65'536}}}));
  CHECK_FALSE(parameters.include({{"bytes", std::uint64_t{65'537}}}));
  CHECK_FALSE(parameters.include({{"threads", std::uint64_t{1}}}));
}

/// A case by script; what is called is written down.
class Scripted final : public BenchCase {
 public:
  explicit Scripted(std::string name) : name_(std::move(name)) {}

  std::string filter() const override { return name_ == "unfit" ? "no such device" : ""; }
  void prepare() override {
    REQUIRE(name_ != "unfit");
    if (name_ == "breaks") throw std::runtime_error("cannot allocate");
  }
  std::vector<BenchPoint> points() const override {
    std::vector<BenchPoint> points;
    for (std::uint64_t i = 0; i < 4; ++i) points.push_back({{{"i", i}}, 100.0});
    points[1].skip = "too small a machine";
    return points;
  }
  std::string check(std::size_t point) override {
    calls.push_back(name_ + " checks " + std::to_string(point));
    return name_ == "wrong" && point == 2 ? "42 instead of 43" : "";
  }
  /// 1 ms an operation.
  double run(std::size_t point, std::size_t operations) override {
    calls.push_back(name_ + " runs " + std::to_string(point));
    if (name_ == "throws" && point == 3 && ++runs_ == 5) throw std::runtime_error("the disk is gone");
    return 1e-3 * static_cast<double>(operations);
  }

  static std::vector<std::string> calls;

 private:
  std::string name_;
  int runs_ = 0;
};
std::vector<std::string> Scripted::calls;

template <const char* const& name>
std::unique_ptr<BenchCase> make_scripted(BenchWorkspace&) {
  return std::make_unique<Scripted>(name);
}
constexpr const char* kFine = "fine";
constexpr const char* kUnfit = "unfit";
constexpr const char* kWrong = "wrong";
constexpr const char* kBreaks = "breaks";
constexpr const char* kThrows = "throws";
constexpr BenchRow kTable[] = {{kFine, "", "", make_scripted<kFine>},
                               {kUnfit, "", "", make_scripted<kUnfit>},
                               {kWrong, "", "", make_scripted<kWrong>},
                               {kBreaks, "", "", make_scripted<kBreaks>},
                               {kThrows, "", "", make_scripted<kThrows>}};

std::vector<BenchResult> run_scripted(const std::vector<std::string>& names) {
  Scripted::calls.clear();
  BenchOptions options;
  options.quick = true;
  return run_cases(kTable, names, options);
}

std::size_t called(const std::string& what) {
  return static_cast<std::size_t>(std::ranges::count(Scripted::calls, what));
}

TEST_CASE("a case that cannot run here is skipped before it allocates, with its reason") {
  const auto results = run_scripted({"unfit"});
  REQUIRE(results.size() == 1);
  CHECK(results[0].status == BenchStatus::skipped);
  CHECK(results[0].reason == "no such device");
  CHECK(Scripted::calls.empty());
}

TEST_CASE("what gives a wrong answer has failed, and is never timed") {
  const auto results = run_scripted({"wrong"});
  REQUIRE(results.size() == 4);
  CHECK(results[2].status == BenchStatus::failed);
  CHECK(results[2].reason == "wrong answer: 42 instead of 43");
  CHECK(results[2].samples.empty());
  CHECK(results[2].bytes_per_second() == 0);
  CHECK(called("wrong checks 2") == 1);
  CHECK(called("wrong runs 2") == 0);
  CHECK(results[0].measured());
  CHECK(select(results, "wrong").size() == 2);
}

TEST_CASE("a skipped point is neither checked nor timed") {
  const auto results = run_scripted({"fine"});
  REQUIRE(results.size() == 4);
  CHECK(results[1].status == BenchStatus::skipped);
  CHECK(results[1].reason == "too small a machine");
  CHECK(called("fine checks 1") + called("fine runs 1") == 0);
}

TEST_CASE("what throws has failed and leaves the others alone") {
  const auto results = run_scripted({"breaks", "throws"});
  REQUIRE(results.size() == 5);
  // In the table's order.
  CHECK(results[0].name == "breaks");
  CHECK(results[0].status == BenchStatus::failed);
  CHECK(results[0].reason == "cannot allocate");
  CHECK(results[4].status == BenchStatus::failed);
  CHECK(results[4].reason == "the disk is gone");
  CHECK(results[4].samples.empty());
  CHECK(results[3].samples.size() == kQuickSamples);
}

TEST_CASE("samples are taken in rounds over all points of all cases") {
  const auto results = run_scripted({"fine", "wrong"});
  std::vector<std::string> due;
  for (std::size_t round = 0; round < kQuickSamples; ++round)
    for (const char* call : {"fine runs 0", "fine runs 2", "fine runs 3", "wrong runs 0", "wrong runs 3"})
      due.emplace_back(call);
  REQUIRE(Scripted::calls.size() > due.size());
  const std::vector<std::string> last(Scripted::calls.end() - static_cast<std::ptrdiff_t>(due.size()),
                                      Scripted::calls.end());
  CHECK(last == due);
  // At 1 ms an operation two make a sample of 2 ms; a sample is the time of one.
  CHECK(results[0].operations == 2);
  CHECK(results[0].statistics.median == Approx(1e-3));
  CHECK(results[0].bytes_per_second() == Approx(1e5));
  CHECK_FALSE(results[0].noisy());
}

TEST_CASE("a figure is noisy above 5 % of variation, or of too few samples") {
  BenchResult result;
  result.samples = {1, 1.1, 1, 1.1, 1, 1.1};  // standard deviation 0.0548 of 1.05
  result.statistics = statistics_of(result.samples);
  CHECK(result.noisy());
  result.samples = {1, 1.08, 1, 1.08, 1, 1.08};  // 0.0438 of 1.04
  result.statistics = statistics_of(result.samples);
  CHECK_FALSE(result.noisy());
  result.samples = {1, 1, 1, 1};
  result.statistics = statistics_of(result.samples);
  CHECK(result.noisy());
  result.status = BenchStatus::skipped;
  CHECK_FALSE(result.noisy());
}

TEST_CASE("a case that is not in the table is refused, with the nearest name") {
  CHECK_THROWS_WITH(run_scripted({"fine", "wrongg"}), Contains("benchmark 'wrongg'") && Contains("'wrong'"));
}

TEST_CASE("a codec that is not known is refused; known ones get their full names") {
  BenchOptions options;
  options.codecs = {"zstd", "fixed3", "none"};
  const BenchWorkspace workspace(options);
  CHECK(workspace.codecs() == std::vector<std::string>{"zstd-1", "fixed3", "none"});
  CHECK(workspace.usual_codec() == "fixed3");
  options.codecs = {"zstdd"};
  CHECK_THROWS_AS(BenchWorkspace(options), InputError);
}

TEST_CASE("memory that benchmarks need is counted before it is taken") {
  constexpr std::size_t MiB = 1 << 20;
  BenchOptions options;
  options.quick = true;
  const auto due = [&] { return BenchWorkspace(options).memory_due(); };
  CHECK(BenchWorkspace(options).why_no_memory(0).empty());
  // An expert in BF16, and buffers of their own for every thread that writes.
  const std::uint64_t usual = due();
  options.experts = {{std::size_t{1} << 14, std::size_t{1} << 14, 3}};
  CHECK(due() >= usual - beyond_caches(true) + 6 * (std::uint64_t{1} << 28));
  options.experts.clear();
  options.cores = 1000;
  CHECK(due() >= 1000 * (16 * MiB));
  options.cores = 0;
  // More than there is: the experts' case is skipped, before it takes any.
  options.experts = {
      ExpertShape{std::size_t{1} << 20, static_cast<std::size_t>(system_memory().total >> 20), 2}};
  const std::vector<BenchResult> results = run_cases({"expert"}, options);
  REQUIRE(results.size() == 1);
  CHECK(results.front().status == BenchStatus::skipped);
  CHECK_THAT(results.front().reason, Contains("MiB of memory"));
  // Reads into buffers that no memory holds.
  options.experts.clear();
  options.sizes = {std::size_t{1} << 40};
  CHECK(run_cases({"read"}, options).front().status == BenchStatus::skipped);
}

TEST_CASE("thread counts are powers of two and the cores") {
  BenchOptions options;
  const auto counts = [&](unsigned cores) {
    options.cores = cores;
    return BenchWorkspace(options).thread_counts();
  };
  CHECK(counts(1) == std::vector<unsigned>{1});
  CHECK(counts(2) == std::vector<unsigned>{1, 2});
  CHECK(counts(12) == std::vector<unsigned>{1, 2, 4, 8, 12});
}

TEST_CASE("a team times all of its timed works and stops the others; what one throws comes out") {
  for (const std::size_t timed : {1, 2, 3}) {
    for (const std::size_t beside : {0, 1, 2}) {
      std::deque<std::size_t> counts(timed + beside);
      std::vector<BenchWork> works;
      for (std::size_t& count : counts)
        works.push_back([&count] {
          ++count;
          std::this_thread::sleep_for(std::chrono::microseconds(200));
        });
      const double seconds = team_seconds(std::span(works).first(timed), std::span(works).subspan(timed), 10);
      CHECK(seconds >= 10 * 200e-6);
      for (std::size_t i = 0; i < timed; ++i) CHECK(counts[i] >= 10);
    }
  }
  const std::vector<BenchWork> works = {[] {}, [] { throw std::runtime_error("gone"); }};
  CHECK_THROWS_WITH(team_seconds(std::span(works).first(1), std::span(works).last(1), 1'000'000'000), "gone");
  CHECK_THROWS_WITH(team_seconds(works, {}, 1), "gone");
  CHECK_THROWS_WITH(team_seconds(std::span(works).last(1), {}, 1), "gone");
}

TEST_CASE("a scratch file has no name, and holds what it says") {
  const ScratchFolder folder;
  const ScratchFile file(folder / "", 3 * 4096);
  CHECK(folder.names().empty());
  const std::string bytes = read_bytes(file.path());
  REQUIRE(bytes.size() == 3 * 4096);
  CHECK(ScratchFile::holds(0, std::as_bytes(std::span(bytes))));
  CHECK(ScratchFile::holds(4096, std::as_bytes(std::span(bytes).subspan(4096))));
  CHECK_FALSE(ScratchFile::holds(8, std::as_bytes(std::span(bytes))));
  CHECK_THROWS_AS(ScratchFile(folder / "none", 4096), InputError);
}

TEST_CASE("every case of the table checks its answers and is measured, or says why not", "[long]") {
  const ScratchFolder folder;
  BenchOptions options;
  options.quick = true;
  options.folder = folder / "";
  options.sizes = {64 << 10};
  options.experts = {{64, 96, 3}, {64, 96, 2}};
  options.codecs = {"none", "zstd-1", "fixed3"};
  options.cores = 2;
  if (kFewerRuns) {
    options.experts.pop_back();
    options.codecs = {"none", "fixed3"};
    options.samples = 1;
  }
  const std::size_t due = kFewerRuns ? 1 : kQuickSamples;
  BenchReport report{machine_context(options.folder, "test"), true, {}};
  std::size_t calls = 0;
  report.results = run_cases({}, options, [&](std::size_t done, std::size_t all, const std::string&) {
    REQUIRE(done < all);
    ++calls;
  });
  CHECK(calls > report.results.size());
  CHECK(folder.names().empty());
  for (const BenchRow& row : bench_table()) {
    const bool there = std::ranges::any_of(report.results, [&](const auto& r) { return r.name == row.name; });
    CHECK(there);
  }
  for (const BenchResult& result : report.results) {
    INFO(result.name << " " << to_string(result.parameters) << ": " << result.reason);
    CHECK(result.status != BenchStatus::failed);
    CHECK((result.measured() ? result.samples.size() == due : !result.reason.empty()));
    CHECK(std::ranges::all_of(result.samples, [](double sample) { return sample > 0; }));
  }
  // As another program reads it.
  const auto json = nlohmann::json::parse(to_json(report));
  CHECK(json.at("format") == "moelab-bench");
  CHECK(json.at("context").at("cores") == report.context.cores);
  CHECK_FALSE(json.at("context").at("cpu").get<std::string>().empty());
  REQUIRE(json.at("results").size() == report.results.size());
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    const auto& one = json["results"][i];
    CHECK(one.at("case") == report.results[i].name);
    CHECK(one.at("status") == to_string(report.results[i].status));
    if (report.results[i].measured()) CHECK(one.at("samples") == report.results[i].samples);
  }
}

}  // namespace
}  // namespace moelab::bench_test
