// Of the windowed stage what goes by the numbers of experts: what a layer's gate chose, what of that is
// there, what has to come, and what policies that pin experts learn of it.
#include <algorithm>
#include <numeric>

#include "sim/scenario.hpp"
#include "sim/serving/windowed_stage.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

using engine::OpIndex;

// What a gate will choose is not known ahead of it: what most steps have used so far comes first, of equals
// the smaller number.
void WindowedStage::load_by_use(std::uint32_t moe_layer) {
  if (fetches_->holds(moe_layer)) return;
  for (std::size_t gpu = 0; gpu < order_.size(); ++gpu) {
    std::vector<std::uint32_t>& order = order_[gpu];
    order.resize(experts_.experts());
    std::iota(order.begin(), order.end(), 0U);
    const std::uint64_t* const used =
        used_.data() + std::size_t{moe_layer} * trace_.experts() + experts_.first(gpu);
    std::stable_sort(order.begin(), order.end(),
                     [used](std::uint32_t a, std::uint32_t b) { return used[a] > used[b]; });
  }
  fetches_->begin(residency_.split(), moe_layer, order_);
}

void WindowedStage::submit_behind_gate(std::size_t layer) {
  begin_graph();
  route(layer);
  add_experts(layer);
  add_collective(times_.all_reduce());
  engine_.submit(layer_.graph, engine::kDemand);
}

void WindowedStage::route(std::size_t layer) {
  const auto moe_layer = static_cast<std::uint32_t>(moe_numbers_[layer]);
  if (gates_) gates_->read(pass_, moe_layer);
  if (routing_) {
    find_at_hand(moe_layer);
    routing_->route(gates_->tokens(), at_hand_, step_routing_);
    uses_ = layer_uses_.collect(gates_->tokens(), step_routing_);
    times_.reroute(pass_, layer, uses_);
    if (!pass_.prompt) count_routing();
  } else {
    uses_ = layer_uses_.collect(trace_, pass_, moe_layer);
  }
  experts_.begin_layer(pass_, moe_layer, gates_ ? gates_->summed() : std::span<const float>());
  for (const ExpertUse& use : uses_) count_use(moe_layer, use);
}

// Experts that are pinned, stored as they compute, or have come.
void WindowedStage::find_at_hand(std::uint32_t moe_layer) {
  at_hand_.assign(trace_.experts(), 1);
  for (std::size_t gpu = 0; gpu < times_.gpus(); ++gpu)
    for (std::uint32_t expert = 0; expert < experts_.experts(); ++expert)
      if (!experts_.plain(residency_.split(), gpu, moe_layer, expert) &&
          !(fetches_ && fetches_->arrived(moe_layer, gpu, expert)))
        at_hand_[experts_.first(gpu) + expert] = 0;
}

void WindowedStage::count_routing() {
  RoutingCounts& counts = metrics_.routing;
  for (const TokenRouting& token : step_routing_.tokens) {
    counts.active += token.top_score + token.low_score;
    counts.top_score += token.top_score;
    counts.low_score += token.low_score;
    counts.substituted += token.substituted;
    counts.mass_moved += token.mass_moved;
  }
  for (const TokenGate& token : gates_->tokens())
    for (const std::uint16_t expert : token.chosen) counts.score_sum += token.scores[expert];
}

void WindowedStage::count_use(std::uint32_t moe_layer, const ExpertUse& use) {
  const std::size_t gpu = experts_.divided() ? use.object / experts_.experts() : 0;
  const std::uint32_t expert = use.object - experts_.first(gpu);
  const State found = experts_.plain(residency_.split(), gpu, moe_layer, expert) ? State::F : State::M;
  ++metrics_.hits[index(found)];
  if (pass_.prompt) return;
  ++metrics_.decode_hits[index(found)];
  ++metrics_.layers.hits[index(found)][moe_layer];
  if (!routing_ || at_hand_[use.object] != 0) return;
  ++(layer_uses_.low_score(use.object) ? metrics_.routing.low_score_misses
                                       : metrics_.routing.top_score_misses);
}

// Of a GPU's experts those that the layer uses.
void WindowedStage::choose(std::size_t gpu) {
  chosen_.assign(experts_.experts(), 0);
  for (const ExpertUse& use : uses_)
    if (use.object >= experts_.first(gpu) && use.object < experts_.first(gpu) + experts_.experts())
      chosen_[use.object - experts_.first(gpu)] = 1;
}

// What the gate chose and has not come is waited for.
void WindowedStage::add_waits(std::size_t gpu) {
  awaited_.clear();
  fetches_->settle(layer_.layer, gpu, chosen_, awaited_);
  for (engine::Graph* const fetch : awaited_) {
    layer_.graph.depend_on(experts_ops_[gpu], *fetch);
    waits_.push_back({experts_ops_[gpu], fetch});
  }
}

// What the gate chose and is not there is loaded now.
void WindowedStage::add_demand(std::size_t gpu) {
  const StorageSplit& split = residency_.split();
  const double bytes = split.shape().expert_bytes / static_cast<double>(times_.gpus());
  ServingCounts& counts = metrics_.serving;
  for (std::uint32_t expert = 0; expert < experts_.experts(); ++expert) {
    if (chosen_[expert] == 0 || experts_.plain(split, gpu, layer_.layer, expert)) continue;
    const std::size_t backend = experts_.backend(split, gpu, layer_.layer, expert);
    const bool on_ssd = plan_.on_ssd[backend];
    const ExpertFetch fetch{backend, on_ssd && experts_.read(gpu, layer_.layer, expert),
                            experts_.first(gpu) + expert};
    const OpIndex last =
        add_fetch(layer_, fetch, plan_, resources_, gpu, timing_, static_cast<int>(scenario_.gpus()));
    if (last != engine::kNoOp) layer_.graph.depend(experts_ops_[gpu], last);
    (plan_.codecs[backend] != nullptr ? counts.decoded_bytes : counts.loaded_bytes) += bytes;
    if (on_ssd) (fetch.cached ? counts.page_cache_bytes : counts.ssd_bytes) += bytes;
  }
}

void WindowedStage::learn_uses() {
  const auto moe_layer = static_cast<std::uint32_t>(moe_numbers_[static_cast<std::size_t>(model_layer_)]);
  for (const ExpertUse& use : uses_) ++used_[std::size_t{moe_layer} * trace_.experts() + use.object];
  experts_.use(residency_.split(), moe_layer, uses_);
}

}  // namespace moelab
