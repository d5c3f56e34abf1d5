// smoe: the expert-cache router of SMoE (Zhu et al., Enabling MoE on the Edge via Importance-Driven Expert
// Scheduling, arXiv 2508.18983, section IV-B, Algorithm 1).
//
//   for each token t, with S(k+1) the (k+1)-th highest score of all experts:
//     L = S(k+1), T = (1 + alpha) L, R = (1 - alpha) L
//     B_t = low-score experts: chosen, L <= score < T;  the rest of the chosen are top-score and join C
//   for each token t, once C, the top-score experts of all tokens, is known:
//     B'_t = those of B_t neither on the GPU nor in C
//     A_t  = experts not chosen, R <= score <= L, on the GPU or in C
//     n = min(|B'_t|, |A_t|): the n lowest-scored of B'_t give way to the n best-scored of A_t
//
// alpha: expert substitution threshold; A, B, C: the paper's E_s, E_l and E_a \ E_l.
//
// The listing and the text of IV-B differ; where they do, the text is followed:
// - The listing lets substitutes take the place of every low-score expert, on the GPU or not. The text
//   replaces only those that are neither on the GPU nor in the top-score set, |E_l \ G| of them.
// - The listing fills C as it goes through the tokens, so that a token sees the top-score experts of earlier
//   tokens only. The text speaks of the set of all tokens: here a first pass.
// - `Add A_t to E[t]` and `return E`: E is nowhere defined. Both are O, the result.
// Thresholds and ties:
// - The listing's B_t (L <= score < T) takes in the (k+1)-th expert itself, which was not chosen, and its
//   A_t (score < L) leaves it out: the token would get an expert too many. Section IV-A has it the other way
//   round (E_s: score <= S(k+1)) and is followed: B_t is drawn from the chosen, A_t from the others. A chosen
//   expert with just S(k+1) is low-score, as in the listing.
// - A score of just T is in no set of the listing, and the token would lose that expert. It is top-score.
// - A score of just R is a substitute's (the listing; IV-A is strict).
// - Equal scores: of B_t the one that the model listed later gives way first, of A_t the lower number serves
//   first. Substitutes take the positions of those they replace, the best-scored first in both.
// Where the paper says nothing:
// - No (k+1)-th expert (k = experts): every expert is top-score. Likewise where S(k+1) <= 0, which no softmax
//   or sigmoid gives, since no score then lies in [L, T).
// - A gate that does not go by score alone (groups, correction bias) may choose an expert below S(k+1). It is
//   kept and counted as top-score: the model wanted it in spite of its score.
// - Weights: a substitute counts with its own score, and a model that normalises the weights of its k experts
//   does so over those it got. Nothing here depends on weights; mass_moved is in scores as the trace has
//   them.
// `substitute` 0 sorts experts into classes by alpha and replaces none: misses by class of a system without
// this router (the paper's Fig. 15).
#include <algorithm>
#include <cassert>
#include <cmath>

#include "policies/checked_parameter.hpp"
#include "policies/routing/routing.hpp"
#include "policies/routing/score_classes.hpp"

namespace moelab {
namespace {

class SmoeRouting final : public RoutingPolicy {
 public:
  SmoeRouting(double alpha, bool substitutes) : alpha_(alpha), substitutes_(substitutes) {}

  void route(std::span<const TokenGate> tokens, std::span<const std::uint8_t> resident,
             StepRouting& routing) override {
    routing.clear();
    at_hand_.assign(resident.begin(), resident.end());
    bounds_.clear();
    for (const TokenGate& token : tokens) {
      assert(token.chosen.size() == tokens.front().chosen.size());
      assert(token.scores.size() == resident.size() && token.chosen.size() <= resident.size());
      classify(token, routing);
    }
    if (!substitutes_) return;
    for (std::size_t t = 0; t < tokens.size(); ++t) substitute(tokens[t], t, routing);
  }

 private:
  struct Scored {
    double score;
    std::uint32_t number;  // a position of the token, or an expert
  };

  static bool better(const Scored& a, const Scored& b) {
    return a.score != b.score ? a.score > b.score : a.number < b.number;
  }

