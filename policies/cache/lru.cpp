// LRU: the expert used least recently leaves first.
//
//   use(o):    o becomes the most recent; on a miss, if full, the least recent one leaves.
//   insert(o): as a miss (a prefetched expert is about to be used, so it comes in as the most recent); one
//              already held keeps its place, since a prefetch is not a use.
//
// O(1).
#include "policies/cache/cache.hpp"
#include "policies/cache/object_lists.hpp"
#include "policies/cache/single_pool.hpp"

namespace moelab {
namespace {

class Lru final : public SinglePool {
 public:
  explicit Lru(const CacheShape& shape) : SinglePool(shape), held_(shape.objects, 1) {}

  void use(const ExpertUse& use) override {
    if (!holds(use.object)) return admit(use.object);
    held_.move_newest(kAll, use.object);
  }
  bool insert(std::uint32_t object) override {
    if (!holds(object)) admit(object);
    return holds(object);
  }

 private:
  static constexpr std::uint32_t kAll = 0;

  void admit(std::uint32_t object) {
    if (places() == 0) return;
    if (full()) {
      const std::uint32_t victim = held_.oldest(kAll);
      held_.remove(victim);
      drop(victim);
    }
    take(object);
    held_.move_newest(kAll, object);
  }

  ObjectLists held_;  // one: by last use
};

}  // namespace

CachePolicyEntry lru_cache_entry() {
  return {.info = {.name = "lru",
                   .help = "the expert used least recently leaves first",
                   .source = "classic; a baseline of ZipMoE, section 5"},
          .may_span_model = true,
          .make = [](const CacheShape& shape, const PolicyParameters&) -> std::unique_ptr<CachePolicy> {
            return std::make_unique<Lru>(shape);
          }};
}

}  // namespace moelab
