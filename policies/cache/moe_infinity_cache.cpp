// MoE-Infinity's activation-aware expert cache: one pool for the whole model; what the running request uses
// often stays, and more so in the first layers, which no prefetch can cover.
//
//   running EAM[l][e] += tokens of the expert used; reset when a request begins
//   priority(l, e) = (EAM[l][e] / sum(EAM[l]) + epsilon) * (1 - l / L)
//   use of an expert that is not kept: if full, the kept expert of lowest priority leaves; keep the used one
//   prefetched expert: the same, if the one that would leave ranks lower
//   an expert that was prefetched and not used yet ranks above all that are not in that position, until it is
//   used or a step of its layer has passed
//
// Source: MoE-Infinity (Xue et al. 2024, arXiv 2401.14361) and its code, memory/expert_cache.py and
// memory/expert_priority_score.py (layer term, protection of prefetched experts, forced eviction of a
// protected one when a demanded expert finds nothing else). EAM and epsilon are the paper's symbols.
//
// Deviations:
// - A batch is one request: its EAM is the sum over its sequences (see prefetch/moe_infinity_prefetch.cpp).
// - The code multiplies by a lifetime hit count of each expert as well and gives decoder layers of
//   encoder-decoder models a growing layer term; the paper's rule has neither.
// - `protect_prefetched` 0 ranks a prefetched expert by the formula alone. An expert that the
//   request has not used before then loses to nearly everything, and most prefetches are refused.
// Ties: the later layer leaves first, within a layer the least recently used or prefetched.
//
// Within a layer the order of experts is that of their counts, whatever the layer's sum: so each layer
// remembers its lowest expert and that one's rank, and forgets it when that one rises or leaves. An eviction
// compares L remembered experts and looks through the few layers that forgot theirs.
#include <cassert>
#include <tuple>

#include "policies/cache/cache.hpp"
#include "policies/cache/single_pool.hpp"
#include "policies/checked_parameter.hpp"
#include "policies/prefetch/expert_activation_matrix.hpp"

namespace moelab {
namespace {

class MoeInfinityCache final : public SinglePool {
 public:
  MoeInfinityCache(const CacheShape& shape, double epsilon, bool protect_prefetched)
      : SinglePool(shape),
        epsilon_(epsilon),
        protect_(protect_prefetched),
        experts_(shape.objects / shape.layers),
        eam_(shape.layers, experts_),
        unused_prefetch_(shape.objects, 0),
        last_touch_(shape.objects, 0),
        layers_(shape.layers) {
    assert(shape.layers > 0 && shape.objects % shape.layers == 0);
  }

  void use(const ExpertUse& use) override {
    Layer& layer = layers_[use.object / experts_];
    if (layer.lowest == use.object || unused_prefetch_[use.object]) layer.forgotten = true;
    eam_.add(use.object / experts_, use.object % experts_, use.tokens);
    if (layer.kept > 0 && !layer.forgotten) remember(layer, layer.lowest);  // the layer's sum has grown
    last_touch_[use.object] = ++clock_;
    unused_prefetch_[use.object] = 0;
    if (holds(use.object) || places() == 0) return;
    if (full()) evict(lowest());
    admit(use.object);
  }

  bool insert(std::uint32_t object) override {
    if (holds(object)) return true;
    if (places() == 0) return false;
    if (full()) {
      const std::uint32_t victim = lowest();
      if (!(rank(victim) < Rank{protect_, priority(object)})) return false;
      evict(victim);
    }
    last_touch_[object] = ++clock_;
    unused_prefetch_[object] = protect_;
    admit(object);
    return true;
  }

  void begin_step(const CacheStep& step) override {
    assert(step.layer < layers_.size());
    if (running_layer_ != kNone) end_protection(running_layer_);
    running_layer_ = step.layer;
  }

