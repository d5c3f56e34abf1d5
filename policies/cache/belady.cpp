// Belady's MIN, the offline optimum: the expert whose next use lies farthest ahead leaves (Belady: A study of
// replacement algorithms for a virtual-storage computer, IBM Systems Journal 5(2), 1966). Sees the future, so
// it is the ceiling of every plot, for hits that all cost the same.
//
//   use(o):    next(o) = its next use; on a miss, if full, the farthest one leaves; o comes in.
//   insert(o): taken when there is a free place or when o's next use, as last told, is nearer than the
//              farthest held one's, which then leaves.
//
// Farthest first: experts never used again (kNeverUsedAgain); then those *due now*, see below; then by next
// use, latest first. Ties: the smallest object number leaves first.
//
// Due now: a layer step looks up all its experts first and reports them one by one afterwards. A held expert
// that this same step has used but not reported yet has had its hit already and comes back, full, when its
// report comes; keeping its place until then buys nothing. The step number is taken from next(o) of reported
// experts seen before (it came true just now) and counted by begin_step() between them. Textbook MIN lacks
// this rule and is not optimal for steps of several experts.
//
// Parameter `bypass`: 0 (default), demand paging: every expert used takes a place, so only policies of that
// kind are compared with their optimum; 1, an expert farther than all the held ones is not kept, the optimum
// over all policies, also those that refuse experts (zipmoe, none). O(places) a miss.
#include <algorithm>

#include "policies/cache/cache.hpp"
#include "policies/cache/single_pool.hpp"

namespace moelab {
namespace {

class Belady final : public SinglePool {
 public:
  Belady(const CacheShape& shape, bool bypass)
      : SinglePool(shape), bypass_(bypass), next_(shape.objects, kNeverUsedAgain) {
    kept_.reserve(places());
  }

  void begin_step(const CacheStep&) override {
    if (step_has_uses_) ++now_;
    step_has_uses_ = false;
  }
  void use(const ExpertUse& use) override {
    step_has_uses_ = true;
    if (next_[use.object] != kNeverUsedAgain) now_ = next_[use.object];
    next_[use.object] = use.next_use;
    if (!holds(use.object)) admit(use.object, !bypass_);
  }
  bool insert(std::uint32_t object) override {
    if (!holds(object)) admit(object, false);
    return holds(object);
  }

 private:
  /// How far ahead a use lies, for comparing only.
  std::uint64_t distance(std::uint32_t object) const {
    if (next_[object] == kNeverUsedAgain) return kNeverUsedAgain;
    return next_[object] <= now_ ? kNeverUsedAgain - 1 : next_[object];
  }
  bool leaves_before(std::uint32_t a, std::uint32_t b) const {
    const std::uint64_t da = distance(a), db = distance(b);
    return da != db ? da > db : a < b;
  }
  void admit(std::uint32_t object, bool always) {
    if (places() == 0) return;
    if (!full()) {
      kept_.push_back(object);
    } else {
      const auto victim =
          std::min_element(kept_.begin(), kept_.end(),
                           [this](std::uint32_t a, std::uint32_t b) { return leaves_before(a, b); });
      if (!always && distance(object) >= distance(*victim)) return;
      drop(*victim);
      *victim = object;
    }
    take(object);
  }

  bool bypass_;
  bool step_has_uses_ = false;
  std::uint64_t now_ = 0;            // number of the step being reported, as far as known
  std::vector<std::uint64_t> next_;  // by object, as last told
  std::vector<std::uint32_t> kept_;  // in no order
};

PolicyInfo belady_info() {
  return {.name = "belady",
          .help = "the expert whose next use lies farthest ahead leaves (knows the future)",
          .source = "Belady 1966",
          .parameters = {{"bypass", "", 0, 0, 1, "1: an expert farther than all held ones is not kept"}}};
}

}  // namespace

CachePolicyEntry belady_cache_entry() {
  return {
      .info = belady_info(),
      .needs_future = true,
      .make = [](const CacheShape& shape, const PolicyParameters& values) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<Belady>(shape, parameter(belady_info(), values, "bypass") != 0);
      }};
}

}  // namespace moelab
