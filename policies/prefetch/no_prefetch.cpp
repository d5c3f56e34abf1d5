// No prefetch: every missing expert is loaded on demand. The floor of the family.
#include "policies/prefetch/prefetch.hpp"

namespace moelab {
namespace {

class NoPrefetch final : public PrefetchPolicy {
 public:
  void after_gate(std::uint32_t, std::span<const ExpertUse>, std::vector<Fetch>&) override {}
};

}  // namespace

PrefetchPolicyEntry no_prefetch_entry() {
  return {.info = {.name = "none", .help = "fetch nothing ahead of its gate", .source = "baseline"},
          .make = [](const PrefetchShape&, const PolicyParameters&) -> std::unique_ptr<PrefetchPolicy> {
            return std::make_unique<NoPrefetch>();
          }};
}

}  // namespace moelab
