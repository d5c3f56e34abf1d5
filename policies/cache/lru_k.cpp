// LRU-K: the expert whose k-th last use lies farthest back leaves first. (O'Neil, O'Neil, Weikum: The LRU-K
// page replacement algorithm for database disk buffering, SIGMOD 1993, Figure 2.1.)
//
//   use(o):    the time of this use becomes the first of o's last k; on a miss, if full, the held
//              expert whose k-th last use is the earliest leaves. One that was not used k times is before all
//              that were; among such ones the one touched (used or brought in) least recently leaves (the
//              paper's subsidiary policy, classical LRU).
//   insert(o): as a miss, but its times stay as they are; one already held keeps its place.
//
// A use is one layer step, however many tokens it serves, so the uses of one moment are one already: the
// paper's Correlated Reference Period is 0. Times of experts that left are kept (Retained Information Period:
// no end). k = 1 is LRU. O(k + log places).
#include <algorithm>

#include "policies/cache/cache.hpp"
#include "policies/cache/eviction_heap.hpp"
#include "policies/cache/single_pool.hpp"
#include "policies/checked_parameter.hpp"

namespace moelab {
namespace {

class LruK final : public SinglePool {
 public:
  LruK(const CacheShape& shape, std::uint32_t k)
      : SinglePool(shape), k_(k), times_(std::size_t{k} * shape.objects), by_worth_(shape.objects) {}

  void use(const ExpertUse& use) override {
    const auto first = times_.begin() + static_cast<std::ptrdiff_t>(std::size_t{k_} * use.object);
    std::shift_right(first, first + k_, 1);
    *first = ++clock_;
    if (holds(use.object))
      touch(use.object);
    else
      admit(use.object);
  }
  bool insert(std::uint32_t object) override {
    ++clock_;
    if (!holds(object)) admit(object);
    return holds(object);
  }

 private:
  void admit(std::uint32_t object) {
    if (places() == 0) return;
    if (full()) {
      const std::uint32_t victim = by_worth_.front();
      by_worth_.erase(victim);
      drop(victim);
    }
    take(object);
    touch(object);
  }
  void touch(std::uint32_t object) {
    by_worth_.set(object, {times_[std::size_t{k_} * object + k_ - 1], clock_});
  }

  std::uint32_t k_;
  std::uint64_t clock_ = 0;
  std::vector<std::uint64_t> times_;  // [objects][k] of its last uses, latest first; 0: there was none
  EvictionHeap by_worth_;             // the held ones, by the k-th last use
};

PolicyInfo lru_k_info() {
  return {.name = "lru-k",
          .help = "the expert whose k-th last use lies farthest back leaves first",
          .source = "LRU-K (SIGMOD 1993), Figure 2.1",
          .parameters = {{"k", "", 2, 1, 64, "uses that are looked back; 1 is lru"}}};
}

}  // namespace

CachePolicyEntry lru_k_entry() {
  return {
      .info = lru_k_info(),
      .may_span_model = true,
      .make = [](const CacheShape& shape, const PolicyParameters& values) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<LruK>(shape, checked_count(lru_k_info(), values, "k"));
      }};
}

}  // namespace moelab
