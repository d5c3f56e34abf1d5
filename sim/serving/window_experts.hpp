// Where each expert of a layer is on each GPU of a node, by number, where experts are paged: pinned beside
// the window (SystemConfig::cache says which), stored in GPU memory as it computes, or to be brought, from
// its place of storage or from the page cache in front of the SSD.
//
// Experts that are not pinned for good have a place of storage by number: of a layer the first ones on the
// first backend, as many as StorageSplit says, the next ones on the second, and so on.
//
// An expert that a policy keeps stays in the block that it came into, and the window gets the block of the
// one that leaves (PagedTensor maps blocks of any place, FluxMoE section 4.1): neither takes time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "policies/cache/cache.hpp"
#include "sim/serving/page_cache.hpp"
#include "sim/serving/paged_plan.hpp"

namespace moelab {

struct Pass;
struct Scenario;
struct SystemConfig;

/// What comes into the window of a layer.
struct WindowStream {
  std::vector<std::uint32_t> experts;  // by backend; of those that hold them as they compute, 0
  std::uint32_t cached = 0;            // of those on the SSD, what the page cache has

  bool any() const;
  bool operator==(const WindowStream&) const = default;
};

class WindowExperts {
 public:
  /// Everything by reference outlives it, `profile` ([layers, experts of all GPUs], for policies that need
  /// one) only the constructor. `gpus` are simulated.
  WindowExperts(const Scenario& scenario, const SystemConfig& system, const PagedPlan& plan,
                std::span<const double> profile, std::size_t gpus);

  /// Whether the numbers of experts matter: else only how many lie where does.
  bool by_number() const { return plan_.pinned > 0 || page_caches_.front().has_value(); }
  /// Experts of a layer, of a GPU, and the number of its first one among all of the layer.
  std::uint32_t experts() const { return plan_.experts; }
  std::uint32_t first(std::size_t gpu) const {
    return divided_ ? static_cast<std::uint32_t>(gpu) * experts() : 0;
  }
  /// Whether the GPUs have unlike experts.
  bool divided() const { return divided_; }

  // Of GPU `gpu`, MoE layer `layer` and the GPU's expert number `expert`.
  bool pinned(std::size_t gpu, std::uint32_t layer, std::uint32_t expert) const {
    return plan_.pinned > 0 && policies_[gpu * layers_ + layer]->state(expert) != State::M;
  }
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  /// Backend that an expert is stored on; kNowhere: it is pinned for good.
  std::size_t backend(const StorageSplit& split, std::size_t gpu, std::uint32_t layer,
                      std::uint32_t expert) const;
  /// Whether it lies in GPU memory as it computes.
  bool plain(const StorageSplit& split, std::size_t gpu, std::uint32_t layer, std::uint32_t expert) const;
  /// Whether reading it from the SSD finds it in the page cache, where it is afterwards.
  bool read(std::size_t gpu, std::uint32_t layer, std::uint32_t expert);
  /// A read that missed the page cache and was announced will not be.
  void forget_read(std::size_t gpu, std::uint32_t layer, std::uint32_t expert);

  /// Of a whole layer; `stream` is used again. Reads through the page cache.
  void find_stream(const StorageSplit& split, std::size_t gpu, std::uint32_t layer, WindowStream& stream);

  // As the policies hear of a layer: it runs, with the scores of all experts where they need them, and these
  // experts, numbered among all of the layer, were used.
  bool needs_all_scores() const { return plan_.pinned > 0 && entry_.needs_all_scores; }
  bool needs_scores() const { return plan_.pinned > 0 && entry_.needs_scores; }
  void begin_request();
  void begin_layer(const Pass& pass, std::uint32_t layer, std::span<const float> scores);
  void use(const StorageSplit& split, std::uint32_t layer, std::span<const ExpertUse> uses);

  /// Of a GPU, of all layers; of the one that has most.
  double pinned_bytes() const;

 private:
  void make_policies(const SystemConfig& system, std::span<const double> profile, std::uint32_t all_experts,
                     std::uint32_t top_k);

  const PagedPlan& plan_;
  const CachePolicyEntry& entry_;
  std::uint32_t layers_;
  std::size_t gpus_;
  bool divided_;
  std::vector<std::unique_ptr<CachePolicy>> policies_;  // [gpus, layers], where any is pinned
  std::vector<std::uint32_t> places_;  // [gpus, layers, experts]: numbers among those not pinned for good
  std::vector<std::optional<PageCache>> page_caches_;  // by GPU
  std::vector<ExpertUse> came_;                        // scratch: of a step and a GPU
};

}  // namespace moelab
