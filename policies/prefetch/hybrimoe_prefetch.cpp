// hybrimoe: impact-driven prefetch (HybriMoE, Zhong et al., DAC 2025, arXiv 2504.05897).
//
//   after the gate of layer l:
//     for each layer m of l+1 .. l+layers: active(m), tokens(m) = its gate, as predicted
//                                          missing(m) = those of active(m) that are not on the GPU
//     repeat: impact(m, e) = makespan(missing(m)) - makespan(missing(m) less e, which is then on the GPU)
//             wish the (m, e) of the largest impact;  take e out of missing(m)
//     until no impact is above 0
//
//   makespan(missing): missing experts are split by the hybrimoe execution policy; the CPU ends after those
//   it was given; the GPU computes what is there, then each loaded expert as it comes over the link; the
//   later of the two.
//
// "Simulates the potential impact of preloading experts from subsequent layers and prioritizes those with the
// higher expected gains" (README of github.com/PKU-SEC-Lab/HybriMoE); the layers are the next three.
//
// Deviations:
// - The system predicts a layer's gate by giving it the hidden state of the running layer. A trace has none:
//   THE RECORDED GATE IS DEGRADED instead (policies/prefetch/gate_predictor.hpp), so that of the experts
//   predicted d layers ahead the share accuracy * falloff^(d-1) is active. No source gives figures. 0.72 is
//   what just this way of predicting reaches one layer ahead on the recorded debian-moe-8x32 (lookahead_ids
//   against expert_ids of its trace); the falloff is an assumption.
// - The published code (KExpertsCache::prefetch_expert) simulates nothing: it fetches the `prefetch_size`
//   experts of the next layer with the highest moving average score. The paper's mechanism is what is here.
// - After each choice the impact of the others is computed anew: experts of a layer make up for each other.
//   How many are fetched is left to the idle time of the link; `fetches` bounds the list.
// - More tokens than the CPU's times are given for (PrefetchShape::cpu_s) count as the most they are given
// for. Ties: the nearer layer, then the higher predicted score, then the lower expert.
#include <algorithm>
#include <cassert>

#include "policies/checked_parameter.hpp"
#include "policies/execution/execution_plan.hpp"
#include "policies/prefetch/gate_predictor.hpp"
#include "policies/prefetch/prefetch.hpp"

namespace moelab {
namespace {

struct HybrimoeLimits {
  std::uint32_t layers;   // ahead
  double accuracy;        // of the nearest
  double falloff;         // from layer to layer
  std::uint32_t fetches;  // after a gate; 0: all
};

class HybrimoePrefetch final : public PrefetchPolicy {
 public:
  HybrimoePrefetch(const PrefetchShape& shape, const HybrimoeLimits& limits)
      : shape_(shape),
        limits_(limits),
        predictor_(shape.seed, 0),
        split_(find_execution_policy("hybrimoe")->make({})),
        layers_(std::min(limits.layers, shape.layers)) {
    double accuracy = limits.accuracy;
    for (LayerAhead& ahead : layers_) {
      ahead.missing.reserve(shape.experts);
      ahead.accuracy = accuracy;
      accuracy *= limits.falloff;
    }
    rest_.reserve(shape.experts);
  }

  void begin_step() override {
    ++step_;
    known_ = 0;
  }
  std::uint32_t gates_ahead() const override { return static_cast<std::uint32_t>(layers_.size()); }

  void gate_ahead(std::uint32_t layer, std::span<const GateAhead> tokens,
                  std::span<const std::uint8_t> resident) override {
    assert(known_ < layers_.size());
    LayerAhead& ahead = layers_[known_++];
    predictor_.predict_layer(step_, layer, tokens, {ahead.accuracy, ahead.accuracy}, predicted_, resident);
    ahead.layer = layer;
    ahead.on_gpu = 0;
    ahead.missing.clear();
    for (const std::uint32_t expert : predicted_.experts) {
      if (resident[expert] != 0)
        ++ahead.on_gpu;
      else
        ahead.missing.push_back(
            {expert, static_cast<float>(predicted_.scores[expert]), timed_tokens(expert)});
    }
    find_best(ahead);
  }

  void after_gate(std::uint32_t, std::span<const ExpertUse>, std::vector<Fetch>& fetches) override {
    for (std::size_t wished = 0; limits_.fetches == 0 || wished < limits_.fetches; ++wished) {
      LayerAhead* best = nullptr;
      for (std::size_t i = 0; i < known_; ++i)
        if (layers_[i].impact > (best == nullptr ? 0 : best->impact)) best = &layers_[i];
      if (best == nullptr) break;
      fetches.push_back({best->layer, best->missing[best->best].expert});
      best->missing.erase(best->missing.begin() + static_cast<std::ptrdiff_t>(best->best));
      ++best->on_gpu;
      find_best(*best);
    }
    known_ = 0;
  }

 private:
  struct LayerAhead {
    double accuracy = 1;
    std::uint32_t layer = 0;
    std::uint32_t on_gpu = 0;            // predicted experts that are there, wished ones included
    std::vector<MissingExpert> missing;  // the others
    std::size_t best = 0;                // of these: the one of the largest impact
    double impact = 0;                   // its impact, seconds
  };

