// eplb: copies of the experts with most load, packed so that GPUs have equal load (Expert Parallelism Load
// Balancer of DeepSeek-V3, github.com/deepseek-ai/EPLB, its global policy).
//
//   each layer, with as many copies as it has slots (load: counts on all servers):
//     replicate_experts: every expert one copy; each further slot to the expert of most load a copy
//     balanced_packing: copies by load, greatest first; each to the GPU of least load that has a slot left
//
// On equal GPUs with more than one slot a layer this is the published algorithm, but for these.
// - GPUs may differ: each shares out its slots over the layers alike (slots.hpp: slots_by_layer).
// - A GPU holds no expert twice, which would serve nothing: an expert has at most one copy a GPU with slots
// in
//   the layer, and a copy goes to the best GPU without it. Where all such are full the copy is left out.
// - copies > 1: every expert starts with as many, and goes to servers without it until it is on so many; what
//   misses one gets its place as in coverage.hpp.
// It balances load over GPUs and does not ask on which server the load arises, as Prism's section IV-B notes.
#include <algorithm>
#include <queue>

#include "policies/placement/coverage.hpp"
#include "policies/placement/placement.hpp"
#include "policies/placement/slots.hpp"

namespace moelab {
namespace {

using LoadOf = std::pair<double, std::uint32_t>;  // ties: the first index

struct LessLoad {  // for a queue whose top has most load
  bool operator()(const LoadOf& a, const LoadOf& b) const {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  }
};

class LayerBalance {
 public:
  LayerBalance(const PlacementShape& shape, std::uint32_t layer, std::vector<double> load,
               const std::vector<std::uint32_t>& slots, Placement& placement)
      : shape_(shape), layer_(layer), load_(std::move(load)), placement_(placement) {
    for (std::uint32_t gpu = 0; gpu < placement.gpus(); ++gpu) {
      slots_.push_back(slots[std::size_t{gpu} * shape.layers + layer]);
      if (slots_[gpu] > 0) gpus_.emplace(0.0, gpu);
    }
  }

  void run() {
    const std::vector<std::uint32_t> copies = replicate_experts();
    std::vector<double> loads;
    for (const std::uint32_t expert : copies) loads.push_back(load_[expert]);  // of one copy by now
    for (const std::uint32_t copy : by_descending(loads)) pack(copies[copy]);
  }

 private:
  /// Experts by copy, in the order in which they were made. Leaves in load_ the load of one copy.
  std::vector<std::uint32_t> replicate_experts() {
    const std::uint32_t most = static_cast<std::uint32_t>(gpus_.size());
    std::uint64_t slots = 0;
    for (const std::uint32_t of_gpu : slots_) slots += of_gpu;
    std::vector<std::uint32_t> result, count(shape_.experts, std::min(shape_.copies, most));
    std::priority_queue<LoadOf, std::vector<LoadOf>, LessLoad> by_load;
    for (std::uint32_t expert = 0; expert < shape_.experts; ++expert) {
      result.insert(result.end(), count[expert], expert);
      if (count[expert] < most) by_load.emplace(load_[expert] / count[expert], expert);
    }
    while (result.size() < slots && !by_load.empty()) {
      const std::uint32_t expert = by_load.top().second;
      by_load.pop();
      result.push_back(expert);
      if (++count[expert] < most) by_load.emplace(load_[expert] / count[expert], expert);
    }
    for (std::uint32_t expert = 0; expert < shape_.experts; ++expert) load_[expert] /= count[expert];
    return result;
  }

  bool may_hold(std::uint32_t gpu, std::uint32_t expert) const {
    if (placement_.copies(layer_, expert) < shape_.copies)
      return !placement_.on_server(placement_.server_of(gpu), layer_, expert);
    return !placement_.on_gpu(gpu, layer_, expert);
  }

  // Copies of one expert mostly come one after another: GPUs that cannot take it stay aside until another
  // expert comes, or until the expert is on enough servers and may come to other GPUs of theirs.
  void pack(std::uint32_t expert) {
    if (expert != aside_for_ || placement_.copies(layer_, expert) == shape_.copies) bring_back();
    aside_for_ = expert;
    while (!gpus_.empty() && !may_hold(gpus_.top().second, expert)) {
      aside_.push_back(gpus_.top());
      gpus_.pop();
    }
    if (gpus_.empty()) return;
    const auto [load, gpu] = gpus_.top();
    gpus_.pop();
    placement_.place(gpu, layer_, expert);
    if (--slots_[gpu] > 0) aside_.emplace_back(load + load_[expert], gpu);
  }

  void bring_back() {
    for (const LoadOf& gpu : aside_) gpus_.push(gpu);
    aside_.clear();
  }

  const PlacementShape& shape_;
  const std::uint32_t layer_;
  std::vector<double> load_;  // [experts]
  Placement& placement_;
  std::vector<std::uint32_t> slots_;                                             // [gpus], left in the layer
  std::priority_queue<LoadOf, std::vector<LoadOf>, std::greater<LoadOf>> gpus_;  // least load first
  std::vector<LoadOf> aside_;  // GPUs with slots that are not among them for now
  std::uint32_t aside_for_ = 0;
};

Placement place_eplb(const PlacementShape& shape, const ActivationCounts& counts, const PolicyParameters&) {
  check_placement_shape(shape);
  check_activation_counts(shape, counts);
  const std::vector<std::uint32_t> slots = slots_by_layer(gpu_slots(shape), shape.layers);
  Placement placement(shape);
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer)
    LayerBalance(shape, layer, layer_load(counts, layer), slots, placement).run();
  cover(shape, counts, placement);
  return placement;
}

}  // namespace

PlacementPolicyEntry eplb_entry() {
  return {.info = {.name = "eplb",
                   .help = "copies of the most loaded experts, packed for GPUs of equal load",
                   .source = "DeepSeek-V3's EPLB, github.com/deepseek-ai/EPLB, its global policy"},
          .place = place_eplb};
}

}  // namespace moelab
