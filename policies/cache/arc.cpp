// ARC: two lists of held experts, T1 of those used once lately and T2 of those used more often, whose shares
// follow what would have been hits. (Megiddo, Modha: ARC: a self-tuning, low overhead replacement cache, FAST
// 2003, Figure 4.)
//
// B1 and B2 hold the names of experts that left T1 and T2. p, from 0 to c, is the share of the c places that
// T1 should have; all four lists are in order of their last move, and the least recent leaves first.
//
//   use(o):    I:   in T1 or T2 (hit): o becomes the newest of T2.
//              II:  in B1: p = min(c, p + max(1, |B2| / |B1|)), replace, o becomes the newest of T2.
//              III: in B2: p = max(0, p - max(1, |B1| / |B2|)), replace, o becomes the newest of T2.
//              IV:  in none. If |T1| + |B1| = c: B1's oldest name is forgotten and one is replaced, or,
//                   where B1 is empty, T1's oldest leaves and is forgotten. Else, if all four have c or more:
//                   where they have 2c, B2's oldest name is forgotten; one is replaced. o becomes the newest
//                   of T1.
//   replace:   T1's oldest leaves for B1 where |T1| > p, or |T1| = p and o is in B2; else T2's oldest for B2.
//   insert(o): as a miss. A prefetch is not a use: one already held keeps its place, and the first use of a
//              prefetched expert that was in no list makes it the newest of T1, not of T2.
//
// One is replaced only where the cache is full, and T2 is not empty where replace asks for its oldest: names
// are remembered only once c experts came, and |T1| + |B1| <= c (the paper's invariants). O(1).
#include <algorithm>
#include <cassert>

#include "policies/cache/cache.hpp"
#include "policies/cache/object_lists.hpp"
#include "policies/cache/single_pool.hpp"

namespace moelab {
namespace {

class Arc final : public SinglePool {
 public:
  explicit Arc(const CacheShape& shape)
      : SinglePool(shape), lists_(shape.objects, 4), awaits_use_(shape.objects, false) {}

  void use(const ExpertUse& use) override {
    if (!holds(use.object)) return admit(use.object);
    lists_.move_newest(awaits_use_[use.object] ? kOnce : kOften, use.object);
    awaits_use_[use.object] = false;
  }
  bool insert(std::uint32_t object) override {
    if (!holds(object)) {
      admit(object);
      awaits_use_[object] = holds(object) && lists_.list_of(object) == kOnce;
    }
    return holds(object);
  }

 private:
  // T1, T2, B1, B2
  static constexpr std::uint32_t kOnce = 0, kOften = 1, kLeftOnce = 2, kLeftOften = 3;

  double size(std::uint32_t list) const { return lists_.size(list); }

  void admit(std::uint32_t object) {
    if (places() == 0) return;
    const std::uint32_t remembered = lists_.list_of(object);
    if (remembered == kLeftOnce)
      once_share_ =
          std::min<double>(places(), once_share_ + std::max(1.0, size(kLeftOften) / size(kLeftOnce)));
    else if (remembered == kLeftOften)
      once_share_ = std::max(0.0, once_share_ - std::max(1.0, size(kLeftOnce) / size(kLeftOften)));
    if (remembered == ObjectLists::kNone)
      make_room();
    else
      replace(remembered == kLeftOften);
    lists_.move_newest(remembered == ObjectLists::kNone ? kOnce : kOften, object);
    take(object);
    awaits_use_[object] = false;
  }
  /// Case IV.
  void make_room() {
    const std::uint32_t all =
        lists_.size(kOnce) + lists_.size(kOften) + lists_.size(kLeftOnce) + lists_.size(kLeftOften);
    if (lists_.size(kOnce) + lists_.size(kLeftOnce) == places()) {
      if (lists_.size(kLeftOnce) > 0) {
        lists_.remove(lists_.oldest(kLeftOnce));
        replace(false);
      } else {
        const std::uint32_t victim = lists_.oldest(kOnce);
        lists_.remove(victim);
        drop(victim);
      }
    } else if (all >= places()) {
      if (all == 2 * places()) lists_.remove(lists_.oldest(kLeftOften));
      replace(false);
    }
  }
  /// One of T1 or T2, which are full, leaves.
  void replace(bool comes_from_often) {
    assert(full());
    const bool once = lists_.size(kOnce) > 0 &&
                      (size(kOnce) > once_share_ || (comes_from_often && size(kOnce) == once_share_));
    const std::uint32_t victim = lists_.oldest(once ? kOnce : kOften);
    lists_.move_newest(once ? kLeftOnce : kLeftOften, victim);
    drop(victim);
  }

  double once_share_ = 0;  // p, in places
  ObjectLists lists_;
  std::vector<bool> awaits_use_;  // prefetched, in T1, and not used since
};

}  // namespace

CachePolicyEntry arc_entry() {
  return {.info = {.name = "arc",
                   .help = "experts used once and used often, with shares that follow recent misses",
                   .source = "ARC (FAST 2003), Figure 4"},
          .may_span_model = true,
          .make = [](const CacheShape& shape, const PolicyParameters&) -> std::unique_ptr<CachePolicy> {
            return std::make_unique<Arc>(shape);
          }};
}

}  // namespace moelab
