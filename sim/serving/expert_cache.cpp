#include "sim/serving/expert_cache.hpp"

#include "models/timing.hpp"
#include "policies/guard/guarded_policies.hpp"
#include "sim/engine/expert_mirror.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/graph_observer.hpp"
#include "sim/serving/layer_graph.hpp"
#include "sim/serving/memory_plan.hpp"
#include "sim/serving/pass.hpp"
#include "sim/serving/server_context.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

CacheShape domain_shape(const ServerContext& server, const MemoryPlan& memory,
                        const std::array<std::uint32_t, kStates>& pools) {
  const RoutingTrace& trace = server.trace;
  const bool per_model = cache_spans_model(server.system.cache.name, server.system.cache_domain);
  const std::uint32_t count = per_model ? 1 : trace.layers();
  CacheShape shape;
  shape.layers = per_model ? trace.layers() : 1;
  shape.model_layers = trace.layers();
  shape.objects = shape.layers * trace.experts();
  shape.capacity_bytes = memory.expert_cache.value() / count;
  shape.bytes = server.costs.bytes;
  shape.pool_experts = pools;
  for (std::uint32_t& places : shape.pool_experts) places *= shape.layers;
  shape.kept_as = server.system.kept_as;
  shape.top_k = trace.top_k();
  return shape;
}

}  // namespace

ExpertCache::ExpertCache(const ServerContext& server, const MemoryPlan& memory,
                         const std::array<std::uint32_t, kStates>& pools, std::span<const double> profile)
    : system_(server.system),
      costs_(server.costs),
      layers_(server.trace.layers()),
      experts_(server.trace.experts()),
      buffered_(memory.experts_on_ssd ? Tier::host : Tier::page_cache),
      buffers_(memory.experts_on_ssd || (system_.page_cache && !server.timing.is_discrete())),
      entry_(*find_cache_policy(server.system.cache.name)),
      per_model_(cache_spans_model(server.system.cache.name, server.system.cache_domain)),
      shape_(domain_shape(server, memory, pools)),
      steps_(layers_, 0),
      page_cache_bytes_(memory.page_cache.value()),
      page_cache_(2 * std::size_t{layers_} * experts_, page_cache_bytes_),
      mirror_(server.mirror) {
  make_domains(profile);
  if (entry_.needs_future)
    future_ = std::make_unique<FutureUses>(server.trace, server.scenario.workload.batch,
                                           prompts_of(server.scenario), micro_batch_of(server.system),
                                           drafts_of(server.scenario));
  preload_mirror();
}

void ExpertCache::make_domains(std::span<const double> profile) {
  const std::uint32_t count = per_model_ ? 1 : layers_;
  CacheShape shape = shape_;
  domains_.clear();
  for (std::uint32_t d = 0; d < count; ++d) {
    if (entry_.needs_profile) shape.profile = profile.subspan(std::size_t{d} * shape.objects, shape.objects);
    shape.first_layer = d;
    GuardOptions options;
    if (count > 1) options.layer = d;
    domains_.push_back(make_cache_policy(entry_, shape, system_.cache.parameters, options));
  }
  states_.clear();
  for (std::uint32_t layer = 0; layer < layers_; ++layer)
    states_.push_back(domain(layer).states().subspan(object(layer, 0), experts_));
}

void ExpertCache::find_kept(std::uint32_t layer, std::vector<std::uint8_t>& kept) const {
  kept.resize(experts_);
  for (std::uint32_t expert = 0; expert < experts_; ++expert) kept[expert] = state(layer, expert) != State::M;
}

std::uint64_t ExpertCache::whole_experts() const {
  std::uint64_t whole = 0;
  for (std::uint32_t layer = 0; layer < layers_; ++layer)
    for (std::uint32_t expert = 0; expert < experts_; ++expert)
      whole += state(layer, expert) == State::F ? 1 : 0;
  return whole;
}

void ExpertCache::count(MemoryContents& memory) const {
  for (const auto& domain : domains_) memory.expert_bytes += domain->bytes_held();
  for (std::uint32_t layer = 0; layer < layers_; ++layer)
    for (std::uint32_t expert = 0; expert < experts_; ++expert)
      if (const State kept = state(layer, expert); kept != State::M) ++memory.experts[index(kept)];
}

