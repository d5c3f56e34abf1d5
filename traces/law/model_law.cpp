#include "traces/law/model_law.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "models/config_store.hpp"
#include "traces/law/law_shape.hpp"
#include "traces/law/published_figures.hpp"

namespace moelab {
namespace {

constexpr double kMostScaled = 0.99;  // of a layer's weights, by what stays from token to token
constexpr std::uint32_t kTried = 4;   // layers of the law that is drawn from to see what a change brings
constexpr std::uint64_t kTriedTokens = 2048;
constexpr int kHalvings = 9;  // of the factor's range
constexpr double kLeastFactor = 0.05, kMostFactor = 4;
constexpr std::uint64_t kTrialSeed = 1;

/// The law with all weights of what stays from token to token times `factor`, as far as they leave room.
RoutingLaw weights_scaled(const RoutingLaw& law, double factor) {
  RoutingLaw to = law;
  for (LayerLaw& layer : to.layers) {
    const double kept = std::accumulate(layer.spans.begin(), layer.spans.end(), layer.domain + layer.prompt);
    if (kept <= 0) continue;
    const double by = std::min(factor, std::max(1.0, kMostScaled / kept));
    layer.domain *= by;
    layer.prompt *= by;
    for (double& span : layer.spans) span *= by;
  }
  return to;
}

/// LRU's hit rate with places for a quarter of the experts, of requests as long as the law's.
double quarter_hits(const RoutingLaw& law) {
  PublishedFigure figure;
  figure.kind = FigureKind::lru;
  figure.places = 0.25;
  figure.cold = false;
  figure.tokens = static_cast<std::uint32_t>(std::clamp(law.prompt_tokens + law.decode_tokens, 64.0, 512.0));
  return drawn_figures(law, {figure}, kTrialSeed, kTriedTokens).front();
}

/// Fewer layers of one stack, for trials.
RoutingLaw few_layers_of(const RoutingLaw& law) {
  const auto layers = std::min(kTried, static_cast<std::uint32_t>(law.layers.size()));
  RoutingLaw few = resized(law, layers, 0, law.experts, law.top_k);
  for (LayerLaw& layer : few.layers) layer.gate_gaps.clear();
  return few;
}

std::string points_text(double points) {
  char text[32];
  std::snprintf(text, sizeof text, "±%.2g points", 100 * points);
  return text;
}

std::string apart_text(const RoutingShape& shape) {
  char text[96];
  std::snprintf(text, sizeof text, "; %.0f %% of a token's feed-forward work is not routed",
                100 * shape.apart);
  return text;
}

}  // namespace

RoutingLaw law_by_rule(const Architecture& model) {
  const RoutingShape shape = routing_shape(model);
  RoutingLaw law = law_of_terms(shape, terms_by_rule(shape));
  law.model = model.name;
  law.basis = LawBasis::rule;
  law.points = kRulePoints;
  law.provenance = "by rule from the model's shape (" + std::to_string(shape.layers) + " MoE layers of " +
                   std::to_string(shape.experts) + " experts, top-" + std::to_string(shape.top_k) +
                   apart_text(shape) + ")";
  return law;
}

ModelLaw law_of_model(const Architecture& model) {
  const std::vector<std::string> known = config_names("laws");
  if (std::find(known.begin(), known.end(), model.name) != known.end()) {
    RoutingLaw law = load_routing_law(model.name);
    const RoutingShape shape = routing_shape(model);
    if (law.layers.size() == shape.layers && law.experts == shape.experts && law.top_k == shape.top_k) {
      law.model = model.name;
      return {std::move(law), find_config("laws", model.name).name};
    }
  }
  return {law_by_rule(model), ""};
}

std::string law_title(const RoutingLaw& law) {
  switch (law.basis) {
    case LawBasis::measured:
      return "law of this model (measured, " + points_text(law.points) + ")";
    case LawBasis::published:
      return "law of this model (from published figures, " + points_text(law.points) + ")";
    case LawBasis::rule:
      return "by rule (" + points_text(law.points) + ")";
    case LawBasis::fitted:
      break;
  }
  return "law of " + (law.model.empty() ? std::string("an unnamed model") : law.model);
}

RoutingLaw law_moved(const RoutingLaw& law, double by) {
  const RoutingLaw few = few_layers_of(law);
  const double wanted = quarter_hits(few) + by;
  double low = kLeastFactor, high = kMostFactor;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (quarter_hits(weights_scaled(few, middle)) < wanted ? low : high) = middle;
  }
  RoutingLaw moved = weights_scaled(law, (low + high) / 2);
  moved.basis = LawBasis::fitted;
  moved.points = 0;
  char text[64];
  std::snprintf(text, sizeof text, "moved by %+.3g points of LRU's hit rate, ", 100 * by);
  moved.provenance = text + law.provenance;
  return moved;
}

}  // namespace moelab
