// Laws fitted to published figures, and the rule that says what a model's are of which none are published.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "traces/law/published_figures.hpp"

namespace moelab {

struct FiguresFit {
  LawTerms terms;
  std::vector<double> drawn;  // values of the model's figures that requests drawn from the law have
};

/// The terms whose law comes nearest to the figures: least squares of (drawn - published) / within. The
/// figures of the mean layers of a stack of few are taken for the model's.
FiguresFit fit_terms(const ModelFigures& model, std::uint64_t seed);

/// The rule: each term is a sum of what shapes differ in times coefficients of its own, by least squares over
/// models. Terms are in the ranges that a law takes, whatever the shape.
struct RoutingRule {
  static constexpr std::size_t kFeatures = 3;  // 1, top_k / experts, RoutingShape::apart
  std::array<double, kFeatures> bias{}, prompt{}, spans{};

  LawTerms terms(const RoutingShape& shape) const;
};
/// Throws InputError where the shapes are too few or too alike to tell the coefficients.
RoutingRule fit_rule(const std::vector<RoutingShape>& shapes, const std::vector<LawTerms>& terms);

/// What the rule says of a model that it was not fitted to.
struct LeftOut {
  ModelFigures model;                   // with the figures that count for the rule
  LawTerms fitted, by_rule;             // to the model's own figures; of the rule that all others give
  std::vector<double> drawn;            // the model's figures, of requests drawn by that rule
  std::array<double, 3> own{}, rule{};  // LRU's hit rates with places for 25, 50 and 75 % of the experts
  /// Largest difference of those two.
  double worst() const;
};

/// The rule of the models of which `in_rule` is said, and for each model what the rule of the others makes of
/// it.
struct RuleTest {
  RoutingRule rule;
  std::vector<LeftOut> left_out;
};
RuleTest leave_one_out(const PublishedRouting& published, std::uint64_t seed,
                       const std::function<void(const std::string& model)>& progress = {});

/// The law of a model's published figures, for configs/laws; `points` are those that its figures of LRU are
/// missed by, at least one.
RoutingLaw law_of_figures(const PublishedRouting& published, const ModelFigures& model, std::uint64_t seed);

}  // namespace moelab