void ExpertCache::restart() {
  make_domains({});
  steps_.assign(layers_, 0);
  page_cache_ = PageCache(2 * std::size_t{layers_} * experts_, page_cache_bytes_);
}

void ExpertCache::begin_request() {
  for (auto& domain : domains_) domain->begin_request();
}

void ExpertCache::begin_step(const Pass& pass, std::uint32_t layer, std::span<const float> scores) {
  domain(layer).begin_step({per_model_ ? layer : 0, pass.tokens, pass.prompt_tokens});
  if (entry_.needs_all_scores) domain(layer).observe(scores);
  tell_mirror(layer);
}

void ExpertCache::end_step(std::uint32_t layer, std::span<const ExpertUse> uses, bool any) {
  uses_.assign(uses.begin(), uses.end());
  for (ExpertUse& use : uses_) {
    if (future_) use.next_use = future_->next_use(layer, use.object, steps_[layer]);
    use.object = object(layer, use.object);
  }
  domain(layer).use_all(uses_);
  if (any) ++steps_[layer];
  tell_mirror(layer);
}

bool ExpertCache::insert(std::uint32_t layer, std::uint32_t expert) {
  const bool taken = domain(layer).insert(object(layer, expert));
  tell_mirror(layer);
  return taken;
}

ExpertReads ExpertCache::plan_reads(std::uint32_t layer, std::uint32_t expert, State state) {
  ExpertReads reads = costs_.cold;
  if (state == State::F || !buffers_) return reads;
  reads.sm_tier = reads.e_tier = Tier::ssd;
  const std::uint32_t plane = sm_plane(layer, expert);
  const double sm = has_sm(state) ? 0 : costs_.sm_bytes.value() * costs_.tensors;
  const double e = has_e(state) ? 0 : costs_.e_stored.value() * costs_.tensors;
  if (sm > 0 && page_cache_.read(plane, sm)) {
    reads.sm_s = costs_.cached.sm_s;
    reads.sm_tier = buffered_;
  }
  if (e > 0 && page_cache_.read(plane + 1, e)) {
    reads.e_s = costs_.cached.e_s;
    reads.e_tier = buffered_;
  }
  return reads;
}

void ExpertCache::forget_reads(std::uint32_t layer, std::uint32_t expert, State state,
                               const ExpertReads& reads) {
  const std::uint32_t plane = sm_plane(layer, expert);
  if (!has_sm(state) && reads.sm_tier == Tier::ssd) page_cache_.forget(plane);
  if (!has_e(state) && reads.e_tier == Tier::ssd) page_cache_.forget(plane + 1);
}

void ExpertCache::preload_mirror() {
  if (mirror_ == nullptr) return;
  mirrored_.assign(std::size_t{layers_} * experts_, State::M);
  for (std::uint32_t i = 0; i < mirrored_.size(); ++i) {
    const engine::ExpertPlace place{i / experts_, i % experts_};
    mirrored_[i] = state(place.layer, place.expert);
    if (mirrored_[i] != State::M) mirror_->preload(place, static_cast<engine::Kept>(mirrored_[i]));
  }
}

// Whatever has changed in the domain of a layer: policies do not say what left for whom.
void ExpertCache::tell_mirror(std::uint32_t layer) {
  if (mirror_ == nullptr) return;
  const std::uint32_t first = per_model_ ? 0 : layer * experts_;
  const std::uint32_t end = per_model_ ? static_cast<std::uint32_t>(mirrored_.size()) : first + experts_;
  for (const bool leaving : {true, false})
    for (std::uint32_t i = first; i < end; ++i) {
      const engine::ExpertPlace place{i / experts_, i % experts_};
      const State to = state(place.layer, place.expert);
      if (to == mirrored_[i] || (to == State::M) != leaving) continue;
      mirror_->keep(place, static_cast<engine::Kept>(mirrored_[i]), static_cast<engine::Kept>(to));
      mirrored_[i] = to;
    }
}

}  // namespace moelab
