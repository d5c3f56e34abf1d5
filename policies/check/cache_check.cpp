// A cache as the serving loop uses it: requests of steps, each with its lookups, then its uses; experts that
// were prefetched come at any time.
#include <algorithm>
#include <array>

#include "policies/check/trial.hpp"

namespace moelab {
namespace {

/// A step, and the experts that it uses, by their numbers in the domain.
struct PlayedStep : CacheStep {
  std::vector<std::uint32_t> uses = {};
  std::vector<std::uint64_t> next = {};  // step of the layer in which each is used next
};

std::array<std::uint32_t, kStates> draw_pools(Draws& draws, const CacheShape& shape) {
  std::array<std::uint32_t, kStates> pools{};
  double left = shape.capacity_bytes;
  std::uint32_t places = shape.objects;
  for (const State state : {State::F, State::C, State::S, State::E}) {
    const double each = shape.bytes[index(state)];
    const auto fit = static_cast<std::uint32_t>(std::min(left / each, 1.0 * places));
    pools[index(state)] = draws.below(fit + 1);
    places -= pools[index(state)];
    left -= pools[index(state)] * each;
  }
  return pools;
}

CacheShape draw_cache_shape(Trial& trial, const CachePolicyEntry& entry, std::vector<double>& profile) {
  Draws& draws = trial.draws;
  CacheShape shape;
  const bool spans_model = entry.per_model || (entry.may_span_model && draws.one_in(2));
  shape.layers = spans_model && !trial.smallest ? draws.between(1, 4) : 1;
  shape.model_layers = shape.layers;
  const std::uint32_t experts = trial.smallest ? 1 : draws.between(1, 12);
  shape.objects = shape.layers * experts;
  shape.top_k = draws.between(1, experts);
  const double full = std::array{10.0, 24.3, 17301504.0}[draws.below(3)];
  shape.bytes = {full, 0.7 * full, 0.5 * full, 0.2 * full, 0};
  if (!entry.uses_pools && draws.one_in(4)) shape.kept_as = kAllStates[draws.below(4)];
  if (!trial.smallest && !draws.one_in(8))
    shape.capacity_bytes = draws.one_in(2) ? draws.between(0, shape.objects) * full
                                           : draws.uniform(0, 1.2) * full * shape.objects;
  if (entry.uses_pools) shape.pool_experts = draw_pools(draws, shape);
  if (entry.needs_profile)
    for (std::uint32_t object = 0; object < shape.objects; ++object) profile.push_back(draws.below(5));
  shape.profile = profile;
  return shape;
}

std::vector<PlayedStep> draw_steps(Trial& trial, const CacheShape& shape) {
  const std::uint32_t experts = shape.objects / shape.layers;
  std::vector<PlayedStep> steps(trial.smallest ? 3 : trial.draws.between(1, 40));
  for (std::size_t t = 0; t < steps.size(); ++t) {
    steps[t].layer = static_cast<std::uint32_t>(t) % shape.layers;
    steps[t].tokens = trial.draws.between(1, 4);
    steps[t].prompt_tokens = trial.draws.one_in(3) ? trial.draws.between(1, steps[t].tokens) : 0;
    const std::uint32_t most = std::min(experts, 4U);
    const std::uint32_t used = trial.draws.one_in(10) ? 0 : trial.draws.between(1, most);
    for (const std::uint32_t expert : trial.draws.subset(experts, used))
      steps[t].uses.push_back(steps[t].layer * experts + expert);
  }
  return steps;
}

/// As the loop counts: steps of a layer that use experts at all.
void find_next_uses(const CacheShape& shape, std::vector<PlayedStep>& steps) {
  std::vector<std::uint64_t> number(steps.size(), 0), count(shape.layers, 0);
  for (std::size_t t = 0; t < steps.size(); ++t) {
    number[t] = count[steps[t].layer];
    if (!steps[t].uses.empty()) ++count[steps[t].layer];
  }
  std::vector<std::uint64_t> later(shape.objects, kNeverUsedAgain);
  for (std::size_t t = steps.size(); t-- > 0;) {
    for (const std::uint32_t object : steps[t].uses) steps[t].next.push_back(later[object]);
    for (const std::uint32_t object : steps[t].uses) later[object] = number[t];
  }
}

class CacheTrial {
 public:
  CacheTrial(Trial& trial, const CachePolicyEntry& entry)
      : trial_(trial), entry_(entry), shape_(draw_cache_shape(trial, entry, profile_)) {
    policy_ = make_cache_policy(entry, shape_, trial.parameters, kClosely);
    profile_.assign(profile_.size(), -1);  // read when the policy is made, and not later
    prefetches_ = trial.draws.one_in(2);
  }

  void play() {
    std::vector<PlayedStep> steps = draw_steps(trial_, shape_);
    if (entry_.needs_future) find_next_uses(shape_, steps);
    for (const PlayedStep& step : steps) {
      if (trial_.draws.one_in(6)) policy_->begin_request();
      prefetch();
      policy_->begin_step({step.layer, step.tokens, step.prompt_tokens});
      if (entry_.needs_all_scores) policy_->observe(summed_scores());
      prefetch();
      for (const std::uint32_t object : step.uses) add_state(object);
      use_all(step);
      prefetch();
    }
    policy_->begin_step({});
    for (std::uint32_t object = 0; object < shape_.objects; ++object) add_state(object);
  }

 private:
  void add_state(std::uint32_t object) { trial_.answers.add(std::uint64_t{index(policy_->state(object))}); }

  void prefetch() {
    if (!prefetches_ || !trial_.draws.one_in(3)) return;
    trial_.answers.add(std::uint64_t{policy_->insert(trial_.draws.below(shape_.objects))});
    trial_.answers.add(policy_->bytes_held());
  }

  void use_all(const PlayedStep& step) {
    std::vector<ExpertUse> uses;
    for (std::size_t i = 0; i < step.uses.size(); ++i) {
      ExpertUse use{.object = step.uses[i], .tokens = trial_.draws.between(1, step.tokens)};
      if (entry_.needs_scores || entry_.needs_all_scores)
        use.score = static_cast<float>(trial_.draws.uniform(0, use.tokens));
      if (entry_.needs_future) use.next_use = step.next[i];
      uses.push_back(use);
    }
    policy_->use_all(uses);
  }

  /// Of the experts of one layer.
  std::span<const float> summed_scores() {
    scores_ = draw_scores(trial_.draws, shape_.objects / shape_.layers);
    return scores_;
  }

  Trial& trial_;
  const CachePolicyEntry& entry_;
  std::vector<double> profile_;
  CacheShape shape_;
  std::unique_ptr<CachePolicy> policy_;
  bool prefetches_ = false;
  std::vector<float> scores_;
};

}  // namespace

PolicyCheck check_policy(const CachePolicyEntry& entry, const CheckOptions& options) {
  return play_trials("cache", entry.info, options, [&](Trial& trial) { CacheTrial(trial, entry).play(); });
}

}  // namespace moelab
