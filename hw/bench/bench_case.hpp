// Benchmark cases: one file each and a row in one table. A case has points, one for each set of parameters,
// and every point gives one number: the seconds that one operation takes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hw/bench/bench_parameters.hpp"
#include "hw/compute/expert_ffn.hpp"

namespace moelab {

/// What to measure. The defaults are those of `moelab bench run`.
struct BenchOptions {
  bool quick = false;                  // fewer sizes, less data, fewer samples
  std::filesystem::path folder = ".";  // where files are put to be read; they have no names and never stay
  std::vector<std::size_t> sizes;      // bytes of reads and of shards; empty: a few usual ones
  std::vector<ExpertShape> experts;    // empty: DeepSeek-V2-Lite's and Switch-Large's
  std::vector<std::string> codecs;     // empty: all of the codec table
  std::size_t samples = 0;             // of each point; 0: kSamples or kQuickSamples
  unsigned cores = 0;                  // for which thread counts are chosen; 0: the processor's
};

/// One set of parameters.
struct BenchPoint {
  BenchParameters parameters;
  double bytes = 0;              // that one operation moves or makes, of all its threads together; 0: no rate
  double flops = 0;              // of one operation
  std::string skip = {};         // why it cannot be measured here; empty: it can
  double sample_seconds = 2e-3;  // a sample has so many operations that it lasts at least this long
};

class BenchCase {
 public:
  virtual ~BenchCase() = default;
  /// Why nothing of this case can run here; empty: it can. Before anything is allocated.
  virtual std::string filter() const { return {}; }
  /// Allocates and fills. Once, before all that follows.
  virtual void prepare() {}
  virtual std::vector<BenchPoint> points() const = 0;
  /// Runs the point once and says what is wrong with its answer; empty: nothing.
  virtual std::string check(std::size_t point) = 0;
  /// The seconds that `operations` operations took, one after the other; with several threads, the mean over
  /// them, each of which did as many.
  virtual double run(std::size_t point, std::size_t operations) = 0;
};

class BenchWorkspace;

/// A row of the table of cases.
struct BenchRow {
  std::string_view name;
  std::string_view help;
  std::string_view parameters;  // "codec, bytes, threads: what they mean"
  std::unique_ptr<BenchCase> (*make)(BenchWorkspace& workspace);
};

/// Every case, in the order in which they are listed and run.
std::span<const BenchRow> bench_table();

}  // namespace moelab