  /// Appends the model's choice with its classes. The top-score experts of the step will be computed
  /// whatever happens: they are as good as on the GPU for every token.
  void classify(const TokenGate& token, StepRouting& routing) {
    const ScoreBounds bound = score_bounds(token.scores, token.chosen.size(), alpha_, ordered_);
    TokenRouting counts;
    for (const std::uint16_t expert : token.chosen) {
      const double score = token.scores[expert];
      assert(!std::isnan(score));
      const bool low = bound.is_low(score);
      ++(low ? counts.low_score : counts.top_score);
      if (!low) at_hand_[expert] = 1;
      routing.experts.push_back(expert);
      routing.roles.push_back(low ? ExpertRole::low : ExpertRole::top);
    }
    routing.tokens.push_back(counts);
    bounds_.push_back(bound);
  }

  void substitute(const TokenGate& token, std::size_t t, StepRouting& routing) {
    const std::size_t first = t * token.chosen.size();
    missing_.clear();  // B'_t
    for (std::uint32_t i = 0; i < token.chosen.size(); ++i)
      if (routing.roles[first + i] == ExpertRole::low && at_hand_[token.chosen[i]] == 0)
        missing_.push_back({token.scores[token.chosen[i]], i});
    if (missing_.empty()) return;
    find_candidates(token, bounds_[t]);
    const std::size_t n = std::min(missing_.size(), candidates_.size());
    const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(n);
    std::partial_sort(candidates_.begin(), end, candidates_.end(), better);
    std::sort(missing_.begin(), missing_.end(), better);
    for (std::size_t i = 0; i < n; ++i) {
      const Scored& leaves = missing_[missing_.size() - n + i];
      routing.experts[first + leaves.number] = static_cast<std::uint16_t>(candidates_[i].number);
      routing.roles[first + leaves.number] = ExpertRole::substitute;
      routing.tokens[t].mass_moved += std::abs(leaves.score - candidates_[i].score);
    }
    routing.tokens[t].substituted = static_cast<std::uint32_t>(n);
  }

  void find_candidates(const TokenGate& token, const ScoreBounds& bound) {  // A_t
    candidates_.clear();
    for (std::uint32_t expert = 0; expert < token.scores.size(); ++expert) {
      const double score = token.scores[expert];
      if (at_hand_[expert] == 0 || score < bound.low || score > bound.next) continue;
      if (std::find(token.chosen.begin(), token.chosen.end(), expert) == token.chosen.end())
        candidates_.push_back({score, expert});
    }
  }

  const double alpha_;
  const bool substitutes_;
  std::vector<std::uint8_t> at_hand_;  // [experts] on the GPU or in C
  std::vector<ScoreBounds> bounds_;    // [tokens]
  std::vector<float> ordered_;
  std::vector<Scored> missing_, candidates_;
};

PolicyInfo smoe_routing_info() {
  return {.name = "smoe",
          .help = "low-score experts that are not on the GPU give way to ones of like score that are",
          .source = "SMoE (Zhu et al. 2025, arXiv 2508.18983), section IV-B, Algorithm 1",
          .parameters = {{.name = "alpha",
                          .unit = "",
                          .default_value = 0.3,
                          .low = 0,
                          .high = 0.999999,
                          .help = "how far from the (k+1)-th score experts stand in for each other; below 1"},
                         {.name = "substitute",
                          .unit = "",
                          .default_value = 1,
                          .low = 0,
                          .high = 1,
                          .help = "0: experts are sorted into top-score and low-score, none is replaced"}}};
}

std::unique_ptr<RoutingPolicy> make_smoe_routing(const PolicyParameters& parameters) {
  const PolicyInfo info = smoe_routing_info();
  return std::make_unique<SmoeRouting>(checked_parameter(info, parameters, "alpha"),
                                       checked_count(info, parameters, "substitute") != 0);
}

}  // namespace

RoutingPolicyEntry smoe_routing_entry() {
  return {.info = smoe_routing_info(), .needs_all_scores = true, .make = make_smoe_routing};
}

}  // namespace moelab
