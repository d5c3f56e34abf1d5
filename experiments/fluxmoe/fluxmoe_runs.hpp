// Runs of the FluxMoE paper's two nodes, and what a question changes about them.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/run.hpp"
#include "sim/scenario.hpp"

namespace moelab::fluxmoe {

/// How requests come, and what becomes of those that give way where the KV cache is full.
enum class Serving : std::uint8_t {
  prefilled,      // as the scenarios have it: prompts of 128 tokens are run elsewhere; swapped to the host
  hybrid_blocks,  // the same, in the blocks of 272 tokens that vLLM makes where layers are of two kinds
  engine_v1,      // their cache is lost and computed again, in chunks beside decodes; no watermark: vLLM's V1
  prompts_here,   // prompts run here, whole ones between decodes; swapped
  long_prompts,   // the same, half of the context is prompt
  long_prompts_v1,  // the same, by engine_v1
  spread            // prompts run here; contexts of 1,024 tokens to the longest, prompts of 161 in the mean
};

/// One point of a figure.
struct Point {
  std::string scenario, system;
  std::uint32_t batch = 256;     // requests that may run at once
  std::uint32_t context = 4096;  // tokens of a request at its end
  std::uint32_t requests = 0;    // 0: as many as the batch has
  std::uint32_t gpus = 0;        // 0: as in the scenario
  double kv_gib = 0;             // KV cache of all GPUs together; 0: what the budget leaves
  double budget_gb = 0;          // of a GPU; 0: the scenario's
  Serving serving = Serving::prefilled;
  std::uint64_t seed = 1;
  bool rebalance = true;  // of systems with residency policy budget-aware
  bool roomy = false;     // GPUs with room for every cache
  auto operator<=>(const Point&) const = default;
};

/// Qwen3-Next on four GPUs.
Point qwen(const std::string& system, std::uint32_t batch = 256, std::uint32_t context = 4096);
/// Mixtral on two GPUs, 256 requests; 8 of `vllm-o`, which has room for one: as fast as 256, one after
/// another.
Point mixtral(const std::string& system, std::uint32_t context = 4096);
/// Figure 2: Mixtral on four GPUs, weights resident, 128 requests.
Point with_kv(double gib, std::uint32_t context = 4096);

/// What holds for all points of a table.
struct Assumptions {
  double host_per_layer_s = 0;
  std::string runtime{};  // by name, what software costs instead; empty: none
  // 0: the device's.
  double decode_gb_per_s = 0;
  double link_gb_per_s = 0;
  double swap_gb_per_s = 0;  // both ways; for systems that load no experts over the link
  auto operator<=>(const Assumptions&) const = default;
};

/// The point's scenario with its one system, before its budget is set by kv_gib.
Scenario scenario_of(const Point& point, const Assumptions& assumptions);

/// Remembers what it has run.
class Runs {
 public:
  explicit Runs(Assumptions assumptions) : assumptions_(assumptions) {}
  const RunResult& run(const Point& point);
  /// All tokens generated over all time.
  double tokens_per_s(const Point& point);
  /// Throughput of `a` over that of `b`.
  double ratio(const Point& a, const Point& b) { return tokens_per_s(a) / tokens_per_s(b); }
  /// Of going from one to the other, as a share of the first.
  double change(const Point& from, const Point& to) { return ratio(to, from) - 1; }
  /// All of them, two at a time.
  void prepare(const std::vector<Point>& points);

 private:
  Assumptions assumptions_;
  std::map<Point, RunResult> results_;
};

/// Those under the assumptions, kept for all tables of the program.
Runs& runs_under(const Assumptions& assumptions);

inline constexpr double kPaperVllmO = 54.6;    // tokens a second at batch 32: row F4
inline constexpr double kPaperVllmGain = 6.0;  // of vLLM over it

/// The host overhead a layer at which vLLM decodes kPaperVllmO * kPaperVllmGain tokens a second at batch 32
/// with this budget (0: the scenario's). A step's time is linear in it: requests do not come by the clock.
/// Throws InputError where vLLM is slower even without any.
double fitted_host_overhead(double budget_gb = 0);

}  // namespace moelab::fluxmoe
