// @name@: a routing policy. A token's last choice, where it is not on the GPU, is replaced by the best-scored
// expert there that the token does not have yet, if its score is at least `part` of the other's.
#include <moelab/policy/checked_parameter.hpp>
#include <moelab/policy/policy_library.hpp>

#include <algorithm>
#include <cmath>

namespace {

moelab::PolicyInfo info() {
  return {.name = "@name@",
          .help = "the last choice gives way to an expert on the GPU that scores nearly as well",
          .source = "mine",
          .parameters = {{.name = "part",
                          .unit = "",
                          .default_value = 0.5,
                          .low = 0,
                          .high = 1,
                          .help = "of the replaced expert's score, that the substitute must have"}}};
}

class Mine final : public moelab::RoutingPolicy {
 public:
  explicit Mine(double part) : part_(part) {}

  void route(std::span<const moelab::TokenGate> tokens, std::span<const std::uint8_t> resident,
             moelab::StepRouting& routing) override {
    routing.clear();
    for (const moelab::TokenGate& token : tokens) {
      routing.experts.insert(routing.experts.end(), token.chosen.begin(), token.chosen.end());
      routing.roles.insert(routing.roles.end(), token.chosen.size(), moelab::ExpertRole::top);
      routing.tokens.push_back({.top_score = static_cast<std::uint32_t>(token.chosen.size())});
      const std::uint16_t last = token.chosen.back();
      if (resident[last] == 0) replace(token, last, resident, routing);
    }
  }

 private:
  void replace(const moelab::TokenGate& token, std::uint16_t last, std::span<const std::uint8_t> resident,
               moelab::StepRouting& routing) const {
    moelab::TokenRouting& said = routing.tokens.back();
    --said.top_score;
    ++said.low_score;
    routing.roles.back() = moelab::ExpertRole::low;
    std::size_t best = token.scores.size();
    for (std::size_t expert = 0; expert < token.scores.size(); ++expert)
      if (resident[expert] != 0 &&
          std::find(token.chosen.begin(), token.chosen.end(), expert) == token.chosen.end() &&
          (best == token.scores.size() || token.scores[expert] > token.scores[best]))
        best = expert;
    if (best == token.scores.size() || token.scores[best] < part_ * token.scores[last]) return;
    said.substituted = 1;
    said.mass_moved = std::abs(token.scores[last] - token.scores[best]);
    routing.experts.back() = static_cast<std::uint16_t>(best);
    routing.roles.back() = moelab::ExpertRole::substitute;
  }

  double part_;
};

moelab::RoutingPolicyEntry mine() {
  return {.info = info(),
          .needs_all_scores = true,
          .make = [](const moelab::PolicyParameters& parameters) -> std::unique_ptr<moelab::RoutingPolicy> {
            return std::make_unique<Mine>(moelab::checked_parameter(info(), parameters, "part"));
          }};
}

}  // namespace

MOELAB_POLICIES(mine())
