// LFU: the expert used least often leaves first; among equals, the one touched (used or brought in) least
// recently.
//
//   use(o):    count(o) += 1; on a miss, if full, the held expert with the smallest count leaves.
//   insert(o): as a miss, but the count stays as it is; one already held keeps its place.
//
// A use is one layer step, however many tokens it serves. Parameter `forget`: 0, counts are kept for all
// experts since the start ("perfect" LFU); 1, an expert that leaves loses its count ("in-cache" LFU).
// O(log places).
#include "policies/cache/cache.hpp"
#include "policies/cache/eviction_heap.hpp"
#include "policies/cache/single_pool.hpp"
#include "policies/checked_parameter.hpp"

namespace moelab {
namespace {

class Lfu final : public SinglePool {
 public:
  Lfu(const CacheShape& shape, bool forget)
      : SinglePool(shape), forget_(forget), count_(shape.objects), by_worth_(shape.objects) {}

  void use(const ExpertUse& use) override {
    ++count_[use.object];
    if (holds(use.object)) return touch(use.object);
    admit(use.object);
  }
  bool insert(std::uint32_t object) override {
    if (!holds(object)) admit(object);
    return holds(object);
  }

 private:
  void admit(std::uint32_t object) {
    if (places() == 0) return;
    if (full()) evict(by_worth_.front());
    take(object);
    touch(object);
  }
  void evict(std::uint32_t victim) {
    by_worth_.erase(victim);
    drop(victim);
    if (forget_) count_[victim] = 0;
  }
  void touch(std::uint32_t object) { by_worth_.set(object, {count_[object], ++clock_}); }

  bool forget_;
  std::uint64_t clock_ = 0;
  std::vector<std::uint64_t> count_;
  EvictionHeap by_worth_;  // the held ones
};

PolicyInfo lfu_info() {
  return {.name = "lfu",
          .help = "the expert used least often leaves first; among equals the least recent",
          .source = "classic",
          .parameters = {{"forget", "", 0, 0, 1,
                          "1: an expert that leaves loses its count; 0: counts are kept for all"}}};
}

}  // namespace

CachePolicyEntry lfu_cache_entry() {
  return {
      .info = lfu_info(),
      .may_span_model = true,
      .make = [](const CacheShape& shape, const PolicyParameters& values) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<Lfu>(shape, checked_count(lfu_info(), values, "forget") != 0);
      }};
}

}  // namespace moelab
