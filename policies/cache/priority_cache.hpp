// The base of caches that answer with priorities: after every step it shows the features of all experts of
// the domain as one array and keeps those to which the answer gives the highest priorities. It is what
// learned policies are written with, since a model needs no more than the array; see also cache.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "policies/cache/cache.hpp"
#include "policies/cache/single_pool.hpp"

namespace moelab {

/// Steps of a layer after which a use counts half: ours, between a step and a request, which the undecayed
/// features cover.
inline constexpr double kCacheHalfLife = 16;

/// What is known of an expert once a step's uses are counted, in the order of the array's columns. "Its
/// layer" is the expert's. What is counted in steps of it is, where the domain has several layers and another
/// one ran, as of its own last step. A step counts whether it used experts or not.
enum class CacheFeature : std::uint32_t {
  /// Steps of its layer since its last use; 0: used in the last one; never used: all so far.
  recency,
  /// Steps of its layer between its last two uses; used once, from the start to then; never used, all so far.
  gap,
  /// Share of its layer's steps so far in which it was used.
  frequency,
  /// The same, decayed: from f = 0, each step of its layer makes it d f + (1 - d) [used], where
  /// d = 2^(-1 / kCacheHalfLife).
  recent_frequency,
  /// Share of its layer's steps in this request in which it was used.
  request_frequency,
  /// The same of the request before this one, as it ended.
  last_request_frequency,
  /// Its gate scores in a step, summed over the tokens that chose it, over the count of all tokens of the
  /// step; decayed as recent_frequency is. 0 where the trace has no scores.
  score,
  /// Share of the tokens of its layer's last step that it served.
  tokens,
  /// Depth of its layer in the model: 0 the first MoE layer, 1 the last.
  layer,
  /// Layers from the one that ran to its own, as a share of the domain's: 1 where its own ran.
  ahead,
  /// Share of this step's tokens that are of prompts: 0 decodes, 1 prefills.
  prompt,
  /// 1: in memory before this step's uses; 0: not.
  held,
  /// 1: prefetched, and its layer has not run since; 0: not.
  fetched
};
// clang-format off
inline constexpr std::array<std::string_view, 13> kCacheFeatureNames = {
    "recency", "gap", "frequency", "recent_frequency", "request_frequency", "last_request_frequency", "score",
    "tokens", "layer", "ahead", "prompt", "held", "fetched"};
// clang-format on
inline constexpr std::size_t kCacheFeatures = kCacheFeatureNames.size();

/// What PriorityCache asks with, of one step. Valid during the call.
struct CacheFeatures {
  std::span<const float> table;  // [objects, kCacheFeatures], a row an expert
  const CacheStep& step;
  std::span<const ExpertUse> uses;  // of this step, with next_use where the entry has needs_future

  std::span<const float, kCacheFeatures> row(std::uint32_t object) const {
    return table.subspan(object * kCacheFeatures).first<kCacheFeatures>();
  }
  float of(std::uint32_t object, CacheFeature feature) const {
    return row(object)[static_cast<std::size_t>(feature)];
  }
};

/// After a step, of the experts that were in memory or are used in the step, as many as there are places for
/// stay: those of the highest priorities, among equals the one used last, then the lower number.
///
///   use_all(uses): the features take the step in; prioritize(); the choice above.
///   insert(o):     taken while there is room; else it takes the place of the held expert that would leave
///                  first, if that one's priority, as last answered, is below its own. A prefetch is no use.
///
/// O(objects) a step; allocates nothing after construction. A policy that overrides begin_step() or
/// begin_request() calls them here as well.
class PriorityCache : public SinglePool {
 public:
  void begin_step(const CacheStep& step) override { step_ = step; }
  void begin_request() override {
    for (std::uint32_t o = 0; o < objects_; ++o) {
      at(o, CacheFeature::last_request_frequency) = at(o, CacheFeature::request_frequency);
      at(o, CacheFeature::request_frequency) = 0;
    }
    std::fill(request_uses_.begin(), request_uses_.end(), 0U);
    std::fill(request_steps_.begin(), request_steps_.end(), 0U);
  }
  void use(const ExpertUse& use) final { use_all({&use, 1}); }
  void use_all(std::span<const ExpertUse> uses) final {
    ++now_;
    count_step(uses);
    prioritize({table_, step_, uses}, priorities_);
    for (std::uint32_t o = 0; o < objects_; ++o)
      if (std::isnan(priorities_[o]))
        throw std::domain_error("the priority of expert " + std::to_string(o) + " is not a number");
    choose();
  }
  bool insert(std::uint32_t object) final {
    if (holds(object)) return true;
    if (full()) {
      if (places() == 0) return false;
      const std::uint32_t victim = first_to_leave();
      if (priorities_[victim] >= priorities_[object]) return false;
      leave(victim);
    }
    come(object);
    at(object, CacheFeature::fetched) = 1;
    return true;
  }

 protected:
  explicit PriorityCache(const CacheShape& shape)
      : SinglePool(shape),
        objects_(shape.objects),
        layers_(shape.layers),
        experts_(shape.objects / shape.layers),
        table_(shape.objects * kCacheFeatures),
        priorities_(shape.objects),
        uses_(shape.objects),
        request_uses_(shape.objects),
        used_at_(shape.objects),
        steps_(shape.layers),
        request_steps_(shape.layers) {
    candidates_.reserve(shape.objects);
    const std::uint32_t last = std::max(shape.first_layer + layers_, shape.model_layers) - 1;
    for (std::uint32_t o = 0; o < objects_ && last > 0; ++o)
      at(o, CacheFeature::layer) = share(shape.first_layer + o / experts_, last);
  }

