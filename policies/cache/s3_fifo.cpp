// S3-FIFO: new experts pass through a small queue S, from which those used again move to the main queue M;
// the others leave, and a ghost queue G remembers their names. (Yang, Zhang, Qiu, Yue, Rashmi: FIFO queues
// are all you need for cache eviction, SOSP 2023, Algorithm 1.)
//
//   use(o):    hit: freq(o) = min(freq(o) + 1, 3); it keeps its place.
//              miss: while the cache is full, evict; then o, with freq 0, becomes the newest of M if its name
//              is in G, else of S.
//   evict:     from S where S holds its share or more, else from M.
//   from S:    oldest to newest: one with freq > 1 (`threshold` - 1) becomes the newest of M with freq 0,
//              and M, if that is more than its share, evicts one; the first other one leaves, and its name
//              becomes the newest of G.
//   from M:    oldest to newest: one with freq > 0 becomes the newest with freq one less; the first other one
//              leaves.
//   insert(o): as a miss. A prefetch is not a use: one already held keeps place and freq, and the first
//              use of a prefetched expert leaves freq at 0, as the use that a miss brings in does.
//
// S has `small` of the places, rounded up, at least one; M the others; G as many names as M has places. A
// name leaves G when its expert comes back, or first in first out. As in the paper, one eviction from S may
// let go of experts of both queues. Amortized O(1).
#include <algorithm>
#include <cmath>

#include "policies/cache/cache.hpp"
#include "policies/cache/object_lists.hpp"
#include "policies/cache/single_pool.hpp"
#include "policies/checked_parameter.hpp"

namespace moelab {
namespace {

class S3Fifo final : public SinglePool {
 public:
  S3Fifo(const CacheShape& shape, double small, std::uint32_t threshold)
      : SinglePool(shape),
        small_places_(small_share(small, places())),
        threshold_(threshold),
        queues_(shape.objects, 3),
        uses_(shape.objects, 0),
        awaits_use_(shape.objects, false) {}

  void use(const ExpertUse& use) override {
    if (!holds(use.object)) return admit(use.object);
    if (!awaits_use_[use.object])
      uses_[use.object] = static_cast<std::uint8_t>(std::min(uses_[use.object] + 1, kMostUses));
    awaits_use_[use.object] = false;
  }
  bool insert(std::uint32_t object) override {
    if (!holds(object)) {
      admit(object);
      awaits_use_[object] = holds(object);
    }
    return holds(object);
  }

 private:
  static constexpr std::uint32_t kSmall = 0, kMain = 1, kGhost = 2;
  static constexpr int kMostUses = 3;  // two bits

  /// A product such as 0.1 * 70 may come out a little above the whole number it is.
  static std::uint32_t small_share(double small, std::uint32_t places) {
    return std::max(1U, static_cast<std::uint32_t>(std::ceil(small * places - 1e-9)));
  }
  std::uint32_t main_places() const { return places() - std::min(small_places_, places()); }

  void admit(std::uint32_t object) {
    if (places() == 0) return;
    while (full()) evict();
    queues_.move_newest(queues_.list_of(object) == kGhost ? kMain : kSmall, object);
    take(object);
    uses_[object] = 0;
    awaits_use_[object] = false;
  }
  void evict() {
    if (queues_.size(kSmall) >= small_places_)
      evict_from_small();
    else
      evict_from_main();
  }
  void evict_from_small() {
    for (bool evicted = false; !evicted && queues_.size(kSmall) > 0;) {
      const std::uint32_t oldest = queues_.oldest(kSmall);
      if (uses_[oldest] >= threshold_) {
        queues_.move_newest(kMain, oldest);
        uses_[oldest] = 0;
        if (queues_.size(kMain) > main_places()) evict_from_main();
      } else {
        remember(oldest);
        drop(oldest);
        evicted = true;
      }
    }
  }
  void evict_from_main() {
    while (queues_.size(kMain) > 0) {
      const std::uint32_t oldest = queues_.oldest(kMain);
      if (uses_[oldest] == 0) {
        queues_.remove(oldest);
        drop(oldest);
        return;
      }
      --uses_[oldest];
      queues_.move_newest(kMain, oldest);
    }
  }
  void remember(std::uint32_t object) {
    queues_.move_newest(kGhost, object);
    if (queues_.size(kGhost) > main_places()) queues_.remove(queues_.oldest(kGhost));
  }

  std::uint32_t small_places_;
  std::uint32_t threshold_;
  ObjectLists queues_;
  std::vector<std::uint8_t> uses_;  // since it came, or moved to M: the paper's freq
  std::vector<bool> awaits_use_;    // prefetched and not used since
};

PolicyInfo s3_fifo_info() {
  return {.name = "s3-fifo",
          .help = "three queues: experts not used again soon leave from the small one",
          .source = "S3-FIFO (SOSP 2023), Algorithm 1",
          .parameters = {{"small", "", 0.1, 0, 1, "share of the places that the small queue has"},
                         {"threshold", "", 2, 1, 3,
                          "uses after its first that move an expert from the small queue to the main one"}}};
}

}  // namespace

CachePolicyEntry s3_fifo_entry() {
  return {
      .info = s3_fifo_info(),
      .may_span_model = true,
      .make = [](const CacheShape& shape, const PolicyParameters& values) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<S3Fifo>(shape, checked_parameter(s3_fifo_info(), values, "small"),
                                        checked_count(s3_fifo_info(), values, "threshold"));
      }};
}

}  // namespace moelab
