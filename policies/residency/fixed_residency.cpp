// fixed: experts stay where they were put. The family's null member: vLLM, vLLM-O, FluxMoE-H, and FluxMoE
// with "fixed alpha" (section 6.3). The KV cache has what is left, so nothing is checked against it here.
#include "policies/residency/residency.hpp"

namespace moelab {
namespace {

class FixedResidency final : public ResidencyPolicy {
 public:
  bool adjust(const ResidencyState&, StorageSplit&) override { return false; }
};

}  // namespace

ResidencyPolicyEntry fixed_residency_entry() {
  return {.info = {.name = "fixed",
                   .help = "experts stay where they were put",
                   .source = "the null member of the family; FluxMoE section 6.3"},
          .make = [](const PolicyParameters&) -> std::unique_ptr<ResidencyPolicy> {
            return std::make_unique<FixedResidency>();
          }};
}

}  // namespace moelab
