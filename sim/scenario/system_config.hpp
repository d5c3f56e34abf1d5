// A serving system as its file describes it: a composition of policies.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/runtime.hpp"
#include "models/units.hpp"
#include "policies/compression_state.hpp"
#include "policies/policy_info.hpp"
#include "sim/scenario/instances_config.hpp"

namespace moelab {

class YamlDocument;
class YamlMap;

/// A policy by name, with the parameters that were given.
struct PolicyChoice {
  std::string name;
  PolicyParameters parameters;
};

/// Experts in pages: a layer's are all made ready in a window of two layers before it runs (FluxMoE, Liu et
/// al. 2026, sections 3 and 4), the KV cache is paged too, and requests come and go (continuous batching).
struct PagingConfig {
  /// Which experts come into the window, and when.
  enum class Fetch : std::uint8_t {
    layer,  // a layer's all, while the layer before computes, which waits for no gate
    ahead,  // the same one by one; once the layer's gate has run, only those that it chose
    used    // those that the gate chose, once it has run
  };
  /// Where experts may lie: "resident", a codec of the device's gpu.codecs, "host" (memory, over the link),
  /// "ssd" (over the link too).
  std::vector<std::string> backends;
  Fetch fetch = Fetch::layer;
  /// Of each layer and GPU: that stay in GPU memory beside the window, by SystemConfig::cache.
  std::uint32_t pinned = 0;
  PolicyChoice storage{"fixed", {}};
  PolicyChoice residency{"fixed", {}};
};

/// Which requests form a step: they come and go, unless the policy says otherwise.
struct BatchingConfig {
  PolicyChoice policy{"continuous", {}};
  std::uint32_t max_tokens = 8192;  // that a step may run; vLLM's usual max_num_batched_tokens
};

/// The KV cache of requests that come and go, in blocks (vLLM, Kwon et al. 2023).
struct KvConfig {
  std::uint32_t block_tokens = 16;
  Bytes swap_space;  // of the host's memory, for blocks of one GPU
  /// Who gives way where experts and the KV cache want the same memory.
  PolicyChoice pressure{"experts-yield", {}};
  /// Whether the KV cache takes the memory that experts leave as they move; else it is as large as it was at
  /// the start.
  bool grows = false;
};

/// When a global scheduler places experts anew, and how they get to where they are to be (Prism, Wu et al.,
/// section III-C3).
struct MigrationConfig {
  Seconds every;    // between its decisions
  Seconds horizon;  // over which a new placement has to save what moving the experts takes
  /// What it looks at: uses of experts since the placement last changed (as the paper does), in the last
  /// `window` seconds, or all of them, each counting half after every `window` seconds.
  enum class Statistics : std::uint8_t { since_change, window, decay };
  Statistics statistics = Statistics::since_change;
  Seconds window;
  /// Where a server gets experts from that it has not yet on a GPU. host: its own host memory, over the link
  /// of its GPU. ssd: its own. network: the nearest server that holds it; nearest, where none does. nearest:
  /// the host memory where that is another than the GPU's and holds all experts, else the SSD.
  enum class From : std::uint8_t { host, ssd, network, nearest };
  From load_from = From::nearest;
  /// Of which calls it takes what a remote one costs: all since the start, or those since the placement last
  /// changed ("the average values of all executions between the last placement change and the current
  /// moment", Prism, section IV-A).
  enum class Costs : std::uint8_t { since_start, since_change };
  Costs costs = Costs::since_start;
  /// How often it updates the part of that cost which is computing; 0: a mean over the same calls as the rest
  /// ("a load-dependent variable which is updated at 30-second intervals", likewise).
  Seconds computing_every;
};

/// What a server does about an expert that none of its GPUs holds: asks another server to compute it, loads
/// it from its own host memory or SSD for this one step, or does what is done first as far as it can tell.
enum class PlacedExecution : std::uint8_t { call, load, call_or_load };

/// Experts that stay where they are placed, on GPUs of several servers that call each other (Prism).
struct PlacedConfig {
  PolicyChoice placement;
  std::uint32_t copies = 1;  // servers that hold each expert, at least; 0 where they load what none holds
  double cache_share = 0;    // of the first GPU's room for experts, for the cache of what it has loaded
  /// One message an expert, with the tokens routed to it (as the paper has it); else one a GPU, in which no
  /// token comes twice.
  bool call_per_expert = true;
  PlacedExecution execution = PlacedExecution::call;
  std::optional<MigrationConfig> migration;
  bool loads() const { return execution != PlacedExecution::call; }
};

/// Requests that go to another server than their user's, where each serves alone.
enum class Redirection : std::uint8_t { none, least_loaded };

/// Who decompresses exponents: threads of the CPU, or a GPU with memory of its own in that.
enum class Decoder : std::uint8_t { cpu, gpu };

/// What one object of a cache policy manages: what the policy asks for (most: a layer), or the whole model.
enum class CacheDomain : std::uint8_t { policy, model };
/// Whether a cache policy of this name, which exists, then has one domain for the whole model.
bool cache_spans_model(std::string_view policy, CacheDomain domain);

/// A serving system: a composition of policies, written in YAML (configs/systems/*.yaml).
struct SystemConfig {
  std::string name;
  std::string title;
  std::string source;  // paper or code that describes the system

