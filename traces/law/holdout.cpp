#include "traces/law/holdout.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "models/input_error.hpp"
#include "traces/model_title.hpp"
#include "traces/statistics/routing_statistics.hpp"
#include "traces/trace_slice.hpp"

namespace moelab {
namespace {

RoutingTrace every_other(const RoutingTrace& trace, std::uint32_t first) {
  std::vector<std::uint32_t> requests;
  for (std::uint32_t r = first; r < trace.requests().size(); r += 2) requests.push_back(r);
  return slice(trace, requests);
}

/// A figure of a layer.
using Figure = std::function<double(const LayerStatistics&)>;

double mean(const RoutingStatistics& statistics, const Figure& figure) {
  double sum = 0, layers = 0;
  for (const LayerStatistics& layer : statistics.layers)
    if (const double value = figure(layer); std::isfinite(value)) sum += value, ++layers;
  return layers > 0 ? sum / layers : std::numeric_limits<double>::quiet_NaN();
}

double difference(const RoutingStatistics& a, const RoutingStatistics& b, const Figure& figure,
                  bool relative) {
  double sum = 0, layers = 0;
  for (std::size_t l = 0; l < a.layers.size(); ++l) {
    const double x = figure(a.layers[l]), y = figure(b.layers[l]);
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    sum += std::abs(x - y) / (relative ? y : 1);
    ++layers;
  }
  return layers > 0 ? sum / layers : std::numeric_limits<double>::quiet_NaN();
}

struct Comparison {
  RoutingStatistics fitted_to, held_out, drawn;

  void add(std::vector<HoldoutRow>& rows, const std::string& name, const Figure& figure, double limit,
           bool relative = false) const {
    rows.push_back({.name = name,
                    .fitted_to = mean(fitted_to, figure),
                    .held_out = mean(held_out, figure),
                    .drawn = mean(drawn, figure),
                    .drawn_difference = difference(drawn, held_out, figure, relative),
                    .halves_difference = difference(fitted_to, held_out, figure, relative),
                    .limit = limit,
                    .relative = relative});
  }
};

void add_curves(std::vector<HoldoutRow>& rows, const Comparison& c) {
  constexpr std::array<const char*, 4> kParts{"12.5", "25", "50", "75"};
  for (std::size_t i = 0; i < c.held_out.capacities.size(); ++i) {
    const std::size_t place = c.held_out.capacities[i] - 1;
    const std::string at = std::string(" hit rate, ") + kParts[i] + " % of the experts cached";
    c.add(
        rows, "LRU" + at, [place](const LayerStatistics& l) { return l.lru[place]; }, 0.03);
    c.add(
        rows, "Belady" + at, [place](const LayerStatistics& l) { return l.belady[place]; }, 0.03);
  }
}

}  // namespace

std::vector<HoldoutRow> holdout(const RoutingTrace& trace, const FitOptions& options, std::uint64_t seed) {
  if (trace.requests().size() < 2 || (options.gates != nullptr && options.gates->requests().size() < 2))
    throw InputError("trace of " + model_title(trace), "has one request; every other one is held out");
  const RoutingTrace ours = every_other(trace, 0), others = every_other(trace, 1);
  FitOptions half = options;
  RoutingTrace our_gates, other_gates;
  if (options.gates != nullptr) {
    our_gates = every_other(*options.gates, 0);
    other_gates = every_other(*options.gates, 1);
    half.gates = &our_gates;
  }
  const RoutingLaw law = fit_routing_law(ours, half);
  Comparison c{routing_statistics(ours), routing_statistics(others),
               routing_statistics(drawn_like(law, others, seed))};
  std::vector<HoldoutRow> rows;
  c.add(
      rows, "share of the busiest quarter", [](const LayerStatistics& l) { return l.top_quarter; }, 0.03);
  c.add(
      rows, "reuse from the token before", [](const LayerStatistics& l) { return l.reuse; }, 0.03);
  add_curves(rows, c);
  c.add(
      rows, "transition recall", [](const LayerStatistics& l) { return l.transition_recall; }, 0.05);
  c.add(
      rows, "recall by popularity alone", [](const LayerStatistics& l) { return l.popularity_recall; }, 0);
  c.add(
      rows, "divergence of prompts, bits", [](const LayerStatistics& l) { return l.prompt_divergence; }, 0);
  c.add(
      rows, "divergence of domains, bits", [](const LayerStatistics& l) { return l.domain_divergence; }, 0);
  if (options.gates != nullptr) {
    c.fitted_to = routing_statistics(our_gates);
    c.held_out = routing_statistics(other_gates);
  }
  for (std::size_t r = 0; law.has_gates() && r < law.top_k; ++r)
    c.add(
        rows, "gate of rank " + std::to_string(r + 1), [r](const LayerStatistics& l) { return l.gates[r]; },
        0.1, true);
  return rows;
}

}  // namespace moelab
