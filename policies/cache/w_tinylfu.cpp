// W-TinyLFU: new experts pass through a small LRU window; the one that it lets go takes the place of the main
// part's next victim only where it was used more often of late. (Einziger, Friedman, Manes: TinyLFU: a highly
// efficient cache admission policy, ACM Transactions on Storage 13(4), 2017, sections 3 and 4; the segments
// as in Caffeine, its authors' library.)
//
// The main part is a segmented LRU: probation, and protected for those that were used there.
//
//   use(o):    count(o) = min(count(o) + 1, sample). After every `sample` x places uses all counts, and the
//              number of uses so far, are halved (the paper's reset).
//              hit: in the window or protected, o becomes the newest there; in probation, the newest of
//              protected, whose oldest, if that is one too many, becomes the newest of probation.
//              miss: o becomes the newest of the window. If that is one too many, its oldest becomes the
//              newest of probation, and, if the cache was full, of this one and probation's oldest the one
//              with the lower count leaves, the newcomer where they are equal. Where all of the main part
//              is protected (protected: 1) no other is in probation, and the newcomer leaves.
//   insert(o): as a miss that is not counted; one already held keeps its place.
//
// The main part has floor((1 - window) x places), protected floor(protected x those). The paper's sketch
// estimates counts of more objects than could be counted; experts are few, so counts are exact. They end at
// W / C = `sample`, as its section 3.4 has it (Caffeine's at 15). O(1), and O(objects) at each reset.
#include <algorithm>
#include <cmath>

#include "policies/cache/cache.hpp"
#include "policies/cache/object_lists.hpp"
#include "policies/cache/single_pool.hpp"
#include "policies/checked_parameter.hpp"

namespace moelab {
namespace {

class WTinyLfu final : public SinglePool {
 public:
  WTinyLfu(const CacheShape& shape, double window, double protects, std::uint32_t sample)
      : SinglePool(shape),
        window_places_(places() - floor_share(1 - window, places())),
        protected_places_(floor_share(protects, places() - window_places_)),
        sample_(sample),
        lists_(shape.objects, 3),
        count_(shape.objects) {}

  void use(const ExpertUse& use) override {
    count(use.object);
    if (!holds(use.object)) return admit(use.object);
    if (lists_.list_of(use.object) == kWindow) return lists_.move_newest(kWindow, use.object);
    lists_.move_newest(kProtected, use.object);
    if (lists_.size(kProtected) > protected_places_)
      lists_.move_newest(kProbation, lists_.oldest(kProtected));
  }
  bool insert(std::uint32_t object) override {
    if (!holds(object)) admit(object);
    return holds(object);
  }

 private:
  static constexpr std::uint32_t kWindow = 0, kProbation = 1, kProtected = 2;

  /// A product such as 0.99 * 100 may come out a little below the whole number it is.
  static std::uint32_t floor_share(double share, std::uint32_t places) {
    return static_cast<std::uint32_t>(std::floor(share * places + 1e-9));
  }

  void count(std::uint32_t object) {
    if (places() == 0) return;
    count_[object] = std::min(count_[object] + 1, sample_);
    if (++counted_ < std::uint64_t{sample_} * places()) return;
    for (std::uint32_t& c : count_) c /= 2;
    counted_ /= 2;
  }
  void admit(std::uint32_t object) {
    if (places() == 0) return;
    lists_.move_newest(kWindow, object);
    if (lists_.size(kWindow) > window_places_) {
      const std::uint32_t newcomer = lists_.oldest(kWindow);
      lists_.move_newest(kProbation, newcomer);
      if (full()) {
        const std::uint32_t oldest = lists_.oldest(kProbation);
        const std::uint32_t loser = count_[newcomer] > count_[oldest] ? oldest : newcomer;
        lists_.remove(loser);
        if (loser == object) return;  // without a window, the expert itself is refused
        drop(loser);
      }
    }
    take(object);
  }

  std::uint32_t window_places_, protected_places_;
  std::uint32_t sample_;       // uses a place until the reset
  std::uint64_t counted_ = 0;  // uses since the reset, and half of those before
  ObjectLists lists_;
  std::vector<std::uint32_t> count_;
};

PolicyInfo w_tinylfu_info() {
  return {.name = "w-tinylfu",
          .help = "a small window of new experts; past it, those used more often of late stay",
          .source = "TinyLFU (ACM TOS 2017), sections 3 and 4; Caffeine",
          .parameters = {{"window", "", 0.01, 0, 1, "share of the places that the window has"},
                         {"protected", "", 0.8, 0, 1, "share of the others that is for experts used there"},
                         {"sample", "", 10, 1, 1000, "uses a place after which counts are halved"}}};
}

}  // namespace

CachePolicyEntry w_tinylfu_entry() {
  return {
      .info = w_tinylfu_info(),
      .may_span_model = true,
      .make = [](const CacheShape& shape, const PolicyParameters& values) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<WTinyLfu>(shape, checked_parameter(w_tinylfu_info(), values, "window"),
                                          checked_parameter(w_tinylfu_info(), values, "protected"),
                                          checked_count(w_tinylfu_info(), values, "sample"));
      }};
}

}  // namespace moelab
