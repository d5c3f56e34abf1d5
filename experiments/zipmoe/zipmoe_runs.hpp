// The ZipMoE paper's boards, systems and measurements, run with whatever a question changes about them.
//
// How the paper measured, by the scripts of its published code (evaluation/evaluate.py,
// evaluate_mem_latency.sh, evaluate_batch_tps.sh in npnothard/ZipMoE-ICML26): the page cache is dropped; a
// warm-up prompt; then 20 prompts of at most 32 new tokens for latencies, or 96 of at most 64 in batches of 4
// and 16 for throughput; TTFT, TPOT and end-to-end time are means over requests, throughput is a batch's
// tokens over the time of its slowest.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/claims/runtime_rows.hpp"
#include "sim/serving/pool_planning.hpp"

namespace moelab::zipmoe {

using Settings = std::vector<std::pair<std::string, std::string>>;

/// What else lives in the memory outside the budget: nothing, so that all of it caches files; a program of
/// 32 GB (the paper reports one such run); or one that leaves nothing.
enum class Storage : std::uint8_t { free, taken_32gb, occupied };
const char* storage_name(Storage storage);

struct Hardware {
  const char* device;
  double memory_gb;
  double throughput_budget_gb;  // the paper's budget for Fig. 8
};
inline constexpr std::array<Hardware, 2> kHardware = {
    {{"jetson-agx-orin-64gb", 64, 20}, {"jetson-agx-orin-32gb", 32, 10}}};
/// Budgets at which the decoder-only models do not fit, on both boards.
inline constexpr std::array<double, 4> kBudgetsGb = {10, 15, 20, 25};

inline const std::vector<std::string> kDecoderOnly = {"deepseek-v2-lite", "qwen1.5-moe-a2.7b"};
inline const std::string kEncoderDecoder = "switch-large-128";

/// The base of this study and of SMoE's: what eager PyTorch costs before each layer, the same for every
/// system.
inline constexpr double kHostMs = 0.5;

struct Point {
  std::string model = "deepseek-v2-lite";
  const Hardware* hardware = kHardware.data();
  double budget_gb = 20;
  Storage storage = Storage::free;
  int batch = 1, batches = 1, prompt = 128, output = 64;
  bool warm_up = false;  // the first batch is not measured: it is one more
  std::uint64_t seed = 1;
  bool independent = false;  // tokens are routed independently of the token before and of the prompt
  double host_ms = kHostMs;  // before each layer; as today
  claims::Software software = claims::Software::as_today;
};

struct Outcome {
  double ttft_s = 0, tpot_s = 0, end_to_end_s = 0, tokens_per_s = 0;
  double found_full = 0;          // share of the experts of decode steps
  double io_stall = 0;            // share of the time of decode steps that waits for reads
  std::array<double, 4> share{};  // of the cache that the plan gives F, C, S, E
};

/// A system of configs/systems and what is changed about it.
struct Variant {
  std::string system;
  Settings settings{};
  /// Share of its expert cache that holds nothing of use: a second copy of what the rest holds (0.5), or a
  /// pool that a policy does not use.
  double idle = 0;
};

/// Runs a system on a point, or remembers it. Empty where the budget is too small for the system: the paper's
/// figures have no such point either.
std::optional<Outcome> run(const Point& point, const Variant& variant);

/// What plans of a point are made from.
RankInclusion statistics(const Point& point);

/// The paper's rivals under their two readings of unified memory.
///
/// MoE-Infinity keeps every expert that is on the GPU in its pool of pinned host memory too
/// (Node::SetDevice() in its core/model/model_topology.cpp frees the host's copy only when the expert goes
/// back to disk). On a board of one memory that is a second copy: half the cache. The paper aligns "DRAM
/// memory footprints" and says that such systems take the CPU's memory for "a distinct external storage".
inline const Variant kMoeInfinityTwoCopies = {"moe-infinity", {}, 0.5};
inline const Variant kMoeInfinityOneCopy = {"moe-infinity", {}, 0};
inline const Variant kDeepSpeed = {"deepspeed-zero3", {}, 0};
/// ZeRO-3 gathers the parameters of a module before it runs. Of a model whose code calls only the experts
/// that have tokens (Switch's and DeepSeek-V2's does, Qwen1.5-MoE's calls all) it may read those alone, past
/// the page cache.
inline const Variant kDeepSpeedUsed = {"accelerate", {{"overrides.system.page_cache", "false"}}, 0};
/// Accelerate with every expert on disk, or with the first layers that fit the budget kept and the others on
/// disk (device_map "auto" with a limit of memory).
inline const Variant kAccelerateDisk = {"accelerate", {}, 0};
inline const Variant kAccelerateLayers = {
    "accelerate", {{"overrides.system.cache.policy", "fixed-layers"}}, 0};

/// ZipMoE with all four pools by its planner, with the settings of its scripts: K = 3, frequencies that count
/// tokens and start anew with every batch, a plan on each batch's ranks and the model's k.
inline const Variant kPlanned = {"zipmoe",
                                 {{"overrides.system.shards", "3"},
                                  {"overrides.system.cache.count_tokens", "1"},
                                  {"overrides.system.cache.reset", "1"},
                                  {"overrides.system.planning.ranks", "batch"},
                                  {"overrides.system.planning.k", "model"}},
                                 0};
/// As the paper's words have it where the scripts differ: configs/systems/zipmoe.yaml.
inline const Variant kPlannedByText = {"zipmoe", {}, 0};
/// One pool with FIFO, Marking or LRU over so much of the memory. The published scripts give such caches 0.95
/// of it, like the pool of full experts of "+C"; the other 0.05 is a pool that they do not use.
Variant basic(const char* system, double share = 0.95);

/// "12.3", "-" where there is none.
std::string number(std::optional<double> x, int digits = 2);
std::string percent(double share, int digits = 1);

struct Extremes {
  double low = 0, high = 0;
  bool empty = true;
  void add(double x);
};
std::string percents(const Extremes& range);
std::string factors(const Extremes& range);

}  // namespace moelab::zipmoe
