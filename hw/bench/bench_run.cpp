#include "hw/bench/bench_run.hpp"

#include <algorithm>
#include <cmath>
#include <exception>

#include "hw/bench/bench_workspace.hpp"
#include "models/input_error.hpp"

namespace moelab {

namespace {

constexpr std::size_t kFewestSamples = 5;         // below, a variation says nothing
constexpr std::size_t kMostOperations = 1 << 20;  // in a sample

/// A case with what became of its points.
struct Running {
  std::unique_ptr<BenchCase> work;
  std::vector<BenchPoint> points;
  std::vector<BenchResult> results;  // one a point
};

BenchResult of_whole_case(std::string_view name, BenchStatus status, std::string reason) {
  BenchResult result;
  result.name = name;
  result.status = status;
  result.reason = std::move(reason);
  return result;
}

/// Runs `part` of a point; what it throws makes the point a failed one.
template <class Part>
void guarded(BenchResult& result, const Part& part) {
  try {
    part();
  } catch (const std::exception& error) {
    result.status = BenchStatus::failed;
    result.reason = error.what();
    result.samples.clear();
  }
}

std::vector<const BenchRow*> rows_of(std::span<const BenchRow> table, const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const BenchRow& row : table) known.emplace_back(row.name);
  for (const std::string& name : names)
    if (std::ranges::find(known, name) == known.end())
      throw InputError("benchmark '" + name + "'",
                       "is not known; see 'moelab bench list'" + suggestion(name, known));
  std::vector<const BenchRow*> rows;
  for (const BenchRow& row : table)
    if (names.empty() || std::ranges::find(names, row.name) != names.end()) rows.push_back(&row);
  return rows;
}

/// Until the case's points are known.
Running begin(const BenchRow& row, BenchWorkspace& workspace) {
  Running running;
  BenchResult whole = of_whole_case(row.name, BenchStatus::measured, {});
  guarded(whole, [&] {
    running.work = row.make(workspace);
    if (const std::string why = running.work->filter(); !why.empty()) {
      whole = of_whole_case(row.name, BenchStatus::skipped, why);
      return;
    }
    running.work->prepare();
    running.points = running.work->points();
  });
  if (!whole.measured()) running.results.push_back(std::move(whole));
  return running;
}

/// How many make a sample: by the fastest of a few, the first of which warms up and others of which may have
/// been disturbed.
std::size_t operations_for(BenchCase& work, std::size_t point, double seconds) {
  double once = work.run(point, 1);
  for (int i = 0; i < 3; ++i) once = std::min(once, work.run(point, 1));
  return static_cast<std::size_t>(
      std::clamp(std::ceil(seconds / std::max(once, 1e-9)), 1.0, static_cast<double>(kMostOperations)));
}

/// Checks the answer of every point, and finds how many operations make a sample.
void check(const BenchRow& row, Running& running, const BenchProgress& progress) {
  for (std::size_t p = 0; p < running.points.size(); ++p) {
    const BenchPoint& point = running.points[p];
    BenchResult result = of_whole_case(row.name, BenchStatus::measured, {});
    result.parameters = point.parameters;
    result.bytes = point.bytes;
    result.flops = point.flops;
    if (!point.skip.empty()) {
      result.status = BenchStatus::skipped;
      result.reason = point.skip;
    }
    if (progress) progress(0, 1, "checking " + result.title());
    if (result.measured()) {
      guarded(result, [&] {
        if (const std::string wrong = running.work->check(p); !wrong.empty()) {
          result.status = BenchStatus::failed;
          result.reason = "wrong answer: " + wrong;
          return;
        }
        result.operations = operations_for(*running.work, p, point.sample_seconds);
      });
    }
    running.results.push_back(std::move(result));
  }
}

}  // namespace

std::string_view to_string(BenchStatus status) {
  constexpr std::string_view kNames[] = {"measured", "skipped", "failed"};
  return kNames[static_cast<std::size_t>(status)];
}

std::string BenchResult::title() const {
  return parameters.all().empty() ? name : name + " " + to_string(parameters);
}

bool BenchResult::noisy() const {
  return measured() && (statistics.count < kFewestSamples || statistics.variation > kNoisyVariation);
}

double BenchResult::bytes_per_second() const {
  return measured() && statistics.median > 0 ? bytes / statistics.median : 0;
}

double BenchResult::flops_per_second() const {
  return measured() && statistics.median > 0 ? flops / statistics.median : 0;
}

std::vector<BenchResult> run_cases(std::span<const BenchRow> table, const std::vector<std::string>& names,
                                   const BenchOptions& options, const BenchProgress& progress) {
  const std::vector<const BenchRow*> rows = rows_of(table, names);
  BenchWorkspace workspace(options);
  std::vector<Running> all;
  std::size_t samples = 0, done = 0;
  for (const BenchRow* row : rows) {
    all.push_back(begin(*row, workspace));
    check(*row, all.back(), progress);
    samples += all.back().points.size();
  }
  const std::size_t usual = options.quick ? kQuickSamples : kSamples;
  const std::size_t rounds = options.samples > 0 ? options.samples : usual;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (Running& running : all) {
      for (std::size_t p = 0; p < running.points.size(); ++p) {
        BenchResult& result = running.results[p];
        if (progress) progress(done++, rounds * samples, result.title());
        if (!result.measured()) continue;
        guarded(result, [&] {
          result.samples.push_back(running.work->run(p, result.operations) /
                                   static_cast<double>(result.operations));
        });
      }
    }
  }
  std::vector<BenchResult> results;
  for (Running& running : all) {
    for (BenchResult& result : running.results) {
      result.statistics = statistics_of(result.samples);
      results.push_back(std::move(result));
    }
  }
  return results;
}

std::vector<BenchResult> run_cases(const std::vector<std::string>& names, const BenchOptions& options,
                                   const BenchProgress& progress) {
  return run_cases(bench_table(), names, options, progress);
}

std::vector<const BenchResult*> select(std::span<const BenchResult> results, std::string_view name,
                                       const BenchParameters& parameters) {
  std::vector<const BenchResult*> found;
  for (const BenchResult& result : results)
    if (result.name == name && result.measured() && result.parameters.include(parameters))
      found.push_back(&result);
  return found;
}

}  // namespace moelab
