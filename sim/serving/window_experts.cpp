#include "sim/serving/window_experts.hpp"

#include <algorithm>
#include <cmath>

#include "policies/guard/guarded_policies.hpp"
#include "sim/engine/invariant.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/pass.hpp"

namespace moelab {
namespace {

bool is_plain(const StorageShape& shape, std::size_t backend) {
  return std::isinf(shape.backends[backend].bytes_per_second);
}

}  // namespace

bool WindowStream::any() const {
  return std::any_of(experts.begin(), experts.end(), [](std::uint32_t n) { return n > 0; });
}

WindowExperts::WindowExperts(const Scenario& scenario, const SystemConfig& system, const PagedPlan& plan,
                             std::span<const double> profile, std::size_t gpus)
    : plan_(plan),
      entry_(*find_cache_policy(system.cache.name)),
      layers_(plan.split.shape().layers),
      gpus_(gpus),
      divided_(scenario.expert_ranks() > 1),
      page_caches_(gpus) {
  const FeedForward& ff = scenario.model.experts_or_none();
  if (plan.pinned > 0)
    make_policies(system, profile, static_cast<std::uint32_t>(ff.experts),
                  static_cast<std::uint32_t>(ff.top_k));
  if (!system.page_cache) return;
  for (std::optional<PageCache>& cache : page_caches_)
    cache.emplace(std::size_t{layers_} * plan.experts, plan.memory.page_cache.value());
}

void WindowExperts::make_policies(const SystemConfig& system, std::span<const double> profile,
                                  std::uint32_t all_experts, std::uint32_t top_k) {
  const double bytes = plan_.split.shape().expert_bytes;
  CacheShape shape;
  shape.objects = plan_.experts;
  shape.capacity_bytes = plan_.pinned * bytes;
  shape.bytes = {bytes, bytes, bytes, bytes, 0};
  shape.top_k = top_k;
  shape.model_layers = layers_;
  for (std::size_t gpu = 0; gpu < gpus_; ++gpu)
    for (std::uint32_t layer = 0; layer < layers_; ++layer) {
      if (!profile.empty())
        shape.profile = profile.subspan(std::size_t{layer} * all_experts + first(gpu), plan_.experts);
      shape.first_layer = layer;
      policies_.push_back(make_cache_policy(entry_, shape, system.cache.parameters, {.layer = layer}));
    }
  if (!plan_.pinned_for_good) return;
  constexpr std::uint32_t kNoPlace = ~0U;
  for (const auto& policy : policies_)
    for (std::uint32_t expert = 0, place = 0; expert < plan_.experts; ++expert)
      places_.push_back(policy->state(expert) != State::M ? kNoPlace : place++);
}

std::size_t WindowExperts::backend(const StorageSplit& split, std::size_t gpu, std::uint32_t layer,
                                   std::uint32_t expert) const {
  std::uint32_t place = expert;
  if (plan_.pinned_for_good) place = places_[(gpu * layers_ + layer) * experts() + expert];
  for (std::size_t k = 0; k < split.shape().backends.size(); ++k) {
    const std::uint32_t here = split.experts(layer, k);
    if (place < here) return k;
    place -= here;
  }
  return kNowhere;
}

bool WindowExperts::plain(const StorageSplit& split, std::size_t gpu, std::uint32_t layer,
                          std::uint32_t expert) const {
  if (pinned(gpu, layer, expert)) return true;
  return is_plain(split.shape(), backend(split, gpu, layer, expert));
}

bool WindowExperts::read(std::size_t gpu, std::uint32_t layer, std::uint32_t expert) {
  std::optional<PageCache>& cache = page_caches_[gpu];
  return cache && cache->read(layer * experts() + expert, plan_.split.shape().expert_bytes);
}

void WindowExperts::forget_read(std::size_t gpu, std::uint32_t layer, std::uint32_t expert) {
  if (page_caches_[gpu]) page_caches_[gpu]->forget(layer * experts() + expert);
}

void WindowExperts::find_stream(const StorageSplit& split, std::size_t gpu, std::uint32_t layer,
                                WindowStream& stream) {
  const StorageShape& shape = split.shape();
  stream.experts.assign(shape.backends.size(), 0);
  stream.cached = 0;
  if (!by_number()) {
    for (std::size_t k = 0; k < shape.backends.size(); ++k)
      if (!is_plain(shape, k)) stream.experts[k] = split.experts(layer, k);
    return;
  }
  for (std::uint32_t expert = 0; expert < experts(); ++expert) {
    if (pinned(gpu, layer, expert)) continue;
    const std::size_t k = backend(split, gpu, layer, expert);
    if (is_plain(shape, k)) continue;
    ++stream.experts[k];
    if (plan_.on_ssd[k] && read(gpu, layer, expert)) ++stream.cached;
  }
}

void WindowExperts::begin_request() {
  for (const auto& policy : policies_) policy->begin_request();
}

void WindowExperts::begin_layer(const Pass& pass, std::uint32_t layer, std::span<const float> scores) {
  if (policies_.empty()) return;
  for (std::size_t gpu = 0; gpu < gpus_; ++gpu) {
    CachePolicy& policy = *policies_[gpu * layers_ + layer];
    policy.begin_step({0, pass.tokens, pass.prompt_tokens});
    if (entry_.needs_all_scores) policy.observe(scores.subspan(first(gpu), experts()));
  }
}

// Those that are stored as they compute are there in any case.
void WindowExperts::use(const StorageSplit& split, std::uint32_t layer, std::span<const ExpertUse> uses) {
  if (policies_.empty()) return;
  for (std::size_t gpu = 0; gpu < gpus_; ++gpu) {
    CachePolicy& policy = *policies_[gpu * layers_ + layer];
    came_.clear();
    for (ExpertUse use : uses) {
      if (use.object < first(gpu) || use.object >= first(gpu) + experts()) continue;
      use.object -= first(gpu);
      const std::size_t k = backend(split, gpu, layer, use.object);
      if (k == kNowhere || !is_plain(split.shape(), k)) came_.push_back(use);
    }
    policy.use_all(came_);
    engine::check_invariant(policy.bytes_held() <= plan_.pinned * split.shape().expert_bytes * (1 + 1e-9),
                            "more experts are pinned than is planned");
  }
}

double WindowExperts::pinned_bytes() const {
  double most = 0;
  for (std::size_t gpu = 0; gpu < gpus_ && !policies_.empty(); ++gpu) {
    double bytes = 0;
    for (std::uint32_t layer = 0; layer < layers_; ++layer)
      bytes += policies_[gpu * layers_ + layer]->bytes_held();
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace moelab
