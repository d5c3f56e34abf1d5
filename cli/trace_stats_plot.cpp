#include "cli/trace_stats_plot.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "cli/layer_table.hpp"

namespace moelab::cli {
namespace {

using Figure = std::function<double(const LayerStatistics&)>;

/// Mean over the layers, with a band from the least to the most.
void add_point(plot::Series& series, const RoutingStatistics& s, double x, const Figure& figure) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const LayerStatistics& layer : s.layers)
    if (const double value = figure(layer); std::isfinite(value)) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  series.x.push_back(x);
  series.y.push_back(mean_over_layers(s.layers, figure));
  series.low.push_back(low);
  series.high.push_back(high);
}

plot::Axis layer_axis() {
  return {.label = "MoE layer", .integers = true};
}
plot::Axis share_axis(const std::string& label) {
  return {.label = label, .range = plot::AxisRange{0, 1}};
}

plot::Panel by_layer(const std::string& title, plot::Axis y, std::vector<plot::Series> series) {
  return {.title = title, .x = layer_axis(), .y = std::move(y), .series = std::move(series)};
}

plot::Panel hit_rates(const RoutingStatistics& s) {
  plot::Series lru{.name = "LRU"}, belady{.name = "Belady"};
  for (std::size_t c = 0; c < s.description.experts; ++c) {
    add_point(lru, s, static_cast<double>(c + 1), [c](const LayerStatistics& l) { return l.lru[c]; });
    add_point(belady, s, static_cast<double>(c + 1), [c](const LayerStatistics& l) { return l.belady[c]; });
  }
  plot::Series lfu{.name = "LFU", .mark = plot::Mark::dots}, fifo{.name = "FIFO", .mark = plot::Mark::dots};
  for (std::size_t i = 0; i < s.capacities.size(); ++i) {
    add_point(lfu, s, s.capacities[i], [i](const LayerStatistics& l) { return l.lfu[i]; });
    add_point(fifo, s, s.capacities[i], [i](const LayerStatistics& l) { return l.fifo[i]; });
  }
  for (plot::Series* series : {&lfu, &fifo}) series->low.clear(), series->high.clear();
  return {.title = "Hit rate of a cache a layer (band: all layers)",
          .x = {.label = "experts cached", .integers = true},
          .y = share_axis("share of lookups"),
          .series = {lru, belady, lfu, fifo}};
}

plot::Panel windows(const RoutingStatistics& s) {
  plot::Series distinct{.name = "distinct experts"};
  for (std::size_t w = 0; w < UseStatistics::kWindows.size(); ++w)
    add_point(distinct, s, UseStatistics::kWindows[w],
              [w](const LayerStatistics& l) { return l.distinct[w]; });
  return {.title = "Distinct experts in a window (band: all layers)",
          .x = {.label = "tokens", .scale = plot::ScaleKind::log},
          .y = {.label = "experts a layer"},
          .series = {distinct}};
}

plot::Panel gates(const RoutingStatistics& s) {
  plot::Series gate{.name = "gate"};
  for (std::size_t r = 0; r < s.description.top_k; ++r)
    add_point(gate, s, static_cast<double>(r + 1), [r](const LayerStatistics& l) { return l.gates[r]; });
  return {.title = "Gates by rank (band: all layers)",
          .x = {.label = "rank", .integers = true},
          .y = {.label = "weight"},
          .series = {gate}};
}

}  // namespace

std::string about_line(const RoutingStatistics& s) {
  const TraceDescription& d = s.description;
  return (d.model.empty() ? "unknown model" : d.model) + (d.synthetic ? " (synthetic): " : " (recorded): ") +
         std::to_string(s.tokens) + " tokens of " + std::to_string(s.requests) + " requests, " +
         std::to_string(d.layers) + " layers of " + std::to_string(d.experts) + " experts, top-" +
         std::to_string(d.top_k);
}

plot::Figure statistics_figure(const RoutingStatistics& s) {
  using L = LayerStatistics;
  plot::Figure figure{.title = about_line(s), .caption = s.description.provenance, .columns = 2};
  figure.panels = {
      hit_rates(s),
      popularity_panel(s.layers),
      by_layer(
          "Skew and reuse", share_axis("share"),
          {over_layers(s.layers, "busiest quarter's uses", [](const L& l) { return l.top_quarter; }),
           over_layers(s.layers, "reused from the token before", [](const L& l) { return l.reuse; }),
           over_layers(s.layers, "reused, if independent", [](const L& l) { return l.independent_reuse; })}),
      by_layer("Experts foretold", share_axis("share of the experts used"),
               {over_layers(s.layers, "by the layer before", [](const L& l) { return l.transition_recall; }),
                over_layers(s.layers, "by popularity", [](const L& l) { return l.popularity_recall; })}),
      windows(s),
      by_layer("Drift: how far requests differ", {.label = "Jensen-Shannon divergence", .unit = "bits"},
               {over_layers(s.layers, "prompts", [](const L& l) { return l.prompt_divergence; }),
                over_layers(s.layers, "prompts, by chance", [](const L& l) { return l.prompt_chance; })})};
  if (!s.description.domains.empty())
    figure.panels.back().series.push_back(
        over_layers(s.layers, "domains", [](const L& l) { return l.domain_divergence; }));
  if (s.description.gate_scores) figure.panels.push_back(gates(s));
  return figure;
}

}  // namespace moelab::cli
