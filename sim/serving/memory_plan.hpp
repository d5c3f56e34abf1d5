// How a memory budget is spent, in full, so that a user can hold it against a real run. With a discrete GPU
// it is a budget of the GPU's memory; the host's has the experts.
#pragma once

#include <cstdint>
#include <string>

#include "models/units.hpp"

namespace moelab {

class RoutingTrace;
struct Architecture;
struct DeviceProfile;
struct ExpertCosts;
struct Pass;
struct Scenario;
struct SystemConfig;

struct MemoryPlan {
  Bytes budget;
  Bytes non_expert;   // embeddings, attention, gates, dense and shared feed-forward weights: always resident
  Bytes kv_cache;     // keys, values and states: of the largest static batch at its longest, or blocks of
                      // requests that come and go
  Bytes draft;        // weights of the model or head that drafts tokens
  Bytes activations;  // of the step of most rows
  /// Experts in use that are not kept: one decode step's (all of a layer, where whole layers are loaded),
  /// with room for both planes while they are joined. A prompt's pass through it in turn; those that the
  /// cache will keep are in the place of those that it lets go.
  Bytes staging;
  Bytes prefetch;      // experts fetched ahead (SystemConfig::prefetch_buffer)
  Bytes expert_cache;  // what is left
  Bytes host_experts;  // outside the budget, with a discrete GPU: in the host's memory, all experts but
                       // those that a cache that never changes holds
  bool experts_on_ssd = false;  // with a discrete GPU: because the host's memory is too small for all
  // Where experts are paged `staging` is the window, `expert_cache` what stored experts take, and `kv_cache`
  // what is left.
  Bytes pinned;                    // experts that stay in GPU memory beside the window
  Bytes kv_block;                  // one block, where requests come and go
  std::uint64_t kv_blocks = 0;     // that kv_cache holds
  std::uint64_t state_blocks = 0;  // that each request takes for states and windows (KvShape)
  std::uint64_t swap_blocks = 0;   // outside the budget: that the host has room for
  /// What the budget lacks for everything but cached experts, or for one block of the KV cache where experts
  /// are paged; not 0: nothing was run.
  Bytes shortfall;
  /// Outside the budget: device memory - system reserve - budget, for systems with buffered reads. With a
  /// discrete GPU whose experts lie on the SSD: what the host's memory holds of a GPU's parts of them. Where
  /// experts are paged: what host experts and swap space leave of it.
  Bytes page_cache;
};

/// Throws InputError, about `scenario`, where the budget is more than the device's memory.
void check_budget(const std::string& scenario, Bytes budget, const DeviceProfile& device);

/// Distinct experts of a layer that a decode step of the largest batch can use: each of its requests one row,
/// and one a draft.
std::uint32_t most_experts_in_use(const Scenario& scenario);

/// Experts that MemoryPlan::staging has room for: those, or all of a layer where whole layers are loaded.
std::uint32_t most_staged_experts(const Scenario& scenario, const SystemConfig& system);

/// What a step of `tokens` rows needs besides weights and KV cache: the rows through the layer of which most
/// is kept at once (hidden states in and out, the projections of its dense or shared part, and for each of k
/// experts its projections and its output), and the logits of `logits` rows in 4 bytes. `ranks`: GPUs that
/// share the vocabulary, of which `model` has a part.
Bytes activation_bytes(const Architecture& model, std::uint64_t tokens, std::uint64_t logits, int ranks = 1);
/// The same of a scenario's step of `tokens` rows of which `batch` requests want logits, for each draft too;
/// or of the pass of a draft model over its rows, where that is more: they run one after the other.
Bytes step_activation_bytes(const Scenario& scenario, std::uint64_t tokens);

/// Where the budget does not hold everything but the expert cache, `shortfall` says how much it lacks. Throws
/// InputError where it exceeds the device's memory.
MemoryPlan plan_memory(const Scenario& scenario, const SystemConfig& system, const ExpertCosts& costs,
                       const RoutingTrace& trace);

/// The host's memory behind a discrete GPU: all experts but those `for_good` in the GPU's, or, where they are
/// too many, what of them was read last (MemoryPlan::host_experts, experts_on_ssd, page_cache).
void plan_host(const Scenario& scenario, const SystemConfig& system, const ExpertCosts& costs,
               double for_good, MemoryPlan& memory);
/// Whether it does not hold all experts as they are stored.
bool host_is_too_small(const Scenario& scenario, const SystemConfig& system, const ExpertCosts& costs);

/// Whether the plan has room for what a step's rows need.
bool has_room(const MemoryPlan& memory, const Scenario& scenario, const Pass& pass);

/// What a system that caches experts lacks, item by item.
std::string shortfall_text(const std::string& system, const MemoryPlan& memory);

}  // namespace moelab
