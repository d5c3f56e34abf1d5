// Kernels' times measured on a GPU, as LLMServingSim's profiler writes them: CSV files (or .csv.gz) called
// GPU_MODEL_dense.csv and so on, or dense.csv alone,
//
//   dense         layer, tokens, time_us                 a layer's products and small kernels
//   per_sequence  layer, sequences, time_us              head and sampler (may be missing)
//   attention     prefill_chunk, kv_prefill, n_decode, kv_decode, time_us
//   moe           tokens, activated_experts, time_us     all experts of a layer (of models with experts)
//
// of vLLM's kernels for one GPU. Between the measured points times are interpolated linearly in each
// argument.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace moelab::replay {

/// A function by its values at rising points: straight between them, beyond the last on as between the last
/// two, below the first as there.
class Interpolated {
 public:
  /// Of one x the last value counts.
  void set(double x, double y) { values_[x] = y; }
  bool empty() const { return values_.empty(); }
  double at(double x) const;

 private:
  std::map<double, double> values_;
};

/// Of an attention kernel: rows of prompts, tokens that were in the cache before them, requests that decode,
/// and tokens that each of these attends to.
class AttentionTable {
 public:
  static constexpr std::size_t kArguments = 4;
  using Point = std::array<double, kArguments>;
  void set(const Point& point, double seconds) { seconds_[point] = seconds; }
  bool empty() const { return seconds_.empty(); }
  /// The weighted mean of the corners of the cell around `point` that were measured. Beyond the table a
  /// decoding context and a prompt's are as far in proportion.
  double at(const Point& point) const;
  /// To be called when all is set.
  void finish();

 private:
  std::map<Point, double> seconds_;
  std::array<std::vector<double>, kArguments> axes_;
};

struct KernelTables {
  std::map<std::string, Interpolated> dense;         // by layer, over tokens
  std::map<std::string, Interpolated> per_sequence;  // by layer, over sequences
  AttentionTable attention;
  std::map<double, Interpolated> moe;  // by tokens, over experts touched
  double moe_seconds(double tokens, double experts) const;
};

/// Seconds. Throws InputError that names file, line and column, or says which tables the folder has where
/// there are none of this GPU (rtx-4090-24gb) and model (llama-3.1-8b).
KernelTables read_kernel_tables(const std::string& folder, std::string_view gpu, std::string_view model,
                                bool with_experts);

}  // namespace moelab::replay
