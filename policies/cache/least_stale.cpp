// Least-Stale: one pool for the whole model, whose layers run one after the other, pass by pass; an expert of
// an earlier pass that this one has gone past leaves first, and those that this pass touched stay longest.
// (Hoang, Jaiswal, Samragh, Cho: SpecMD: A comprehensive study on speculative expert prefetching, 2026, arXiv
// 2602.03921.)
//
// An expert is touched when it is used or prefetched. It is current where that was in the running pass, else
// stale. Its layer lies behind once its uses in this pass are known or a later layer runs, else ahead. A pass
// ends with the uses of the last layer, or where a step is of a layer that lies behind. Who leaves:
//
//   1. stale, behind: no step can use it before the next pass
//   2. stale, ahead: used by an earlier pass where this one still comes
//   3. current, behind: used in this pass
//   4. current, ahead: prefetched for this pass
//
// and of one kind the one touched longest ago, which within a pass is in the order of the layers (FIFO).
//
//   use_all(uses): those that are held are touched, so that none leaves for another of its step; then all
//                  are, in order, and one that is not held comes in, where it is full for the first to leave.
//   insert(o):     o is touched, or comes in, in the same way.
//
// What this stands on: the paper's abstract, by which MoE's accesses have no temporal locality but an order
// that can be foretold, which Least-Stale uses against collisions. The rule was read in accounts of the paper
// alone, which differ; that of tinyserve (github.com/e1n00r/tinyserve, cache_policy.py) has stale before
// current and FIFO within both. Behind before ahead is this file's choice: by last touch alone stale ones
// leave before current ones under LRU too, and the rule would be LRU. The abstract's cache, 5 % of OLMoE, is
// less than a pass uses, 8 of 64 experts a layer; in one of several passes' experts the first layers, behind
// all others, are left with the fewest. O(layers) an eviction.
#include <cassert>
#include <tuple>

#include "policies/cache/cache.hpp"
#include "policies/cache/object_lists.hpp"
#include "policies/cache/single_pool.hpp"

namespace moelab {
namespace {

class LeastStale final : public SinglePool {
 public:
  explicit LeastStale(const CacheShape& shape)
      : SinglePool(shape),
        layers_(shape.layers),
        experts_(shape.objects / shape.layers),
        by_touch_(shape.objects, shape.layers),
        touched_(shape.objects) {}

  void begin_step(const CacheStep& step) override {
    assert(step.layer < layers_);
    if (step.layer < behind_) pass_began_ = clock_;
    layer_ = behind_ = step.layer;
  }
  void use(const ExpertUse& use) override { use_all({&use, 1}); }
  void use_all(std::span<const ExpertUse> uses) override {
    behind_ = layer_ + 1;
    for (const ExpertUse& use : uses)
      if (holds(use.object)) touch(use.object);
    for (const ExpertUse& use : uses) insert(use.object);
    if (behind_ < layers_) return;
    behind_ = 0;
    pass_began_ = clock_;
  }
  bool insert(std::uint32_t object) override {
    if (places() == 0) return false;
    if (!holds(object)) {
      if (full()) evict(first_to_leave());
      take(object);
    }
    touch(object);
    return true;
  }

 private:
  using Rank = std::tuple<bool, bool, std::uint64_t>;  // current, ahead, touched

  Rank rank(std::uint32_t object) const {
    return {touched_[object] > pass_began_, object / experts_ >= behind_, touched_[object]};
  }
  /// A layer's first to leave is the one touched first.
  std::uint32_t first_to_leave() const {
    std::uint32_t first = ObjectLists::kNone;
    for (std::uint32_t layer = 0; layer < layers_; ++layer) {
      if (by_touch_.size(layer) == 0) continue;
      const std::uint32_t oldest = by_touch_.oldest(layer);
      if (first == ObjectLists::kNone || rank(oldest) < rank(first)) first = oldest;
    }
    return first;
  }
  void evict(std::uint32_t victim) {
    by_touch_.remove(victim);
    drop(victim);
  }
  void touch(std::uint32_t object) {
    touched_[object] = ++clock_;
    by_touch_.move_newest(object / experts_, object);
  }

  std::uint32_t layers_, experts_;      // experts a layer
  std::uint32_t layer_ = 0;             // of the step
  std::uint32_t behind_ = 0;            // layers that lie behind: the first ones
  std::uint64_t clock_ = 0;             // touches
  std::uint64_t pass_began_ = 0;        // clock_ then, of the running one
  ObjectLists by_touch_;                // the held ones, a list a layer
  std::vector<std::uint64_t> touched_;  // [objects]: clock_ of the last touch
};

}  // namespace

CachePolicyEntry least_stale_entry() {
  return {
      .info = {.name = "least-stale",
               .help = "experts of earlier passes leave first, those of layers already passed before others",
               .source = "SpecMD (Hoang et al. 2026, arXiv 2602.03921), by its abstract and accounts of it"},
      .per_model = true,
      .make = [](const CacheShape& shape, const PolicyParameters&) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<LeastStale>(shape);
      }};
}

}  // namespace moelab