  /// Gives every expert a priority, any number but NaN; the array comes with those of the last step, at first
  /// with zeros.
  virtual void prioritize(const CacheFeatures& features, std::span<double> priorities) = 0;

  std::uint32_t objects() const { return objects_; }

 private:
  float& at(std::uint32_t object, CacheFeature feature) {
    return table_[object * kCacheFeatures + static_cast<std::size_t>(feature)];
  }
  void come(std::uint32_t object) {
    take(object);
    at(object, CacheFeature::held) = 1;
  }
  void leave(std::uint32_t object) {
    drop(object);
    at(object, CacheFeature::held) = at(object, CacheFeature::fetched) = 0;
  }

  void count_step(std::span<const ExpertUse> uses) {
    const std::uint32_t layer = step_.layer;
    assert(layer < layers_);
    ++steps_[layer];
    ++request_steps_[layer];
    for (const ExpertUse& use : uses) {
      assert(use.object / experts_ == layer);
      ++uses_[use.object];
      ++request_uses_[use.object];
      used_at_[use.object] = now_;
    }
    for (std::uint32_t o = layer * experts_; o < (layer + 1) * experts_; ++o) count_expert(o, layer);
    const float a_token = 1 / static_cast<float>(std::max(step_.tokens, 1U));
    for (const ExpertUse& use : uses) {
      at(use.object, CacheFeature::score) += (1 - decay_) * use.score * a_token;
      at(use.object, CacheFeature::tokens) = static_cast<float>(use.tokens) * a_token;
    }
    const float prompt = static_cast<float>(step_.prompt_tokens) * a_token;
    for (std::uint32_t l = 0; l < layers_; ++l) {
      const float ahead = share((l + layers_ - layer - 1) % layers_ + 1, layers_);
      for (std::uint32_t o = l * experts_; o < (l + 1) * experts_; ++o) {
        at(o, CacheFeature::ahead) = ahead;
        at(o, CacheFeature::prompt) = prompt;
      }
    }
  }
  void count_expert(std::uint32_t o, std::uint32_t layer) {
    const bool used = used_at_[o] == now_;
    float& recency = at(o, CacheFeature::recency);
    ++recency;
    if (used || uses_[o] == 0) at(o, CacheFeature::gap) = recency;
    if (used) recency = 0;
    at(o, CacheFeature::frequency) = share(uses_[o], steps_[layer]);
    float& recent = at(o, CacheFeature::recent_frequency);
    recent = decay_ * recent + (used ? 1 - decay_ : 0);
    at(o, CacheFeature::request_frequency) = share(request_uses_[o], request_steps_[layer]);
    at(o, CacheFeature::score) *= decay_;
    at(o, CacheFeature::tokens) = at(o, CacheFeature::fetched) = 0;
  }
  static float share(std::uint32_t part, std::uint32_t whole) {
    return static_cast<float>(part) / static_cast<float>(whole);
  }

  void choose() {
    candidates_.clear();
    for (std::uint32_t o = 0; o < objects_; ++o)
      if (holds(o) || used_at_[o] == now_) candidates_.push_back(o);
    const std::size_t kept = std::min<std::size_t>(candidates_.size(), places());
    const auto first_out = candidates_.begin() + static_cast<std::ptrdiff_t>(kept);
    std::nth_element(candidates_.begin(), first_out, candidates_.end(),
                     [this](std::uint32_t a, std::uint32_t b) { return stays_before(a, b); });
    for (auto it = first_out; it != candidates_.end(); ++it)
      if (holds(*it)) leave(*it);
    for (auto it = candidates_.begin(); it != first_out; ++it)
      if (!holds(*it)) come(*it);
  }
  bool stays_before(std::uint32_t a, std::uint32_t b) const {
    if (priorities_[a] != priorities_[b]) return priorities_[a] > priorities_[b];
    return used_at_[a] != used_at_[b] ? used_at_[a] > used_at_[b] : a < b;
  }
  /// Of the held ones; asks for at least one.
  std::uint32_t first_to_leave() const {
    std::uint32_t first = objects_;
    for (std::uint32_t o = 0; o < objects_; ++o)
      if (holds(o) && (first == objects_ || stays_before(first, o))) first = o;
    return first;
  }

  const float decay_ = static_cast<float>(std::exp2(-1 / kCacheHalfLife));
  std::uint32_t objects_, layers_, experts_;  // experts a layer
  CacheStep step_;
  std::uint64_t now_ = 0;                             // steps of the domain
  std::vector<float> table_;                          // [objects, kCacheFeatures]
  std::vector<double> priorities_;                    // [objects], as last answered
  std::vector<std::uint32_t> uses_;                   // [objects]
  std::vector<std::uint32_t> request_uses_;           // [objects], in this request
  std::vector<std::uint64_t> used_at_;                // [objects]: now_ of the last use; 0: never
  std::vector<std::uint32_t> steps_, request_steps_;  // [layers]
  std::vector<std::uint32_t> candidates_;
};

}  // namespace moelab
