// Greedy-Dual-Size-Frequency: LFU that forgets, by a level that rises with every eviction. (Cherkasova:
// Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching policy, HP Labs report HPL-98-69,
// 1998; its level and order of steps from GreedyDual-Size, Cao and Irani: Cost-aware WWW proxy caching
// algorithms, USITS 1997.)
//
//   priority(o) = L + count(o) x cost(o) / size(o), L = 0 at first
//
//   use(o):    hit: count(o) += 1. Miss: if full, the held expert of the lowest priority leaves and L becomes
//              that priority; o comes in, count(o) = 1. Either way o's priority is set anew, with L as it is.
//   insert(o): as a miss. The first use of an expert that came so is the one that it was fetched for: its
//              count is then that of one use. One already held keeps its priority.
//
// Ties: the one touched least recently leaves. A domain's experts have one size and cost the same to bring
// in: cost / size is one factor of all priorities, left out here, which orders them alike whatever it is. So
// what remains of the rule is LFU with dynamic ageing (LFU-DA). With `count_tokens` a use counts as
// the tokens that it served, as many as a miss holds up, in place of 1. O(log places).
#include "policies/cache/cache.hpp"
#include "policies/cache/eviction_heap.hpp"
#include "policies/cache/single_pool.hpp"
#include "policies/checked_parameter.hpp"

namespace moelab {
namespace {

class Gdsf final : public SinglePool {
 public:
  Gdsf(const CacheShape& shape, bool count_tokens)
      : SinglePool(shape),
        count_tokens_(count_tokens),
        count_(shape.objects),
        priority_(shape.objects),
        fetched_(shape.objects, false),
        by_priority_(shape.objects) {}

  void use(const ExpertUse& use) override {
    if (!holds(use.object) && !admit(use.object)) return;
    if (fetched_[use.object]) count_[use.object] = 0;
    fetched_[use.object] = false;
    count_[use.object] += count_tokens_ ? use.tokens : 1;
    rank(use.object);
  }
  bool insert(std::uint32_t object) override {
    if (holds(object)) return true;
    if (!admit(object)) return false;
    fetched_[object] = true;
    count_[object] = 1;
    rank(object);
    return true;
  }

 private:
  bool admit(std::uint32_t object) {
    if (places() == 0) return false;
    if (full()) {
      const std::uint32_t victim = by_priority_.front();
      level_ = priority_[victim];
      by_priority_.erase(victim);
      drop(victim);
    }
    take(object);
    count_[object] = 0;
    fetched_[object] = false;
    return true;
  }
  void rank(std::uint32_t object) {
    priority_[object] = level_ + count_[object];
    by_priority_.set(object, {priority_[object], ++clock_});
  }

  bool count_tokens_;
  std::uint64_t level_ = 0;              // L
  std::uint64_t clock_ = 0;              // uses and prefetches
  std::vector<std::uint64_t> count_;     // [objects], of the held ones
  std::vector<std::uint64_t> priority_;  // [objects], of the held ones
  std::vector<bool> fetched_;            // [objects]: prefetched and not used since
  EvictionHeap by_priority_;             // the held ones
};

PolicyInfo gdsf_info() {
  return {.name = "gdsf",
          .help = "frequency above a level that rises with every eviction: LFU that forgets",
          .source = "Cherkasova 1998 (HPL-98-69); Cao and Irani, USITS 1997",
          .parameters = {
              {"count_tokens", "", 0, 0, 1, "1: a use counts as the tokens that it served; 0: as one"}}};
}

}  // namespace

CachePolicyEntry gdsf_entry() {
  return {
      .info = gdsf_info(),
      .may_span_model = true,
      .make = [](const CacheShape& shape, const PolicyParameters& values) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<Gdsf>(shape, checked_count(gdsf_info(), values, "count_tokens") != 0);
      }};
}

}  // namespace moelab