  void begin_request() override {
    eam_.clear();
    for (Layer& layer : layers_) layer.forgotten = true;
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  using Rank = std::pair<bool, double>;  // prefetched and not used yet; priority

  struct Layer {
    std::uint32_t kept = 0;
    std::uint32_t lowest = kNone;  // first of its kept experts to leave; meaningless when forgotten
    Rank rank = {};                // of that one
    bool forgotten = false;
  };

  double priority(std::uint32_t object) const {
    const std::uint32_t layer = object / experts_;
    const double earliness = 1.0 - static_cast<double>(layer) / static_cast<double>(layers_.size());
    return (eam_.ratio(layer, object % experts_) + epsilon_) * earliness;
  }
  Rank rank(std::uint32_t object) const { return {unused_prefetch_[object] != 0, priority(object)}; }

  // Of two kept experts of one layer, whether `a` leaves first. Touches are numbered: there is no tie.
  bool leaves_before(std::uint32_t a, std::uint32_t b) const {
    const auto key = [this](std::uint32_t object) {
      return std::tuple(unused_prefetch_[object], eam_.counts()[object], last_touch_[object]);
    };
    return key(a) < key(b);
  }

  void look_through(std::uint32_t layer) {
    std::uint32_t first = kNone;
    for (std::uint32_t object = layer * experts_; object < (layer + 1) * experts_; ++object)
      if (holds(object) && (first == kNone || leaves_before(object, first))) first = object;
    remember(layers_[layer], first);
  }

  void remember(Layer& layer, std::uint32_t lowest) {
    layer.lowest = lowest;
    layer.rank = rank(lowest);
    layer.forgotten = false;
  }

  // The kept expert of lowest rank. Asks for at least one.
  std::uint32_t lowest() {
    const Layer* victim = nullptr;
    for (std::uint32_t layer = 0; layer < layers_.size(); ++layer) {
      if (layers_[layer].kept == 0) continue;
      if (layers_[layer].forgotten) look_through(layer);
      if (victim == nullptr || !(victim->rank < layers_[layer].rank)) victim = &layers_[layer];
    }
    assert(victim != nullptr);
    return victim->lowest;
  }

  void admit(std::uint32_t object) {
    Layer& layer = layers_[object / experts_];
    take(object);
    ++layer.kept;
    if (layer.kept == 1 || (!layer.forgotten && leaves_before(object, layer.lowest))) remember(layer, object);
  }

  void evict(std::uint32_t object) {
    Layer& layer = layers_[object / experts_];
    drop(object);
    unused_prefetch_[object] = 0;
    --layer.kept;
    layer.forgotten = true;
  }

  void end_protection(std::uint32_t layer) {
    for (std::uint32_t object = layer * experts_; object < (layer + 1) * experts_; ++object) {
      if (!unused_prefetch_[object]) continue;
      unused_prefetch_[object] = 0;
      layers_[layer].forgotten = true;
    }
  }

  const double epsilon_;
  const bool protect_;
  const std::uint32_t experts_;  // a layer
  ExpertActivationMatrix eam_;
  std::vector<std::uint8_t> unused_prefetch_;  // [objects]
  std::vector<std::uint64_t> last_touch_;      // [objects]: value of clock_ at the last use or prefetch
  std::vector<Layer> layers_;
  std::uint64_t clock_ = 0;
  std::uint32_t running_layer_ = kNone;
};

PolicyInfo moe_infinity_cache_info() {
  return {.name = "moe-infinity",
          .help = "lowest activation ratio in the running request leaves, last layers first",
          .source = "MoE-Infinity (Xue et al. 2024, arXiv 2401.14361)",
          .parameters = {{.name = "epsilon",
                          .unit = "",
                          .default_value = 1e-6,
                          .low = 0,
                          .high = 1,
                          .help = "activation ratio of an expert the running request has not used"},
                         {.name = "protect_prefetched",
                          .unit = "",
                          .default_value = 1,
                          .low = 0,
                          .high = 1,
                          .help = "1: prefetched experts stay until used or until their layer has passed"}}};
}

std::unique_ptr<CachePolicy> make_moe_infinity_cache(const CacheShape& shape,
                                                     const PolicyParameters& parameters) {
  const PolicyInfo info = moe_infinity_cache_info();
  return std::make_unique<MoeInfinityCache>(shape, checked_parameter(info, parameters, "epsilon"),
                                            checked_count(info, parameters, "protect_prefetched") != 0);
}

}  // namespace

CachePolicyEntry moe_infinity_cache_entry() {
  return {.info = moe_infinity_cache_info(), .per_model = true, .make = make_moe_infinity_cache};
}

}  // namespace moelab
