#include "traces/law/figures_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>

#include "models/input_error.hpp"

namespace moelab {
namespace {

constexpr std::uint32_t kFitLayers = 6;  // spread over the depth
constexpr int kTermRounds = 12;
constexpr double kTermStep = 0.05;  // of a term, for differences: well above the noise of the draws
constexpr double kDamping = 1e-3;   // Levenberg's, of the sum of squares' curvature
constexpr std::size_t kTerms = 3;

using Terms = std::array<double, kTerms>;

LawTerms as_terms(const Terms& x) {
  return {.bias = x[0], .prompt = x[1], .spans = x[2]};
}

/// Into what a law takes: a bias of some size, weights that leave some noise.
Terms clipped(Terms x) {
  x[0] = std::clamp(x[0], 0.0, 3.0);
  x[1] = std::clamp(x[1], 0.0, 0.9);
  x[2] = std::clamp(x[2], 0.0, 0.95 - x[1]);
  return x;
}

/// Solves a x = b for a symmetric positive matrix of few rows by elimination.
std::vector<double> solved(std::vector<std::vector<double>> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t r = i + 1; r < n; ++r) {
      const double part = a[r][i] / a[i][i];
      for (std::size_t c = i; c < n; ++c) a[r][c] -= part * a[i][c];
      b[r] -= part * b[i];
    }
  std::vector<double> x(n);
  for (std::size_t i = n; i-- > 0;) {
    x[i] = b[i];
    for (std::size_t c = i + 1; c < n; ++c) x[i] -= a[i][c] * x[c];
    x[i] /= a[i][i];
  }
  return x;
}

/// The model's residuals, by figure, in what is to be reached.
class Residuals {
 public:
  Residuals(const ModelFigures& model, std::uint64_t seed) : model_(model), seed_(seed) {
    shape_ = model.shape;
    shape_.layers = std::min(shape_.layers, kFitLayers);
    shape_.encoder_layers = 0;
  }
  std::vector<double> drawn(const Terms& x) const {
    return drawn_figures(law_of_terms(shape_, as_terms(x)), model_.figures, seed_);
  }
  std::vector<double> of(const Terms& x) const {
    std::vector<double> r = drawn(x);
    for (std::size_t i = 0; i < r.size(); ++i)
      r[i] = (r[i] - model_.figures[i].value) / model_.figures[i].within;
    return r;
  }

 private:
  const ModelFigures& model_;
  RoutingShape shape_;
  std::uint64_t seed_;
};

double squares(const std::vector<double>& r) {
  double sum = 0;
  for (const double x : r) sum += x * x;
  return sum;
}

/// One step of Levenberg and Marquardt from x, whose residuals are r.
Terms stepped(const Residuals& residuals, const Terms& x, const std::vector<double>& r, double damping) {
  std::vector<std::vector<double>> slopes;
  for (std::size_t j = 0; j < kTerms; ++j) {
    Terms there = x;
    there[j] += kTermStep;
    there = clipped(there);
    if (std::abs(there[j] - x[j]) < kTermStep / 2) {
      there = x;
      there[j] -= kTermStep;
    }
    std::vector<double> slope = residuals.of(there);
    for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = (slope[i] - r[i]) / (there[j] - x[j]);
    slopes.push_back(std::move(slope));
  }
  std::vector<std::vector<double>> a(kTerms, std::vector<double>(kTerms));
  std::vector<double> b(kTerms);
  for (std::size_t j = 0; j < kTerms; ++j) {
    for (std::size_t m = 0; m < kTerms; ++m)
      for (std::size_t i = 0; i < r.size(); ++i) a[j][m] += slopes[j][i] * slopes[m][i];
    for (std::size_t i = 0; i < r.size(); ++i) b[j] -= slopes[j][i] * r[i];
  }
  for (std::size_t j = 0; j < kTerms; ++j) a[j][j] += damping * a[j][j] + 1e-6;
  const std::vector<double> move = solved(a, b);
  Terms next = x;
  for (std::size_t j = 0; j < kTerms; ++j) next[j] += std::clamp(move[j], -0.3, 0.3);
  return clipped(next);
}

}  // namespace

