// What the model's gate chose, whatever is on the GPU: the family's null member. It looks at no score, so
// every expert counts as top-score.
#include <cassert>

#include "policies/routing/routing.hpp"

namespace moelab {
namespace {

class ModelRouting final : public RoutingPolicy {
 public:
  void route(std::span<const TokenGate> tokens, std::span<const std::uint8_t>,
             StepRouting& routing) override {
    routing.clear();
    for (const TokenGate& token : tokens) {
      assert(token.chosen.size() == tokens.front().chosen.size());
      routing.experts.insert(routing.experts.end(), token.chosen.begin(), token.chosen.end());
      routing.roles.insert(routing.roles.end(), token.chosen.size(), ExpertRole::top);
      routing.tokens.push_back({.top_score = static_cast<std::uint32_t>(token.chosen.size())});
    }
  }
};

}  // namespace

RoutingPolicyEntry model_routing_entry() {
  return {.info = {.name = "model",
                   .help = "the experts that the model's gate chose",
                   .source = "the null member of the family"},
          .make = [](const PolicyParameters&) -> std::unique_ptr<RoutingPolicy> {
            return std::make_unique<ModelRouting>();
          }};
}

}  // namespace moelab
