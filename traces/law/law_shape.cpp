#include "traces/law/law_shape.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "traces/portable_math.hpp"

namespace moelab {
namespace {

/// A knot of the profile over the depth: of the first layer 0, of the last 1.
struct Knot {
  double depth, factor;
};

// How much longer a layer keeps its experts than the mean layer: what follows of the reuse by layer of
// gpt-oss-20b (24 layers, recorded), OLMoE (14 of 16, mkvn/quantization-cache-amplification) and Gemma 4 26B
// (30, crankysmh47/Expertflow), each over its mean. All three begin at 0.45 to 0.67, are at 1.2 to 1.35
// before the middle, and fall towards the end.
constexpr std::array<Knot, 10> kProfile = {{{0.02, 0.55},
                                            {0.07, 0.69},
                                            {0.14, 1.00},
                                            {0.25, 1.03},
                                            {0.42, 1.20},
                                            {0.50, 1.20},
                                            {0.60, 1.00},
                                            {0.75, 0.98},
                                            {0.90, 0.93},
                                            {1.00, 0.93}}};

// Of the fit to gpt-oss-20b, means over its layers: how the weight of what changes is spread over the spans,
// the coupling, and the gates' gaps.
constexpr std::array<double, 3> kTermSpanTokens = {1, 8, 64};
constexpr std::array<double, 3> kSpanShares = {0.78, 0.10, 0.12};
constexpr double kCoupling = 0.93;
constexpr std::array<double, 3> kGateGaps = {0.62, 0.87, 0.98};
constexpr double kMostKept = 0.97;  // of a layer's weights: some noise is left in every model

// The rule: terms are a constant, more where a token uses a smaller share of the experts, and less where more
// of its feed-forward work is not routed. Least squares over the terms of 15 models, each fitted to what is
// published of it (configs/figures/routing.yaml). Fitted to the 14 others, it misses LRU's hit rates with
// places for 25, 50 and 75 % of the experts by at most 6 points for 12 of them, and by 7 (Jamba), 8
// (gpt-oss-20b) and 10 (PowerMoE-3B) for three; root mean square 5 (`moelab trace law --leave-one-out`).
struct Coefficients {
  double constant, used, apart;  // times 1, top_k / experts, RoutingShape::apart

  double of(const RoutingShape& shape) const {
    return constant + used * shape.top_k / shape.experts + apart * shape.apart;
  }
};
constexpr Coefficients kBiasRule = {0.7484, -2.3200, -0.7634};
constexpr Coefficients kPromptRule = {0.4250, -1.2794, -0.3820};
constexpr Coefficients kSpansRule = {0.6662, -2.4917, -0.3136};

double profile(double depth) {
  const auto* after = std::find_if(kProfile.begin(), kProfile.end(),
                                   [depth](const Knot& knot) { return knot.depth >= depth; });
  if (after == kProfile.begin()) return after->factor;
  if (after == kProfile.end()) return kProfile.back().factor;
  const Knot& before = *(after - 1);
  return before.factor +
         (after->factor - before.factor) * (depth - before.depth) / (after->depth - before.depth);
}

/// x below which a share p of standard normal numbers lies, 0 < p < 1, to 1e-9 (P. J. Acklam, "An algorithm
/// for computing the inverse normal cumulative distribution function", 2003).
double normal_quantile(double p) {
  if (p > 0.5) return -normal_quantile(1 - p);
  if (p < 0.02425) {
    const double q = std::sqrt(-2 * portable_log(p));
    return (((((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838) * q -
              2.549732539343734) *
                 q +
             4.374664141464968) *
                q +
            2.938163982698783) /
           ((((7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996) * q +
             3.754408661907416) *
                q +
            1);
  }
  const double q = p - 0.5, r = q * q;
  return (((((-3.969683028665376e+01 * r + 2.209460984245205e+02) * r - 2.759285104469687e+02) * r +
            1.383577518672690e+02) *
               r -
           3.066479806614716e+01) *
              r +
          2.506628277459239) *
         q /
         (((((-5.447609879822406e+01 * r + 1.615858368580409e+02) * r - 1.556989798598868e+02) * r +
            6.680131188771972e+01) *
               r -
           1.328068155288572e+01) *
              r +
          1);
}

/// Places of a stack's layers from 0 to 1, each in the middle of its part.
double depth_of(std::uint32_t layer, std::uint32_t layers) {
  return (layer + 0.5) / layers;
}

double mean_profile(std::uint32_t layers) {
  double sum = 0;
  for (std::uint32_t l = 0; l < layers; ++l) sum += profile(depth_of(l, layers));
  return sum / layers;
}

LayerLaw layer_of(const RoutingShape& shape, const LawTerms& terms, double factor) {
  LayerLaw layer;
  for (std::uint32_t e = 0; e < shape.experts; ++e)
    layer.bias.push_back(-terms.bias * normal_quantile((e + 0.5) / shape.experts));
  const double kept = terms.prompt + terms.spans;
  const double scale = kept > 0 ? std::min(factor, kMostKept / kept) : 0;
  layer.prompt = scale * terms.prompt;
  for (const double share : kSpanShares) layer.spans.push_back(scale * terms.spans * share);
  layer.coupling = kCoupling;
  layer.gate_gaps.assign(kGateGaps.begin(), kGateGaps.end());
  return layer;
}

}  // namespace

RoutingShape routing_shape(const Architecture& model) {
  RoutingShape shape;
  for (const Layer& layer : model.layers) {
    if (layer.feed_forward.kind != FeedForward::Kind::moe) continue;
    ++shape.layers;
    shape.encoder_layers += layer.stack == Stack::encoder;
  }
  const FeedForward& ff = model.moe();
  shape.experts = static_cast<std::uint32_t>(ff.experts);
  shape.top_k = static_cast<std::uint32_t>(ff.top_k);
  double apart = 0, routed = 0;  // widths, of all layers
  for (const Layer& layer : model.layers) {
    const FeedForward& f = layer.feed_forward;
    apart += f.kind == FeedForward::Kind::dense ? f.width : f.shared_width;
    if (f.kind == FeedForward::Kind::moe) routed += static_cast<double>(f.top_k) * f.width;
  }
  shape.apart = apart / (apart + routed);
  return shape;
}

const double kRulePoints = 0.06;

LawTerms terms_by_rule(const RoutingShape& shape) {
  LawTerms terms;
  terms.bias = std::max(0.0, kBiasRule.of(shape));
  terms.prompt = std::clamp(kPromptRule.of(shape), 0.0, 0.9);
  terms.spans = std::clamp(kSpansRule.of(shape), 0.0, 0.95 - terms.prompt);
  return terms;
}

RoutingLaw law_of_terms(const RoutingShape& shape, const LawTerms& terms) {
  RoutingLaw law;
  law.experts = shape.experts;
  law.top_k = shape.top_k;
  law.prompt_tokens = 128;
  law.decode_tokens = 128;
  law.span_tokens.assign(kTermSpanTokens.begin(), kTermSpanTokens.end());
  const auto add = [&](std::uint32_t layers, bool encoder) {
    for (std::uint32_t l = 0; l < layers; ++l) {
      law.layers.push_back(layer_of(shape, terms, profile(depth_of(l, layers)) / mean_profile(layers)));
      law.layers.back().encoder = encoder;
    }
  };
  add(shape.encoder_layers, true);
  add(shape.layers - shape.encoder_layers, false);
  return law;
}

}  // namespace moelab
