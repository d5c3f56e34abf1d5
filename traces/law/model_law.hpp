// Which law a model's routing is drawn from where no recording is at hand.
#pragma once

#include <string>

#include "models/architecture.hpp"
#include "traces/law/routing_law.hpp"

namespace moelab {

struct ModelLaw {
  RoutingLaw law;    // at the model's sizes
  std::string file;  // "configs/laws/deepseek-v2-lite.yaml"; "": by rule, without a file
};

/// The law of configs/laws that has the model's name, where that is of the model's layers, experts and k;
/// else one by rule from its shape. The model has MoE layers.
ModelLaw law_of_model(const Architecture& model);

/// The law by rule from the model's shape, whatever is known of it.
RoutingLaw law_by_rule(const Architecture& model);

/// "law of this model (measured, ±2 points)", "law of this model (from published figures, ±3 points)", "by
/// rule (±6 points)"; of one that was fitted to something else, of what: "law of moelab/debian-moe-8x32".
std::string law_title(const RoutingLaw& law);

/// A law like this one whose LRU hit rate with places for a quarter of the experts is higher by `by` (0.02:
/// two points; negative: lower): requests keep their experts longer. Where no law reaches so far, the
/// furthest.
RoutingLaw law_moved(const RoutingLaw& law, double by);

}  // namespace moelab
