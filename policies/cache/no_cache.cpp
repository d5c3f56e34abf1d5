// No cache: nothing stays once a layer is done. The floor of every plot: each expert used is loaded whole.
#include "policies/cache/cache.hpp"

namespace moelab {
namespace {

class NoCache final : public CachePolicy {
 public:
  explicit NoCache(const CacheShape& shape) : states_(shape.objects, State::M) {}
  std::span<const State> states() const override { return states_; }
  void use(const ExpertUse&) override {}
  double bytes_held() const override { return 0; }

 private:
  std::vector<State> states_;
};

}  // namespace

CachePolicyEntry no_cache_entry() {
  return {.info = {.name = "none",
                   .help = "keeps nothing: every expert is loaded for every use",
                   .source = "the null member of the family"},
          .make = [](const CacheShape& shape, const PolicyParameters&) -> std::unique_ptr<CachePolicy> {
            return std::make_unique<NoCache>(shape);
          }};
}

}  // namespace moelab