  /// Tokens that name the expert, as far as the CPU's times go.
  std::uint32_t timed_tokens(std::uint32_t expert) const {
    const std::uint32_t tokens = predicted_.tokens[expert];
    return shape_.cpu_s.empty() ? tokens
                                : std::min(tokens, static_cast<std::uint32_t>(shape_.cpu_s.size() - 1));
  }

  /// Experts with as many tokens have the same impact.
  void find_best(LayerAhead& ahead) {
    const std::span<const MissingExpert> missing = ahead.missing;
    ahead.impact = 0;
    ahead.best = 0;
    const double now = makespan(missing, ahead.on_gpu);
    for (std::size_t i = 0; i < missing.size(); ++i) {
      const auto same = [&](const MissingExpert& m) { return m.tokens == missing[i].tokens; };
      if (std::any_of(missing.begin(), missing.begin() + static_cast<std::ptrdiff_t>(i), same)) continue;
      rest_.assign(missing.begin(), missing.end());
      rest_.erase(rest_.begin() + static_cast<std::ptrdiff_t>(i));
      const double impact = now - makespan(rest_, ahead.on_gpu + 1);
      if (impact <= 0) continue;
      for (std::size_t j = i; j < missing.size(); ++j)
        if (same(missing[j]) && (impact > ahead.impact ||
                                 (impact == ahead.impact && precedes(missing[j], missing[ahead.best])))) {
          ahead.impact = impact;
          ahead.best = j;
        }
    }
  }

  static bool precedes(const MissingExpert& a, const MissingExpert& b) {
    return a.score != b.score ? a.score > b.score : a.expert < b.expert;
  }

  double makespan(std::span<const MissingExpert> missing, std::uint32_t on_gpu) {
    double cpu_end = 0;
    std::size_t loads = missing.size();
    if (!shape_.cpu_s.empty()) {
      const ExecutionCosts costs{shape_.load_s, shape_.cpu_s, shape_.gpu_s};
      split_->plan(missing, costs, plan_);
      for (const std::uint32_t position : plan_.cpu) cpu_end += cpu_seconds(costs, missing[position]);
      loads = plan_.loads.size();
    }
    double gpu_end = on_gpu * shape_.gpu_s;
    for (std::size_t i = 0; i < loads; ++i)
      gpu_end = std::max(gpu_end, static_cast<double>(i + 1) * shape_.load_s) + shape_.gpu_s;
    return std::max(cpu_end, gpu_end);
  }

  const PrefetchShape shape_;
  const HybrimoeLimits limits_;
  GatePredictor predictor_;
  const std::unique_ptr<ExecutionPolicy> split_;
  std::vector<LayerAhead> layers_;  // nearest first
  std::size_t known_ = 0;           // of these: how many are known
  std::uint64_t step_ = 0;
  PredictedLayer predicted_;
  std::vector<MissingExpert> rest_;
  ExecutionPlan plan_;
};

PolicyInfo hybrimoe_prefetch_info() {
  return {
      .name = "hybrimoe",
      .help =
          "experts whose presence would shorten the next layers most; their recorded gates degraded "
          "to a given accuracy, not predicted from hidden states",
      .source = "HybriMoE (Zhong et al., DAC 2025, arXiv 2504.05897), impact-driven prefetching",
      .parameters = {
          {.name = "layers",
           .unit = "layers",
           .default_value = 3,
           .low = 0,
           .high = 1e6,
           .help = "how many layers ahead of the running one"},
          {.name = "accuracy",
           .unit = "",
           .default_value = 0.72,
           .low = 0,
           .high = 1,
           .help =
               "share of the experts predicted one layer ahead that is active; measured on debian-moe-8x32"},
          {.name = "falloff",
           .unit = "",
           .default_value = 0.9,
           .low = 0,
           .high = 1,
           .help = "what the accuracy is multiplied by from layer to layer; assumed"},
          {.name = "fetches",
           .unit = "experts",
           .default_value = 0,
           .low = 0,
           .high = 1e9,
           .help = "most experts wished after a gate; 0: all that shorten a layer"}}};
}

std::unique_ptr<PrefetchPolicy> make_hybrimoe_prefetch(const PrefetchShape& shape,
                                                       const PolicyParameters& parameters) {
  const PolicyInfo info = hybrimoe_prefetch_info();
  return std::make_unique<HybrimoePrefetch>(
      shape, HybrimoeLimits{.layers = checked_count(info, parameters, "layers"),
                            .accuracy = checked_parameter(info, parameters, "accuracy"),
                            .falloff = checked_parameter(info, parameters, "falloff"),
                            .fetches = checked_count(info, parameters, "fetches")});
}

}  // namespace

PrefetchPolicyEntry hybrimoe_prefetch_entry() {
  return {.info = hybrimoe_prefetch_info(), .needs_all_scores = true, .make = make_hybrimoe_prefetch};
}

}  // namespace moelab
