// What serving takes by the hour: watts that are drawn, money that a machine is rented for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moelab {

/// Of the power that a GPU is rated at (its board's, TDP), what it draws while it serves a language model,
/// averaged over prompts and decoding. One number for all GPUs:
/// - `typical` is the mean of 44 settings measured on A100-80GB (Llama-2-70B and BLOOM-176B; prompts of 128
///   to 8192 tokens, batches of 1 to 16, 2 to 8 GPUs), from 0.17 to 0.79 of their power: column average_power
///   of Mutinifni/splitwise-sim, data/perf_model.csv, of Splitwise (Patel et al., ISCA 2024);
/// - decoding alone took 137 to 300 of the 700 W of an H200 (Ma et al., arXiv 2605.11999);
/// - `most` is 600 of the 700 W of an H100 SXM at a batch of 128, which had 300 W at one of 1 (ML.ENERGY
///   Benchmark v3.0, arXiv 2601.22076, as vLLM semantic-router's model of power cites it).
struct PowerShare {
  double typical = 0, least = 0, most = 0;
};
inline constexpr PowerShare kGpuPowerShare{.typical = 0.57, .least = 0.17, .most = 0.86};

/// The same of a CPU that computes experts: no published measurement is known, so that its rated power is
/// taken whole.
inline constexpr double kCpuPowerShare = 1;

/// Reads "700 W", "5.6 kW": above 0 and at most 1e12 W. Returns false, and in `expected` a phrase such as "a
/// power with its unit, such as '700 W'", with the nearest text that would do, where it is none.
bool parse_power(std::string_view text, double& watts, std::string& expected);

struct Price {
  double per_hour = 0;
  std::string currency{};  // "USD", by ISO 4217
  bool a_gpu = false;      // of each GPU; else of the machine
  bool operator==(const Price&) const = default;
};
/// Reads "2.5 USD/h" and, of each GPU, "2.5 USD/GPU/h": above 0 and at most 1e9. As parse_power() else.
bool parse_price(std::string_view text, Price& price, std::string& expected);

}  // namespace moelab
