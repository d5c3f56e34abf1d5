// @name@: a cache policy. It keeps the experts that were used last, as many as fit, and lets the one go whose
// last use is longest ago. Change what use() and evict() do to what you have in mind.
#include <moelab/policy/policy_library.hpp>
#include <moelab/policy/single_pool.hpp>

namespace {

// One object manages the experts of a layer, numbered from 0. SinglePool counts places; it keeps every expert
// in full.
class Mine final : public moelab::SinglePool {
 public:
  explicit Mine(const moelab::CacheShape& shape) : SinglePool(shape), last_use_(shape.objects, 0) {}

  // The expert was just used and is in memory: keep it, and let others go for it, or not.
  void use(const moelab::ExpertUse& use) override {
    last_use_[use.object] = ++now_;
    keep(use.object);
  }
  // It was fetched ahead of its use.
  bool insert(std::uint32_t expert) override {
    keep(expert);
    return holds(expert);
  }

 private:
  void keep(std::uint32_t expert) {
    if (holds(expert) || places() == 0) return;
    if (full()) evict();
    take(expert);
  }
  void evict() {
    std::uint32_t oldest = static_cast<std::uint32_t>(last_use_.size());
    for (std::uint32_t expert = 0; expert < last_use_.size(); ++expert)
      if (holds(expert) && (oldest == last_use_.size() || last_use_[expert] < last_use_[oldest]))
        oldest = expert;
    drop(oldest);
  }

  std::vector<std::uint64_t> last_use_;
  std::uint64_t now_ = 0;
};

moelab::CachePolicyEntry mine() {
  return {.info = {.name = "@name@",
                   .help = "the expert whose last use is longest ago leaves first",
                   .source = "mine"},
          .make = [](const moelab::CacheShape& shape, const moelab::PolicyParameters&)
              -> std::unique_ptr<moelab::CachePolicy> { return std::make_unique<Mine>(shape); }};
}

}  // namespace

MOELAB_POLICIES(mine())