FiguresFit fit_terms(const ModelFigures& model, std::uint64_t seed) {
  const Residuals residuals(model, seed);
  Terms x = {0.4, 0.15, 0.3};
  std::vector<double> r = residuals.of(x);
  double damping = kDamping;
  for (int round = 0; round < kTermRounds; ++round) {
    const Terms next = stepped(residuals, x, r, damping);
    const std::vector<double> there = residuals.of(next);
    const double before = squares(r), after = squares(there);
    if (after < before) {
      x = next;
      r = there;
      damping = std::max(damping / 4, 1e-6);
      if (before - after < 1e-3 * before) break;
    } else {
      damping = std::max(damping, 1e-2) * 10;
      if (damping > 1e4) break;
    }
  }
  return {as_terms(x), residuals.drawn(x)};
}

namespace {

std::array<double, RoutingRule::kFeatures> rule_features(const RoutingShape& shape) {
  return {1, static_cast<double>(shape.top_k) / shape.experts, shape.apart};
}

double sum_of(const std::array<double, RoutingRule::kFeatures>& coefficients, const RoutingShape& shape) {
  const auto f = rule_features(shape);
  double sum = 0;
  for (std::size_t i = 0; i < f.size(); ++i) sum += coefficients[i] * f[i];
  return sum;
}

std::array<double, RoutingRule::kFeatures> regression(const std::vector<RoutingShape>& shapes,
                                                      const std::vector<double>& values) {
  constexpr std::size_t n = RoutingRule::kFeatures;
  std::vector<std::vector<double>> a(n, std::vector<double>(n));
  std::vector<double> b(n);
  for (std::size_t m = 0; m < shapes.size(); ++m) {
    const auto f = rule_features(shapes[m]);
    for (std::size_t i = 0; i < n; ++i) {
      b[i] += f[i] * values[m];
      for (std::size_t j = 0; j < n; ++j) a[i][j] += f[i] * f[j];
    }
  }
  const std::vector<double> x = solved(a, b);
  std::array<double, n> coefficients{};
  std::copy(x.begin(), x.end(), coefficients.begin());
  return coefficients;
}

/// LRU's hit rates with places for a quarter, a half and three quarters, of requests of 256 tokens.
std::array<double, 3> lru_of(RoutingShape shape, const LawTerms& terms, std::uint64_t seed) {
  shape.layers = std::min(shape.layers, kFitLayers);
  std::vector<PublishedFigure> figures(3);
  for (std::size_t i = 0; i < figures.size(); ++i) {
    figures[i].kind = FigureKind::lru;
    figures[i].places = 0.25 * static_cast<double>(i + 1);
    figures[i].tokens = 256;
    figures[i].cold = false;
  }
  const std::vector<double> values = drawn_figures(law_of_terms(shape, terms), figures, seed);
  return {values[0], values[1], values[2]};
}

std::vector<double> figures_of(const ModelFigures& model, const LawTerms& terms, std::uint64_t seed) {
  RoutingShape shape = model.shape;
  shape.layers = std::min(shape.layers, kFitLayers);
  return drawn_figures(law_of_terms(shape, terms), model.figures, seed);
}

}  // namespace

LawTerms RoutingRule::terms(const RoutingShape& shape) const {
  return as_terms(clipped({sum_of(bias, shape), sum_of(prompt, shape), sum_of(spans, shape)}));
}

RoutingRule fit_rule(const std::vector<RoutingShape>& shapes, const std::vector<LawTerms>& terms) {
  std::set<double> sizes;
  std::size_t apart = 0;
  for (const RoutingShape& shape : shapes)
    sizes.insert(static_cast<double>(shape.top_k) / shape.experts), apart += shape.apart > 0;
  if (sizes.size() < 2 || apart == 0 || apart == shapes.size())
    throw InputError("the rule",
                     "needs models that use different shares of their experts, and some with "
                     "a part apart from the routed experts and some without");
  std::vector<double> bias, prompt, spans;
  for (const LawTerms& t : terms) {
    bias.push_back(t.bias);
    prompt.push_back(t.prompt);
    spans.push_back(t.spans);
  }
  return {regression(shapes, bias), regression(shapes, prompt), regression(shapes, spans)};
}

