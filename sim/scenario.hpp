// A scenario: model + device + memory budget + workload + systems + seed, complete and validated before
// anything runs.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/architecture.hpp"
#include "models/device.hpp"
#include "models/yaml_reader.hpp"
#include "policies/compression_state.hpp"
#include "policies/policy_info.hpp"
#include "traces/law/routing_law.hpp"
#include "traces/requests.hpp"

namespace moelab {

/// A policy by name, with the parameters that were given.
struct PolicyChoice {
  std::string name;
  PolicyParameters parameters;
};

/// Experts in pages: a layer's are all made ready in a window of two layers before it runs (FluxMoE, Liu et
/// al. 2026, sections 3 and 4), the KV cache is paged too, and requests come and go (continuous batching).
struct PagingConfig {
  /// Where experts may lie: "resident", a codec of the device's gpu.codecs, "host" (memory, over the link),
  /// "ssd" (over the link too).
  std::vector<std::string> backends;
  PolicyChoice storage{"fixed", {}};
  PolicyChoice residency{"fixed", {}};
  PolicyChoice batching{"continuous", {}};
  std::uint32_t block_tokens = 16;  // of the KV cache
  std::uint32_t max_tokens = 8192;  // that a step may run; vLLM's usual max_num_batched_tokens
  Bytes swap_space;                 // of the host's memory, for blocks of one GPU
  /// Whether experts get only as much memory as the KV cache of the `batch` longest requests leaves; else as
  /// that of the longest one does.
  bool kv_first = false;
  /// Whether the KV cache takes the memory that experts leave; else it is as large as it was at the start.
  bool kv_grows = false;
};

/// A serving system: a composition of policies, written in YAML (configs/systems/*.yaml).
struct SystemConfig {
  std::string name;
  std::string title;
  std::string source;  // paper or code that describes the system

  bool compressed = false;    // planes with compressed exponents on storage; false: whole BF16 tensors
  std::string codec;          // of the device profile; only when compressed
  std::uint32_t shards = 0;   // K, E-chunks a tensor; 0 when not compressed
  std::uint32_t threads = 1;  // L, decompression threads
  bool worker_reads =
      false;  // each decompression thread reads its own E-chunk; the I/O thread reads SM-chunks only
  bool page_cache = false;         // buffered reads: memory outside the budget caches the file
  bool fetch_whole_layer = false;  // all experts of a layer are loaded, not just those used

  PolicyChoice schedule{"fifo", {}};
  PolicyChoice cache{"none", {}};
  State kept_as = State::F;  // single-pool caches keep experts in this state
  std::array<bool, kStates> pools = {true, false, false, false, false};  // for caches with several pools
  PolicyChoice planning{"fixed", {}};
  std::array<double, kStates> ratios{};  // of the fixed plan
  double plan_step = 0.05;               // of plans that search a grid
  bool plan_for_page_cache = false;      // plan with reads from the page cache instead of cold ones
  PolicyChoice prefetch{"none", {}};
  PolicyChoice routing{"model", {}};
  PolicyChoice execution{"gpu-only", {}};    // of what is missing from a discrete GPU's memory
  std::uint32_t prefetch_buffer = 0;         // experts that may be fetched ahead and held outside the cache
  std::uint32_t prefetch_buffer_layers = 0;  // the same, given in whole layers of experts

  std::optional<PagingConfig> paging;  // weights: paged; the policies above are then not its

  Seconds
      host_per_layer;  // framework cost before each layer, and after each pass; with its source when not zero
  Seconds host_per_pass;
  std::string host_source;
};

struct WorkloadConfig {
  std::uint32_t batch = 1;     // requests in a static batch
  std::uint32_t requests = 1;  // each batch arrives when the one before is done
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;                        // the first one included
  std::string trace_file;                                 // "": generated
  double skew = 0, reuse = 0, drift = 0, gate_decay = 0;  // of the generator
  bool has_law = false;  // in its place: drawn from `law`, at the model's sizes
  std::string law_file;  // where the law is from, as messages show it
  RoutingLaw law;

  // Of systems with continuous batching.
  bool prefilled = false;          // prompts are run elsewhere: their keys and values come with the requests
  double arrivals_per_s = 0;       // of a Poisson process; 0: all requests are there from the start
  std::string request_log;         // "": `requests` of the lengths above
  std::vector<RequestRecord> log;  // what it holds
};

struct Scenario {
  std::string name;
  std::string question;  // what it is to answer
  Architecture model;    // with tensor_parallel: one GPU's part of it
  DeviceProfile device;
  std::uint32_t tensor_parallel = 1;  // GPUs that share each layer
  /// Memory the serving process may use: non-expert weights, KV cache, staging and expert cache. With several
  /// GPUs, of each.
  Bytes budget;
  WorkloadConfig workload;
  std::vector<SystemConfig> systems;
  std::uint64_t seed = 1;
  std::vector<std::pair<std::string, std::string>> settings;  // --set, for the record
};

/// Reads and validates a scenario by name or path; `settings` are (dotted path, value) overrides applied
/// before validation. `overrides.model`, `.device` and `.system` in the scenario change values of the files
/// it names; those of systems pass over what a system has no use for (scenario_overrides.hpp). Throws
/// InputError with everything that is wrong.
Scenario load_scenario(std::string_view name_or_path,
                       const std::vector<std::pair<std::string, std::string>>& settings = {});

/// Files that a run of it reads besides the scenario's own, and that it must not write.
std::vector<std::string> scenario_inputs(const Scenario& scenario);

/// Reads one system file.
SystemConfig read_system(const YamlDocument& document);

}  // namespace moelab
