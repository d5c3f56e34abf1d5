// What a run leaves: counts and times, filled by the serving loop.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "policies/compression_state.hpp"
#include "sim/engine/labelled_graph.hpp"
#include "sim/scenario/request_mix.hpp"

namespace moelab {

/// What the wall time went to. Every instant of a run belongs to one cause: the operation on the critical
/// path, from the moment its dependencies were met (so waiting for its resource counts to that resource).
enum class Cause : std::uint8_t {
  ssd_read,
  page_cache_read,
  decompress,
  recover,
  expert_compute,
  dense_compute,
  host,
  prefetch,        // waiting for a fetch that was on its way already
  expert_load,     // over the link: top-score experts, and those that were not classed
  low_score_load,  // over the link: experts that are low-score for all their tokens
  cpu_experts,
  activations,     // to the CPU's experts and back
  prediction,      // of gates ahead
  all_reduce,      // of hidden states over GPUs
  kv_swap,         // of the KV cache's blocks, to the host and back
  network,         // hidden states between servers
  remote_experts,  // experts that another GPU computes
  recovery,        // until an expert that no server holds is there again, or a call that was lost is repeated
  exchange,        // of rows over GPUs that share the experts, to these and back
  drafting         // of tokens that a step verifies
};
inline constexpr std::size_t kCauses = 20;
/// Of these, the first that a written result always has; others where they took any time.
inline constexpr std::size_t kCausesOfAll = 18;
inline constexpr std::array<std::string_view, kCauses> kCauseNames = {
    "ssd_read",   "page_cache_read", "decompress",  "recover",        "expert_compute", "dense_compute",
    "host",       "prefetch",        "expert_load", "low_score_load", "cpu_experts",    "activations",
    "prediction", "all_reduce",      "kv_swap",     "network",        "remote_experts", "recovery",
    "exchange",   "drafting"};
Cause cause_of(const OpLabel& label);

/// fetched = used + late + unused.
struct PrefetchCounts {
  std::uint64_t fetched = 0;         // experts of which the fetch began
  std::uint64_t used = 0;            // fetched in time; counted at their first use
  std::uint64_t late = 0;            // used, but still on the way when wanted
  std::uint64_t unused = 0;          // dropped before any use, or not used by the end of the run
  std::uint64_t cancelled = 0;       // taken out before they began; not among `fetched`
  double wasted_bytes = 0;           // read for the unused ones
  std::uint64_t used_top_score = 0;  // among `used` and `late`: as a top-score expert of some token
};

/// What a routing policy made of the model's choices, in decode passes. All 0 where the system has none.
/// An activation is one expert for one token.
struct RoutingCounts {
  std::uint64_t active = 0;  // activations: top_score + low_score
  std::uint64_t top_score = 0, low_score = 0;
  std::uint64_t substituted = 0;  // of the low-score ones
  double mass_moved = 0;          // sum of |score of the replaced - score of the substitute|
  double score_sum = 0;           // of the model's own choices
  // Distinct experts of a step that were not on the GPU in time, after substitution.
  std::uint64_t top_score_misses = 0, low_score_misses = 0;
};

/// What speculative decoding came to, over all requests; a step is one request's. All 0 where nothing is
/// drafted.
struct SpeculationCounts {
  std::uint64_t steps = 0;     // in which a request decoded
  std::uint64_t drafted = 0;   // tokens, one row each
  std::uint64_t accepted = 0;  // of these
  std::uint64_t judged = 0;    // of these: accepted, or the first that was refused in its step

  /// A step of a request that drafted so many tokens, of which the last `refused` were refused.
  void add(std::uint64_t tokens, std::uint64_t refused) {
    ++steps;
    drafted += tokens;
    accepted += tokens - refused;
    judged += tokens - refused + (refused > 0 ? 1 : 0);
  }
  void add(const SpeculationCounts& other) {
    steps += other.steps;
    drafted += other.drafted;
    accepted += other.accepted;
    judged += other.judged;
  }
  /// That a request gets in a step, mean.
  double tokens_a_step() const { return static_cast<double>(steps + accepted) / static_cast<double>(steps); }
};

/// Who made ready what was missing, in decode passes: distinct experts of a step.
struct ExecutionCounts {
  std::uint64_t loaded = 0;  // over the link, on demand
  std::uint64_t on_cpu = 0;
};

/// A stretch of a run that serves from a paged KV cache: what was at its end, and what came since its begin,
/// the end of the sample before. Bytes are of one GPU, or as ServingCounts says.
struct ServingSample {
  std::uint64_t step = 0;  // the last one of the stretch
  double begin_s = 0, time_s = 0;
  std::uint64_t running = 0, waiting = 0, swapped = 0;  // requests, while that step ran
  std::uint64_t blocks = 0, all_blocks = 0;             // of the KV cache: in use, and there
  double residency = 0;                                 // share of the experts that takes GPU memory
  std::uint64_t tokens = 0;                             // generated
  double swap_in_bytes = 0, swap_out_bytes = 0;
  bool operator==(const ServingSample&) const = default;