double LeftOut::worst() const {
  double worst = 0;
  for (std::size_t i = 0; i < own.size(); ++i) worst = std::max(worst, std::abs(own[i] - rule[i]));
  return worst;
}

RuleTest leave_one_out(const PublishedRouting& published, std::uint64_t seed,
                       const std::function<void(const std::string& model)>& progress) {
  RuleTest test;
  for (const ModelFigures& model : published.models) {
    if (progress) progress(model.model);
    LeftOut left;
    left.model = model;
    std::erase_if(left.model.figures, [](const PublishedFigure& f) { return f.law_only; });
    left.fitted = fit_terms(left.model, seed).terms;
    test.left_out.push_back(std::move(left));
  }
  const auto rule_without = [&](const LeftOut* out) {
    std::vector<RoutingShape> shapes;
    std::vector<LawTerms> terms;
    for (const LeftOut& other : test.left_out) {
      if (&other == out || !other.model.in_rule) continue;
      shapes.push_back(other.model.shape);
      terms.push_back(other.fitted);
    }
    return fit_rule(shapes, terms);
  };
  test.rule = rule_without(nullptr);
  for (LeftOut& left : test.left_out) {
    left.by_rule = rule_without(&left).terms(left.model.shape);
    left.drawn = figures_of(left.model, left.by_rule, seed);
    left.own = lru_of(left.model.shape, left.fitted, seed);
    left.rule = lru_of(left.model.shape, left.by_rule, seed);
  }
  return test;
}

namespace {

// How near a law of figures comes to LRU's hit rates at capacities that it was not fitted to. Where there are
// two or more, they say what their fit misses, and two points at least, as recordings' halves differ. Of one
// capacity: fitted to moe-lrc's figures alone, DeepSeek-V2-Lite's other hit rates were missed by 3 points (a
// quarter) and 6 (a half), OLMoE's by 4.
constexpr double kLeastPoints = 0.02, kOneCapacityPoints = 0.06;

std::size_t lru_capacities(const std::vector<PublishedFigure>& figures) {
  std::set<double> places;
  for (const PublishedFigure& figure : figures)
    if (figure.kind == FigureKind::lru) places.insert(figure.places);
  return places.size();
}

}  // namespace

RoutingLaw law_of_figures(const PublishedRouting& published, const ModelFigures& model, std::uint64_t seed) {
  const FiguresFit fit = fit_terms(model, seed);
  RoutingLaw law = law_of_terms(model.shape, fit.terms);
  law.model = model.model;
  law.basis = LawBasis::published;
  law.points = kLeastPoints;
  law.provenance = "terms fitted to";
  for (std::size_t i = 0; i < model.figures.size(); ++i) {
    const PublishedFigure& figure = model.figures[i];
    char text[64];
    std::snprintf(text, sizeof text, " %.3f (drawn %.3f)", figure.value, fit.drawn[i]);
    law.provenance += (i == 0 ? " " : "; ") + figure_title(figure) + text + " of " + figure.source;
    if (figure.kind == FigureKind::lru)
      law.points = std::max(law.points, std::abs(figure.value - fit.drawn[i]));
  }
  if (lru_capacities(model.figures) < 2) law.points = std::max(law.points, kOneCapacityPoints);
  law.points = std::ceil(100 * law.points - 0.05) / 100;
  for (const FigureSource& source : published.sources)
    if (std::any_of(model.figures.begin(), model.figures.end(),
                    [&](const PublishedFigure& f) { return f.source == source.name; }))
      law.provenance += ". " + source.name + ": " + source.cite;
  const auto rounded = [](double& value) { value = std::round(value * 1e4) / 1e4; };
  for (LayerLaw& layer : law.layers) {
    rounded(layer.prompt);
    std::for_each(layer.spans.begin(), layer.spans.end(), rounded);
    std::for_each(layer.bias.begin(), layer.bias.end(), rounded);
  }
  return law;
}

}  // namespace moelab