  bool compressed = false;  // planes with compressed exponents on storage; false: whole BF16 tensors
  std::string codec;        // of the device profile (codecs, or gpu.codecs); only when compressed
  Decoder decoder = Decoder::cpu;
  std::uint32_t shards = 0;   // K, E-chunks a tensor; 0 when not compressed
  std::uint32_t threads = 1;  // L, decompression threads
  bool worker_reads =
      false;  // each decompression thread reads its own E-chunk; the I/O thread reads SM-chunks only
  bool page_cache = false;         // buffered reads: memory outside the budget caches the file
  bool fetch_whole_layer = false;  // all experts of a layer are loaded, not just those used

  PolicyChoice schedule{"fifo", {}};
  PolicyChoice cache{"none", {}};
  CacheDomain cache_domain = CacheDomain::policy;
  State kept_as = State::F;  // single-pool caches keep experts in this state
  std::array<bool, kStates> pools = {true, false, false, false, false};  // for caches with several pools
  PolicyChoice planning{"fixed", {}};
  std::array<double, kStates> ratios{};  // of the fixed plan
  double plan_step = 0.05;               // of plans that search a grid
  bool plan_for_page_cache = false;      // plan with reads from the page cache instead of cold ones
  bool plan_ranks_by_batch = false;      // ranks are of each batch's counts, not of the whole history's
  bool plan_model_k = false;             // for one token's experts, the model's top_k, whatever the batch
  PolicyChoice prefetch{"none", {}};
  PolicyChoice routing{"model", {}};
  PolicyChoice execution{"gpu-only", {}};    // of what is missing from a discrete GPU's memory
  std::uint32_t prefetch_buffer = 0;         // experts that may be fetched ahead and held outside the cache
  std::uint32_t prefetch_buffer_layers = 0;  // the same, given in whole layers of experts

  /// Always there where weights are paged or placed. Nothing: static batches, each of which is taken when the
  /// one before is done, and whose KV cache is planned for the largest one.
  std::optional<BatchingConfig> batching;
  KvConfig kv;

  /// weights: paged; of the policies of experts then cache (what is pinned) and routing are its.
  std::optional<PagingConfig> paging;
  std::optional<PlacedConfig> placed;           // weights: placed; likewise
  std::optional<InstancesConfig> instances;     // of one that pages; nothing: one
  Redirection redirection = Redirection::none;  // of a cluster whose servers do not call each other
  /// On a cluster: until a server that does not answer is known to be gone, before a call is repeated, and
  /// how often a server that is away is looked for. Absent: a second.
  std::optional<Seconds> detection;
  Seconds detection_time() const { return detection.value_or(Seconds(1)); }

  /// What software the system runs in, which gives the costs below in the place of host_overhead: its own, or
  /// the scenario's.
  std::optional<Runtime> runtime;
  Seconds
      host_per_layer;  // framework cost before each layer, and after each pass; with its source when not zero
  Seconds host_per_pass;
  Seconds host_per_expert;  // after a layer's experts, for each that ran; by a runtime
  Seconds host_per_call;    // before each message to another GPU, one after the other; of placed systems
  std::string host_source;

  // Compiled once: copying the members is most of what a source that takes one by value compiles.
  SystemConfig();
  SystemConfig(const SystemConfig&);
  SystemConfig(SystemConfig&&) noexcept;
  SystemConfig& operator=(const SystemConfig&);
  SystemConfig& operator=(SystemConfig&&) noexcept;
  ~SystemConfig();
};

/// Lets the system run in this software: its costs take the place of `host_overhead`, prompts run in its
/// micro-batches, and have experts copied to the GPU as it does where the system does not say
/// (execution.stream_from).
void set_runtime(const Runtime& runtime, SystemConfig& system);
/// Tokens of prompts that a step of static batches runs at most: its runtime's micro-batch; 0: whole prompts.
std::uint32_t micro_batch_of(const SystemConfig& system);
/// `runtime:` of a system or a scenario: a name, a path beside `base` or here, or a map as in a runtime's
/// file; nullopt after a problem.
std::optional<Runtime> read_named_runtime(const YamlMap& root, const std::filesystem::path& base = {});

/// Reads one system file.
SystemConfig read_system(const YamlDocument& document);
SystemConfig read_system(const YamlMap& root);

}  // namespace moelab
