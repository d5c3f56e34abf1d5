// Published loads of llama.cpp and its fork: what their logs say of memory, and what moelab states.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/runtime.hpp"
#include "models/serving_estimate.hpp"

namespace moelab::world {

/// What logs print as buffers, in MiB of all GPUs together; where there is none, weights and caches are the
/// host's.
enum class MemoryItem { weights, kv, gpu_compute, host_compute };
inline constexpr std::size_t kMemoryItems = 4;
std::string_view to_string(MemoryItem item);
using MemoryFigures = std::array<std::optional<double>, kMemoryItems>;
using MemoryFlags = std::array<bool, kMemoryItems>;

/// A row of experiments/world/llamacpp_memory.csv.
struct MemoryRow {
  std::string id, source, build, runtime, graphs, model, weights, notes;
  std::string why_not;  // of the excepted items, or of the whole row where it excepts none
  bool whole = true;    // some of it can be expressed
  int cpu_expert_layers = 0;
  bool all_experts_on_cpu = false, cpu_only = false;
  int gpus = 1;
  double context = 0;
  LoadOptions options;
  std::optional<double> copies;  // of inputs, where the log says it
  bool streamed = true;          // experts of the host are copied for batches (not where they are repacked)
  MemoryFigures measured;        // but for excepted items
  MemoryFlags set_on{};  // items that a constant was set on, or the form of the law found: not predicted
};
/// Throws InputError: a column is missing, or a number is none.
std::vector<MemoryRow> read_memory_rows(const std::string& path);

/// The law's constants that no source of llama.cpp's gives: small whole numbers.
struct LawConstants {
  double hidden_states = 0, expert_outputs = 0, fork_outputs = 0;
  bool operator==(const LawConstants&) const = default;
};
/// As the runtimes' files have them.
LawConstants law_constants();
/// With which the sum of the absolute errors of GPUs' compute buffers is least; the files' where nothing is
/// better.
LawConstants fit_law(const std::vector<MemoryRow>& rows);

/// For the items that the row has. Models by name, those without experts from experiments/world/models.
/// Throws InputError where the row is not in moelab's terms.
MemoryFigures stated_memory(const MemoryRow& row, const LawConstants& constants);

/// Within 3 % or 150 MiB, which is what people need who ask whether a load fits.
bool near_enough(double measured, double stated);

}  // namespace moelab::world
