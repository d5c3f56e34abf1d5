// Running benchmark cases. Answers are checked before anything is timed; samples are taken in rounds over all
// points of all cases, so that what changes with time meets all of them.
//
//   const std::vector<BenchResult> results = run_cases({"decompress", "read"}, options);
//   for (const BenchResult* r : select(results, "decompress", {{"codec", "fixed3"}, {"threads", 1U}}))
//     curve.add(r->parameters.number("bytes"), r->statistics.median);
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hw/bench/bench_case.hpp"
#include "hw/bench/sample_statistics.hpp"

namespace moelab {

enum class BenchStatus { measured, skipped, failed };
std::string_view to_string(BenchStatus status);

/// Of one point; or, without parameters, of a whole case that was skipped or failed before it had points.
struct BenchResult {
  std::string name;  // of the case
  BenchParameters parameters;
  BenchStatus status = BenchStatus::measured;
  std::string reason;           // why it was skipped or has failed
  double bytes = 0, flops = 0;  // of one operation
  std::size_t operations = 0;   // in each sample
  std::vector<double> samples;  // seconds for one operation, in the order in which they were taken
  SampleStatistics statistics;  // of the samples

  /// "read mode=direct bytes=65536 depth=1", or the case's name alone.
  std::string title() const;
  bool measured() const { return status == BenchStatus::measured; }
  /// Varies more than a good figure may, or has too few samples to tell.
  bool noisy() const;
  /// By the median; 0 where the point has none, or nothing was measured.
  double bytes_per_second() const;
  double flops_per_second() const;
};

/// Samples taken, of all. Called on the thread that runs them, between samples.
using BenchProgress = std::function<void(std::size_t done, std::size_t all, const std::string& doing)>;

inline constexpr std::size_t kSamples = 15, kQuickSamples = 7;

/// Runs the named cases, or all where none is named, in the table's order. What cannot be measured here is a
/// result too, as is what gives a wrong answer or throws. Throws InputError for a name that is not in the
/// table.
std::vector<BenchResult> run_cases(const std::vector<std::string>& names, const BenchOptions& options,
                                   const BenchProgress& progress = {});
/// The same from other tables.
std::vector<BenchResult> run_cases(std::span<const BenchRow> table, const std::vector<std::string>& names,
                                   const BenchOptions& options, const BenchProgress& progress = {});

/// The results of the case that were measured and whose parameters include these.
std::vector<const BenchResult*> select(std::span<const BenchResult> results, std::string_view name,
                                       const BenchParameters& parameters = {});

}  // namespace moelab
