// What is decided within a layer step: orders of operations, who computes the missing, who serves a token.
#include <algorithm>

#include "policies/check/trial.hpp"

namespace moelab {
namespace {

LayerInstance draw_layer(Trial& trial) {
  Draws& draws = trial.draws;
  // Small layers where parameters are at their bounds: a search may be allowed to look at all orders.
  const bool small = !trial.usual || draws.one_in(2);
  LayerInstance layer;
  layer.threads = draws.between(1, 4);
  layer.shards = draws.below(small ? 3 : 5);
  layer.sm_read_s = draws.one_in(6) ? 0 : draws.uniform(0, 1);
  layer.e_read_s = draws.one_in(6) ? 0 : draws.uniform(0, 1);
  layer.decompress_s = draws.one_in(6) ? 0 : draws.uniform(0, 2);
  layer.recover_s = draws.one_in(6) ? 0 : draws.uniform(0, 0.5);
  std::uint32_t tasks = 0;
  const std::uint32_t tensors = trial.smallest ? 1 : draws.between(1, small ? 2 : 3);
  const std::uint32_t most = small ? 2 : 24;
  const std::uint32_t experts = trial.smallest ? 1 : draws.below(9);
  for (std::uint32_t e = 0; e < experts && tasks + tensors <= most; ++e, tasks += tensors) {
    LayerExpert expert{.id = 3 * e + draws.below(3), .tensors = tensors};
    expert.state = layer.shards == 0 ? (draws.one_in(2) ? State::F : State::M) : kAllStates[draws.below(5)];
    expert.execute_s = draws.one_in(6) ? 0 : draws.uniform(0, 1);
    layer.experts.push_back(expert);
  }
  return layer;
}

void play_schedule(Trial& trial, const SchedulePolicyEntry& entry) {
  const auto policy = make_schedule_policy(entry, trial.parameters, kClosely);
  LayerOrder order;
  for (std::uint32_t layer = trial.draws.between(1, 4); layer > 0; --layer) {
    policy->order(draw_layer(trial), order);
    for (const ChunkRead& read : order.reads) {
      trial.answers.add(std::uint64_t{read.task});
      trial.answers.add(std::uint64_t{read.chunk});
    }
    trial.answers.add_all(order.tasks);
    trial.answers.add_all(order.experts);
  }
}

void play_execution(Trial& trial, const ExecutionPolicyEntry& entry) {
  Draws& draws = trial.draws;
  const auto policy = make_execution_policy(entry, trial.parameters, kClosely);
  std::vector<double> cpu_s;
  const double a_token = draws.one_in(3) ? 0 : draws.uniform(0, 1), first = draws.uniform(0, 3);
  if (entry.needs_cpu)
    for (std::uint32_t tokens = 0; tokens < 8; ++tokens) cpu_s.push_back(first + tokens * a_token);
  ExecutionPlan plan;
  for (std::uint32_t step = draws.between(1, 6); step > 0; --step) {
    std::vector<MissingExpert> missing;
    const std::uint32_t experts = trial.smallest ? 1 : draws.between(1, 16);
    for (const std::uint32_t expert : draws.subset(experts, draws.below(experts + 1)))
      missing.push_back({.expert = expert, .tokens = trial.smallest ? 1 : draws.between(1, 7)});
    for (MissingExpert& expert : missing)
      if (entry.needs_scores) expert.score = static_cast<float>(draws.uniform(0, expert.tokens));
    const ExecutionCosts costs{draws.uniform(0, 3), cpu_s, draws.one_in(3) ? 0 : draws.uniform(0, 1),
                               draws.between(1, 8), draws.below(4)};
    policy->plan(missing, costs, plan);
    trial.answers.add_all(plan.places);
    trial.answers.add_all(plan.loads);
    trial.answers.add_all(plan.cpu);
    for (std::size_t i = 0; i < plan.loads.size(); ++i) policy->observe_load(draws.uniform(0, 3));
  }
}

class RoutingTrial {
 public:
  RoutingTrial(Trial& trial, const RoutingPolicyEntry& entry)
      : trial_(trial),
        has_scores_(entry.needs_all_scores || trial.draws.one_in(2)),
        experts_(trial.smallest ? 1 : trial.draws.between(1, 16)),
        k_(trial.draws.between(1, std::min(experts_, 6U))),
        policy_(make_routing_policy(entry, trial.parameters, kClosely)) {}

  void play() {
    StepRouting routing;
    for (std::uint32_t step = trial_.draws.between(1, 6); step > 0; --step) {
      draw_tokens();
      policy_->route(gates_, resident_, routing);
      trial_.answers.add_all(routing.experts);
      trial_.answers.add_all(routing.roles);
      for (const TokenRouting& token : routing.tokens) trial_.answers.add(token.mass_moved);
    }
  }

 private:
  void draw_tokens() {
    Draws& draws = trial_.draws;
    const std::uint32_t tokens = trial_.smallest ? 1 : draws.between(1, 6);
    scores_.clear();
    chosen_.clear();
    gates_.clear();
    for (std::uint32_t t = 0; t < tokens; ++t) {
      scores_.push_back(draw_scores(draws, experts_));
      chosen_.push_back(best_scored(scores_.back(), k_));
      if (!draws.one_in(4)) continue;  // a gate that does not go by score alone
      chosen_.back().clear();
      for (const std::uint32_t expert : draws.subset(experts_, k_))
        chosen_.back().push_back(static_cast<std::uint16_t>(expert));
    }
    for (std::uint32_t t = 0; t < tokens; ++t)
      gates_.push_back(
          {chosen_[t], has_scores_ ? std::span<const float>(scores_[t]) : std::span<const float>()});
    resident_.clear();
    for (std::uint32_t expert = 0; expert < experts_; ++expert)
      resident_.push_back(static_cast<std::uint8_t>(draws.below(2)));
  }

  Trial& trial_;
  bool has_scores_;
  std::uint32_t experts_, k_;
  std::unique_ptr<RoutingPolicy> policy_;
  std::vector<std::vector<float>> scores_;
  std::vector<std::vector<std::uint16_t>> chosen_;
  std::vector<TokenGate> gates_;
  std::vector<std::uint8_t> resident_;
};

}  // namespace

PolicyCheck check_policy(const SchedulePolicyEntry& entry, const CheckOptions& options) {
  return play_trials("schedule", entry.info, options, [&](Trial& trial) { play_schedule(trial, entry); });
}

PolicyCheck check_policy(const ExecutionPolicyEntry& entry, const CheckOptions& options) {
  return play_trials("execution", entry.info, options, [&](Trial& trial) { play_execution(trial, entry); });
}

PolicyCheck check_policy(const RoutingPolicyEntry& entry, const CheckOptions& options) {
  return play_trials("routing", entry.info, options,
                     [&](Trial& trial) { RoutingTrial(trial, entry).play(); });
}

}  // namespace moelab
