#include <algorithm>
#include <cmath>

#include "policies/guard/policy_guard.hpp"

namespace moelab {
namespace {

bool among(std::span<const std::uint16_t> experts, std::uint16_t expert) {
  return std::find(experts.begin(), experts.end(), expert) != experts.end();
}

class GuardedRouting final : public RoutingPolicy {
 public:
  GuardedRouting(const RoutingPolicyEntry& entry, const PolicyParameters& parameters,
                 const GuardOptions& options)
      : policy_(made_policy(entry.info, options, [&] { return entry.make(parameters); })),
        guard_(entry.info, options) {}

  void route(std::span<const TokenGate> tokens, std::span<const std::uint8_t> resident,
             StepRouting& routing) override {
    guard_.begin_step();
    guard_.ask([&] { policy_->route(tokens, resident, routing); });
    const std::size_t k = tokens.empty() ? 0 : tokens.front().chosen.size();
    if (routing.experts.size() != tokens.size() * k || routing.roles.size() != tokens.size() * k ||
        routing.tokens.size() != tokens.size())
      guard_.broken("gives " + counted(routing.experts.size(), "expert") + ", " +
                    counted(routing.roles.size(), "role") + " and the counts of " +
                    counted(routing.tokens.size(), "token") + " to " + counted(tokens.size(), "token") +
                    " of " + counted(k, "expert"));
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      const std::span<const std::uint16_t> experts(routing.experts.data() + t * k, k);
      check_experts(t, tokens[t], experts, {routing.roles.data() + t * k, k}, resident.size());
      check_counts(t, tokens[t], experts, {routing.roles.data() + t * k, k}, routing.tokens[t]);
    }
  }

 private:
  [[noreturn]] void broken(std::size_t token, const std::string& rule) const {
    guard_.broken("token " + std::to_string(token) + ": " + rule);
  }

  void check_experts(std::size_t t, const TokenGate& token, std::span<const std::uint16_t> experts,
                     std::span<const ExpertRole> roles, std::size_t all) const {
    for (std::size_t i = 0; i < experts.size(); ++i) {
      const std::string expert = "expert " + std::to_string(experts[i]);
      if (experts[i] >= all) broken(t, "gets " + expert + ", there are " + std::to_string(all));
      if (among(experts.first(i), experts[i])) broken(t, "gets " + expert + " twice");
      if (roles[i] > ExpertRole::substitute)
        broken(t, expert + " has role number " + std::to_string(static_cast<unsigned>(roles[i])));
      const bool kept = experts[i] == token.chosen[i];
      if (roles[i] != ExpertRole::substitute && !kept)
        broken(t, expert + " takes the place of expert " + std::to_string(token.chosen[i]) +
                      ", and is not called a substitute");
      if (roles[i] == ExpertRole::substitute && among(token.chosen, experts[i]))
        broken(t, expert + " is called a substitute, and is the model's own choice");
    }
  }

  void check_counts(std::size_t t, const TokenGate& token, std::span<const std::uint16_t> experts,
                    std::span<const ExpertRole> roles, const TokenRouting& counts) const {
    TokenRouting found;
    for (std::size_t i = 0; i < roles.size(); ++i) {
      ++(roles[i] == ExpertRole::top ? found.top_score : found.low_score);
      if (roles[i] != ExpertRole::substitute) continue;
      ++found.substituted;
      if (!token.scores.empty())
        found.mass_moved +=
            std::abs(double{token.scores[token.chosen[i]]} - double{token.scores[experts[i]]});
    }
    if (counts.top_score != found.top_score || counts.low_score != found.low_score ||
        counts.substituted != found.substituted)
      broken(t, "counts " + text_of(counts) + ", its roles are " + text_of(found));
    constexpr double kFloats = 1e-5;  // scores are floats, and may be added up as such
    if (!std::isfinite(counts.mass_moved) || counts.mass_moved < 0 ||
        (!token.scores.empty() &&
         std::abs(counts.mass_moved - found.mass_moved) > kFloats * (1 + found.mass_moved)))
      broken(t, "says that substitutions move a score of " + std::to_string(counts.mass_moved) +
                    ", they move " + std::to_string(found.mass_moved));
  }
  static std::string text_of(const TokenRouting& counts) {
    return std::to_string(counts.top_score) + " top, " + std::to_string(counts.low_score) + " low and " +
           std::to_string(counts.substituted) + " substituted";
  }

  std::unique_ptr<RoutingPolicy> policy_;
  PolicyGuard guard_;
};

}  // namespace

std::unique_ptr<RoutingPolicy> make_routing_policy(const RoutingPolicyEntry& entry,
                                                   const PolicyParameters& parameters,
                                                   const GuardOptions& options) {
  if (!is_guarded(entry.info, options)) return entry.make(parameters);
  return std::make_unique<GuardedRouting>(entry, parameters, options);
}

}  // namespace moelab
