// Results as `moelab run` writes them, read back as far as they are explained and compared.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/scenario/scenario_document.hpp"
#include "sim/serving/metrics.hpp"

namespace moelab {

/// One system's result. Seconds and bytes.
struct ResultFile {
  std::string file;  // as messages name it
  std::string scenario, system, executor, version;
  std::optional<double> tpot_s;         // mean; none where no request has a second token
  double ttft_s = 0, end_to_end_s = 0;  // means; 0 where no request was answered
  double tokens_per_s = 0, wall_s = 0;
  std::uint64_t tokens = 0;                          // generated; 0: the system did not fit and was not run
  std::array<std::uint64_t, kStates> decode_hits{};  // all 0 where no experts were looked up
  std::array<double, kTiers> bytes{};                // likewise where none were read
  std::array<double, kCauses> stall_s{};
  /// Of a system with several instances, whose time stall_s is: "decode0, the busiest of 2 instances"; "":
  /// the system has one, or an older version wrote means over all.
  std::string stalls_of;
  /// Of a cluster, latency_causes(); empty where no request was answered.
  std::vector<std::pair<std::string, double>> latency_s;
  /// Every number of metrics, hits, bytes, busy_s, stall_s and latency_s, by dotted path, in the file's
  /// order.
  std::vector<std::pair<std::string, double>> figures;
  std::string document;        // inputs.scenario
  bool on_cluster = false;     // causes of time are of all its servers together
  std::vector<DataFile> data;  // inputs.data
};

/// The results in a file, one or an array. Throws InputError that names the file and what was expected: for
/// one that cannot be read, is no such result, or has no `inputs` (results of older versions).
std::vector<ResultFile> read_results(const std::string& file);
/// The same of a file's text.
std::vector<ResultFile> results_of_text(const std::string& file, const std::string& text);

/// The one of this system; with an empty name, the only one. Throws InputError that names those there are.
const ResultFile& result_of_system(const std::vector<ResultFile>& results, const std::string& system);

}  // namespace moelab
