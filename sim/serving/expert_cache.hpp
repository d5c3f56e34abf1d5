// What a server keeps of each expert: the cache policy, one domain a layer or one for the model; the page
// cache below it, through which what is missing is read; and who follows all that.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "policies/cache/cache.hpp"
#include "sim/engine/labelled_graph.hpp"
#include "sim/serving/future_uses.hpp"
#include "sim/serving/page_cache.hpp"

namespace moelab {

namespace engine {
class ExpertMirror;
}
struct ExpertCosts;
struct ExpertReads;
struct MemoryContents;
struct MemoryPlan;
struct Pass;
struct ServerContext;
struct SystemConfig;

/// Layers are MoE layers, counted without the others; experts are numbered within their layer.
class ExpertCache {
 public:
  /// `pools`: the plan's capacities in experts a layer (0 for policies without pools). `profile`: [layers *
  /// experts] uses in an offline profile, for policies that need one; read here. A mirror hears here of what
  /// is kept from the start.
  ExpertCache(const ServerContext& server, const MemoryPlan& memory,
              const std::array<std::uint32_t, kStates>& pools, std::span<const double> profile);

  State state(std::uint32_t layer, std::uint32_t expert) const { return states_[layer][expert]; }
  /// [experts] of a layer: 1 where something of the expert is kept.
  void find_kept(std::uint32_t layer, std::vector<std::uint8_t>& kept) const;
  /// Experts that are kept whole.
  std::uint64_t whole_experts() const;
  /// Fills in what the cache holds.
  void count(MemoryContents& memory) const;
  /// Whether begin_step() needs the scores of all experts.
  bool needs_all_scores() const { return entry_.needs_all_scores; }

  /// Everything is as it was at the start: what a server holds that comes back to its cluster. Not with a
  /// profile, a mirror or an oracle.
  void restart();

  /// A new request, or batch of requests.
  void begin_request();
  /// A layer of the pass begins; `scores`: [experts] summed over the pass, where they are needed.
  void begin_step(const Pass& pass, std::uint32_t layer, std::span<const float> scores);
  /// These experts, numbered within the layer, were used on the GPU, and are whole in memory at this moment.
  /// `any`: whether the layer used experts at all.
  void end_step(std::uint32_t layer, std::span<const ExpertUse> uses, bool any);
  /// An expert came ahead of its use. Whether the policy took it or held it already.
  bool insert(std::uint32_t layer, std::uint32_t expert);

  /// Where the missing parts of an expert in `state` are read from. The reads enter the page cache.
  ExpertReads plan_reads(std::uint32_t layer, std::uint32_t expert, State state);
  /// Reads that plan_reads() gave will not be.
  void forget_reads(std::uint32_t layer, std::uint32_t expert, State state, const ExpertReads& reads);

 private:
  void make_domains(std::span<const double> profile);
  CachePolicy& domain(std::uint32_t layer) { return *domains_[per_model_ ? 0 : layer]; }
  /// The expert's number in its domain.
  std::uint32_t object(std::uint32_t layer, std::uint32_t expert) const {
    return per_model_ ? layer * experts_ + expert : expert;
  }
  /// The page cache's numbers of an expert's planes: of the sign-mantissas (or whole tensors); the exponents'
  /// is the next.
  std::uint32_t sm_plane(std::uint32_t layer, std::uint32_t expert) const {
    return 2 * (layer * experts_ + expert);
  }
  void preload_mirror();
  void tell_mirror(std::uint32_t layer);

  const SystemConfig& system_;
  const ExpertCosts& costs_;
  std::uint32_t layers_, experts_;
  Tier buffered_;  // where the page cache's are read from
  bool buffers_;   // whether what is missing is read through it
  const CachePolicyEntry& entry_;
  bool per_model_;    // one domain
  CacheShape shape_;  // of a domain; without a profile
  std::vector<std::unique_ptr<CachePolicy>> domains_;
  std::vector<std::span<const State>> states_;  // by layer: [experts], in its domain
  std::unique_ptr<FutureUses> future_;          // where the policy is an oracle
  std::vector<std::uint64_t> steps_;            // by layer: how often it used experts, as FutureUses counts
  std::vector<ExpertUse> uses_;                 // scratch: of a step, numbered in the domain
  double page_cache_bytes_;
  PageCache page_cache_;
  engine::ExpertMirror* mirror_;
  std::vector<State> mirrored_;  // by layer * experts + expert: what the mirror was told last
};

}  // namespace moelab
