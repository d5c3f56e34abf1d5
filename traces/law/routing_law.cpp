#include "traces/law/routing_law.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace moelab {
namespace {

/// values at place x of 0 .. size - 1, linear in between.
double at(const std::vector<double>& values, double x) {
  const double place = std::clamp(x, 0.0, static_cast<double>(values.size() - 1));
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

/// Place i of `to` things among `from`, both spread evenly over the same length.
double stretched(std::size_t i, std::size_t to, std::size_t from) {
  return (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
}

double mixed(double a, double b, double part) {
  return a + part * (b - a);
}

/// Where one list is longer, the other's last value holds for all that follow. Both are empty, or none is.
std::vector<double> mixed(const std::vector<double>& a, const std::vector<double>& b, double part) {
  std::vector<double> values;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i)
    values.push_back(mixed(a[std::min(i, a.size() - 1)], b[std::min(i, b.size() - 1)], part));
  return values;
}

LayerLaw mixed(const LayerLaw& a, const LayerLaw& b, double part) {
  if (part == 0) return a;
  return {.encoder = a.encoder,
          .bias = mixed(a.bias, b.bias, part),
          .domain = mixed(a.domain, b.domain, part),
          .prompt = mixed(a.prompt, b.prompt, part),
          .spans = mixed(a.spans, b.spans, part),
          .coupling = mixed(a.coupling, b.coupling, part),
          .gate_gaps = mixed(a.gate_gaps, b.gate_gaps, part),
          .gate_sum = mixed(a.gate_sum, b.gate_sum, part)};
}

std::vector<double> resized_bias(const std::vector<double>& bias, std::uint32_t experts) {
  std::vector<double> values;
  for (std::uint32_t e = 0; e < experts; ++e) values.push_back(at(bias, stretched(e, experts, bias.size())));
  return values;
}

/// `count` layers like those of `stack`.
void add_layers(std::vector<LayerLaw>& layers, const std::vector<LayerLaw>& stack, std::uint32_t count,
                std::uint32_t experts, bool encoder) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const double place =
        std::clamp(stretched(i, count, stack.size()), 0.0, static_cast<double>(stack.size() - 1));
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, stack.size() - 1);
    LayerLaw layer = mixed(stack[below], stack[above], place - static_cast<double>(below));
    layer.bias = resized_bias(layer.bias, experts);
    layer.encoder = encoder;
    // A stack's first layer has no layer before it, and no coupling that means anything; its neighbour's
    // does.
    if (below == 0 && i > 0 && stack.size() > 1) layer.coupling = stack[1].coupling;
    layers.push_back(std::move(layer));
  }
}

}  // namespace

bool RoutingLaw::has_gates() const {
  return std::all_of(layers.begin(), layers.end(), [](const LayerLaw& l) { return !l.gate_gaps.empty(); });
}

bool RoutingLaw::has_encoder() const {
  return std::any_of(layers.begin(), layers.end(), [](const LayerLaw& l) { return l.encoder; });
}

RoutingLaw resized(const RoutingLaw& law, std::uint32_t layers, std::uint32_t encoder_layers,
                   std::uint32_t experts, std::uint32_t top_k) {
  assert(encoder_layers <= layers && top_k <= experts);
  std::vector<LayerLaw> encoder, decoder;
  for (const LayerLaw& layer : law.layers) (layer.encoder ? encoder : decoder).push_back(layer);
  RoutingLaw to = law;
  to.experts = experts;
  to.top_k = top_k;
  to.layers.clear();
  add_layers(to.layers, encoder.empty() ? decoder : encoder, encoder_layers, experts, true);
  add_layers(to.layers, decoder.empty() ? encoder : decoder, layers - encoder_layers, experts, false);
  return to;
}

RoutingLaw law_for_model(const RoutingLaw& law, const Architecture& model) {
  std::uint32_t layers = 0, encoder_layers = 0;
  for (const Layer& layer : model.layers) {
    if (layer.feed_forward.kind != FeedForward::Kind::moe) continue;
    ++layers;
    encoder_layers += layer.stack == Stack::encoder;
  }
  const FeedForward& ff = model.moe();
  const auto experts = static_cast<std::uint32_t>(ff.experts), k = static_cast<std::uint32_t>(ff.top_k);
  RoutingLaw to = resized(law, layers, encoder_layers, experts, k);
  if (law.layers.size() != layers || law.experts != experts || law.top_k != k)
    to.provenance = "resized from " + std::to_string(law.layers.size()) + " layers of " +
                    std::to_string(law.experts) + " experts, top-" + std::to_string(law.top_k) + " of " +
                    law.model + ", " + law.provenance;
  to.model = model.name;
  return to;
}

}  // namespace moelab
