// Published runs of serving benchmarks: what a server was asked to do, and what was measured.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace moelab::published {

/// Of all requests (of `itl`: of all gaps between tokens), in ms; absent where it is not printed.
struct LatencyFigures {
  std::optional<double> mean, median, p99;
};

/// What a benchmark prints, each absent where its page leaves it out.
struct ServingFigures {
  std::optional<double> requests_per_s, output_tokens_per_s;
  LatencyFigures ttft, tpot, itl;
};

/// Lengths of a workload's prompts or answers, in tokens.
struct LengthRange {
  double least = 0, most = 0;  // each length between them is as likely
};

/// One row of a file of points (README.md here has the columns).
struct ServingPoint {
  std::string id, source, date, runtime, version, model, weights, gpu;
  int gpus = 1, tensor_parallel = 1, data_parallel = 1;
  bool expert_parallel = false;
  std::map<std::string, std::string> options;
  std::optional<std::uint64_t> users;  // requests under way at most
  std::optional<double> rate;          // requests a second; neither: all come at once
  std::uint64_t requests = 0;
  enum class Shape { fixed, uniform, sharegpt } shape = Shape::fixed;
  LengthRange prompt, output;                                  // of `sharegpt` none
  std::optional<double> prompt_tokens_all, output_tokens_all;  // of all requests together
  ServingFigures measured;
  char grade = 'C';
  std::string notes;
  /// Grade C is shown, not counted.
  bool graded() const { return grade == 'A' || grade == 'B'; }
};

/// Throws InputError with file, line and column: a column is missing, a field is none of what it may be.
std::vector<ServingPoint> read_serving_points(const std::string& path);

}  // namespace moelab::published
