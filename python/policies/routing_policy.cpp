// moelab.RoutingPolicy. Classes and scores that moved are counted here, from the roles.
#include <cmath>

#include "policies/guard/policy_error.hpp"
#include "python/policies/families.hpp"

namespace moelab {
namespace {

class PythonRouting final : public RoutingPolicy {
 public:
  PythonRouting(const PythonPolicy& type, const PolicyParameters& parameters) {
    in_python([&] { route_ = Held(type.make(parameters).attr("route")); });
  }

  void route(std::span<const TokenGate> tokens, std::span<const std::uint8_t> resident,
             StepRouting& routing) override {
    routing.clear();
    if (tokens.empty()) return;
    const std::size_t k = tokens.front().chosen.size();
    gather(tokens);
    in_python([&] {
      const nb::object chosen = new_array<std::uint16_t>(chosen_, {tokens.size(), k});
      const nb::object scores = new_array<float>(scores_, {tokens.size(), tokens.front().scores.size()});
      const nb::object experts = new_array<std::uint16_t>(chosen_, {tokens.size(), k}, true);
      const nb::object roles = new_array<std::uint8_t>(tops_, {tokens.size(), k}, true);
      route_.get()(chosen, scores, flags_in_python(resident), experts, roles);
      const auto filled = nb::cast<nb::ndarray<const std::uint16_t, nb::c_contig>>(experts);
      routing.experts.assign(filled.data(), filled.data() + filled.size());
      const auto filled_roles = nb::cast<nb::ndarray<const std::uint8_t, nb::c_contig>>(roles);
      for (std::size_t i = 0; i < filled_roles.size(); ++i)
        routing.roles.push_back(static_cast<ExpertRole>(filled_roles.data()[i]));
    });
    for (std::size_t t = 0; t < tokens.size(); ++t) count(tokens[t], t * k, routing);
  }

 private:
  void gather(std::span<const TokenGate> tokens) {
    chosen_.clear();
    scores_.clear();
    for (const TokenGate& token : tokens) {
      chosen_.insert(chosen_.end(), token.chosen.begin(), token.chosen.end());
      scores_.insert(scores_.end(), token.scores.begin(), token.scores.end());
    }
    tops_.assign(chosen_.size(), static_cast<std::uint8_t>(ExpertRole::top));
  }

  /// What the guard finds out of range is left out.
  static void count(const TokenGate& token, std::size_t first, StepRouting& routing) {
    TokenRouting counts;
    for (std::size_t i = 0; i < token.chosen.size(); ++i) {
      const ExpertRole role = routing.roles[first + i];
      ++(role == ExpertRole::top ? counts.top_score : counts.low_score);
      const std::uint16_t expert = routing.experts[first + i];
      if (role != ExpertRole::substitute) continue;
      ++counts.substituted;
      if (expert < token.scores.size())
        counts.mass_moved += std::abs(double{token.scores[token.chosen[i]]} - double{token.scores[expert]});
    }
    routing.tokens.push_back(counts);
  }

  Held route_;
  std::vector<std::uint16_t> chosen_;
  std::vector<float> scores_;
  std::vector<std::uint8_t> tops_;
};

}  // namespace

RoutingPolicyEntry routing_entry(const PythonPolicy& type) {
  return {.info = type.info,
          .needs_all_scores = true,
          .make = [&type](const PolicyParameters& parameters) -> std::unique_ptr<RoutingPolicy> {
            return std::make_unique<PythonRouting>(type, parameters);
          }};
}

}  // namespace moelab