  double kv_use() const {  // share of the blocks
    return all_blocks == 0 ? 0 : static_cast<double>(blocks) / static_cast<double>(all_blocks);
  }
  double tokens_per_s() const { return a_second(static_cast<double>(tokens)); }
  double swapped_bytes_per_s() const { return a_second(swap_in_bytes + swap_out_bytes); }

 private:
  double a_second(double amount) const { return time_s > begin_s ? amount / (time_s - begin_s) : 0; }
};

/// Samples of a run one after another, each of as many steps as the others but for the last, at most kMost:
/// when there are more, neighbours are joined.
class ServingSeries {
 public:
  static constexpr std::size_t kMost = 512;
  bool wants(std::uint64_t step) const { return step % stride_ == 0; }
  /// What came since the sample before; its `begin_s` is not read. Steps that are wanted, in order.
  void add(ServingSample sample);
  /// Of the steps after the last one that was wanted. Nothing is added then.
  void finish(ServingSample sample);
  const std::vector<ServingSample>& samples() const { return samples_; }
  void set(std::vector<ServingSample> samples) { samples_ = std::move(samples); }

 private:
  std::vector<ServingSample> samples_;
  std::uint64_t stride_ = 1;
};

/// What serving from a paged KV cache with paged experts took. All 0 elsewhere. Bytes are of one GPU; where
/// GPUs have requests of their own (data parallelism), those of the KV cache, and blocks, of all of them.
struct ServingCounts {
  std::uint64_t steps = 0;
  std::uint64_t rows = 0;                      // tokens that ran
  std::uint64_t recomputed = 0;                // of these, that had been in the cache before
  std::uint64_t swapped_out = 0, dropped = 0;  // preemptions: to the host, and with the loss of the cache
  double swap_in_bytes = 0, swap_out_bytes = 0;
  double decoded_bytes = 0;         // plain, made ready from compressed GPU memory
  double loaded_bytes = 0;          // brought into the window over the link
  double promoted_bytes = 0;        // brought into GPU memory to stay, over the link too
  double ssd_bytes = 0;             // of both, read from the SSD before
  double page_cache_bytes = 0;      // of those brought into the window, that the page cache had
  std::uint64_t moved_experts = 0;  // by the residency policy, off the GPU's memory and onto it
  std::uint64_t most_blocks = 0;    // of the KV cache in use at once
  double most_kv_use = 0;           // the largest share of the blocks that there were in a step
  // Of experts that GPUs divide: pairs of row and expert in a layer of a step, mean over GPUs and of the GPU
  // with most, summed over layers and steps; and what each GPU takes in of others' rows.
  double mean_pairs = 0, most_pairs = 0;
  double exchanged_bytes = 0;

  /// Of another server.
  void add(const ServingCounts& other);
  /// 1: each GPU has as much to do as any other (vLLM's "balancedness"). Where GPUs divide experts.
  double balancedness() const { return mean_pairs / most_pairs; }
};

/// The seconds of a run that its statistics are of, where it has a warm-up or a cool-down.
struct MeasuredTime {
  bool whole = true;  // they are of the whole run
  double begin_s = 0, end_s = 0;
};

/// A request that was begun: answered, or lost with its server. Seconds of engine time; negative: never.
struct RequestTimes {
  std::uint32_t number = 0;  // in order of arrival; of a trace that is served in turn, its place there, and
                             // of conversations, which follow each other
  std::uint32_t server = 0;  // of a cluster or of instances, the one that served it, or ran its prompt
  double arrival_s = 0;
  double started_s = 0;  // of the first pass that ran some of it
  double first_token_s = -1;
  double end_s = -1;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;    // that it asked for
  std::uint32_t preempted = 0;        // how often it gave way: to the host, or with the loss of its cache
  std::uint32_t cached_tokens = 0;    // of its prompt, found in the KV cache when it was first admitted
  double longest_gap_s = -1;          // between two of its tokens; negative: it has no second one
  std::uint16_t of_class = kNoClass;  // place in WorkloadConfig::mix
  // Of disaggregated prefill: the instance that went on, and while its KV cache was sent there; negative:
  // none.
  std::int32_t decoded_by = -1;
  double sent_from_s = -1, sent_until_s = -1;
  bool measured = true;  // false: it came in warm_up or cool_down, and no statistic is of it

