#include "sim/sweep/policy_hits.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "policies/guard/guarded_policies.hpp"

namespace moelab {
namespace {

CacheShape shape_of(const RoutingTrace& trace, std::uint32_t layer, std::uint32_t capacity) {
  CacheShape shape;
  shape.objects = trace.experts();
  shape.first_layer = layer;
  shape.model_layers = trace.layers();
  shape.capacity_bytes = capacity;  // experts of one byte
  shape.bytes.fill(1);
  shape.bytes[static_cast<std::size_t>(State::M)] = 0;
  shape.top_k = trace.top_k();
  return shape;
}

/// One layer's cache, and what it found.
class LayerCache {
 public:
  explicit LayerCache(std::unique_ptr<CachePolicy> policy) : policy_(std::move(policy)) {}

  void begin_request() { policy_->begin_request(); }
  void look_up(std::span<const ExpertUse> uses, bool of_prompt) {
    for (const ExpertUse& use : uses) {
      policy_->begin_step({.layer = 0, .tokens = 1, .prompt_tokens = of_prompt ? 1u : 0u});
      ++found_.lookups;
      found_.hits += policy_->state(use.object) == State::F;
      policy_->use_all({&use, 1});
    }
  }
  const LayerHits& found() const { return found_; }

 private:
  std::unique_ptr<CachePolicy> policy_;
  LayerHits found_;
};

/// A token's experts at a layer, ascending; none where the layer does not run for it.
void uses_of(const RoutingTrace& trace, std::uint64_t token, std::uint32_t layer,
             std::vector<ExpertUse>& uses) {
  uses.clear();
  const std::span<const std::uint16_t> ids = trace.experts_of(token, layer);
  if (ids.empty() || ids.front() == kNoExpert) return;
  const std::span<const float> scores =
      trace.has_scores() ? trace.scores_of(token, layer) : std::span<const float>();
  for (std::size_t i = 0; i < ids.size(); ++i)
    uses.push_back({.object = ids[i], .tokens = 1, .score = i < scores.size() ? scores[i] : 0});
  std::ranges::sort(uses, {}, &ExpertUse::object);
}

}  // namespace

std::string cannot_count(const CachePolicyEntry& entry, const RoutingTrace& trace) {
  if (entry.per_model) return "has one cache for the whole model, and here each layer has one";
  if (entry.uses_pools) return "keeps experts in several forms, and here they are there or not";
  if (entry.needs_all_scores) return "needs the gate's scores of all experts, which are not looked up here";
  if (entry.needs_profile) return "needs a profile of other requests, which there is none of here";
  if (entry.preloads) return "holds experts from the start, and here caches begin empty";
  if (entry.needs_future) return "knows the future; of those belady alone is counted here";
  if (entry.needs_scores && !trace.has_scores()) return "needs gate scores, which the trace has not";
  return "";
}

std::vector<LayerHits> policy_hits(const RoutingTrace& trace, const CachePolicyEntry& entry,
                                   const PolicyParameters& parameters, std::uint32_t capacity) {
  std::vector<LayerCache> caches;
  for (std::uint32_t layer = 0; layer < trace.layers(); ++layer)
    caches.emplace_back(
        make_cache_policy(entry, shape_of(trace, layer, capacity), parameters, {.layer = layer}));
  std::vector<ExpertUse> uses;
  std::uint64_t released = 0;
  for (const TraceRequest& request : trace.requests()) {
    for (LayerCache& cache : caches) cache.begin_request();
    for (std::uint64_t token = request.begin; token < request.end; ++token) {
      for (std::uint32_t layer = 0; layer < trace.layers(); ++layer) {
        uses_of(trace, token, layer, uses);
        caches[layer].look_up(uses, token < request.decode_begin);
      }
      if (!trace.worth_releasing(token - released)) continue;
      trace.release_rows(released, token);
      released = token;
    }
  }
  std::vector<LayerHits> found;
  for (const LayerCache& cache : caches) found.push_back(cache.found());
  return found;
}

}  // namespace moelab