  bool answered() const { return end_s >= 0; }
};

/// What each MoE layer saw in decode passes, in the model's order. On a cluster, of all servers together.
struct LayerCounts {
  std::array<std::vector<std::uint64_t>, kStates> hits;  // experts used, by the state they were found in
  /// From the begin of the layer's dense part until its experts are done. Not in it: layers without experts,
  /// what is at the begin and end of a pass.
  std::vector<double> stall_s;

  LayerCounts() = default;
  explicit LayerCounts(std::size_t layers);
  void add(const LayerCounts& other);  // of the same model, or without layers
};

struct Metrics {
  std::vector<double> ttft_s;        // a request each: from the arrival of its batch to its first token
  std::vector<double> end_to_end_s;  // a request each: to its last token
  /// A generated token each, after the first of its request; of tokens that one step produced together, one.
  std::vector<double> token_gaps_s;
  std::vector<std::uint16_t> gap_classes;  // of these, the requests' classes; empty where there are none
  MeasuredTime measured;
  std::vector<RequestTimes> requests;  // in the order of their ends
  std::uint64_t tokens = 0;            // generated
  double wall_s = 0;
  /// Experts used, by the state they were found in, all passes. Prefetched ones that are there in time are
  /// found in F; those still on the way count as what the cache has of them. Where experts are paged: in F
  /// those that GPU memory keeps as they compute, in M those that came into the window, in time or not.
  std::array<std::uint64_t, kStates> hits{};
  std::array<std::uint64_t, kStates> decode_hits{};  // the same, decode passes only
  std::array<double, kTiers> bytes{};                // read, by tier
  // Of several instances, the critical paths of one: InstancesResult::busiest().
  std::array<double, kCauses> stall_s{};         // adds up to wall_s, less time without requests
  std::array<double, kCauses> decode_stall_s{};  // the part of decode passes
  PrefetchCounts prefetch;
  RoutingCounts routing;
  ExecutionCounts execution;
  SpeculationCounts speculation;
  ServingCounts serving;
  ServingSeries series;
  LayerCounts layers;

  /// An expert of a MoE layer was used, found in this state.
  void count_hit(State found, std::uint32_t moe_layer, bool prompt) {
    ++hits[index(found)];
    if (prompt) return;
    ++decode_hits[index(found)];
    ++layers.hits[index(found)][moe_layer];
  }
  /// A gap between two tokens of a measured request.
  void count_gap(double seconds, std::uint16_t of_class) {
    token_gaps_s.push_back(seconds);
    if (of_class != kNoClass) gap_classes.push_back(of_class);
  }
  /// Of a pass: of prompts alone, or one that decodes.
  void add_stall(Cause cause, double seconds, bool prompt);
  void add_stalls(const std::array<double, kCauses>& seconds, bool prompt);

  // Compiled once: copying the members is most of what a source that takes one by value compiles.
  Metrics();
  Metrics(const Metrics&);
  Metrics(Metrics&&) noexcept;
  Metrics& operator=(const Metrics&);
  Metrics& operator=(Metrics&&) noexcept;
  ~Metrics();
};

/// An operation that waits for a fetch that was already on its way.
struct FetchWait {
  engine::OpIndex op;
  const engine::Graph* fetch;
};

/// A finished graph's critical path, by cause: adds up to the time from its submission to its end. What an
/// operation in `waits` waited for its fetch is a cause of its own; what a load waited for other loads on the
/// link goes to theirs.
std::array<double, kCauses> critical_path(const LabelledGraph& graph, std::span<const FetchWait> waits);

}  // namespace moelab
