#include "cli/trace_stats_plot.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace moelab::cli {
namespace {

using Figure = std::function<double(const LayerStatistics&)>;

plot::Series over_layers(const RoutingStatistics& s, const std::string& name, const Figure& figure) {
  plot::Series series;
  series.name = name;
  for (std::size_t l = 0; l < s.layers.size(); ++l) {
    series.x.push_back(static_cast<double>(l));
    series.y.push_back(figure(s.layers[l]));
  }
  return series;
}

/// Mean over the layers, with a band from the least to the most.
void add_point(plot::Series& series, const RoutingStatistics& s, double x, const Figure& figure) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const LayerStatistics& layer : s.layers)
    if (const double value = figure(layer); std::isfinite(value)) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  series.x.push_back(x);
  series.y.push_back(mean_over_layers(s, figure));
  series.low.push_back(low);
  series.high.push_back(high);
}

plot::Axis layer_axis() {
  return {.label = "MoE layer", .integers = true};
}
plot::Axis share_axis(const std::string& label) {
  return {.label = label, .range = plot::Range{0, 1}};
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

plot::Panel popularity(const RoutingStatistics& s) {
  plot::HeatMap map{.rows = s.layers.size(), .columns = s.description.experts};
  for (const LayerStatistics& layer : s.layers)
    for (const std::uint64_t uses : layer.uses)
      map.values.push_back(static_cast<double>(uses) * s.description.experts /
                           (static_cast<double>(layer.tokens) * s.description.top_k));
  map.colour = {.label = "uses, times the mean"};
  return {
      .title = "Popularity", .x = {.label = "expert", .integers = true}, .y = layer_axis(), .heat_map = map};
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

double mean_over_layers(const RoutingStatistics& statistics, const Figure& figure) {
  double sum = 0, known = 0;
  for (const LayerStatistics& layer : statistics.layers)
    if (const double value = figure(layer); std::isfinite(value)) sum += value, ++known;
  return known > 0 ? sum / known : std::numeric_limits<double>::quiet_NaN();
}

plot::Figure statistics_figure(const RoutingStatistics& s) {
  using L = LayerStatistics;
  plot::Figure figure{.title = about_line(s), .caption = s.description.provenance, .columns = 2};
  figure.panels = {
      hit_rates(s),
      popularity(s),
      by_layer("Skew and reuse", share_axis("share"),
               {over_layers(s, "busiest quarter's uses", [](const L& l) { return l.top_quarter; }),
                over_layers(s, "reused from the token before", [](const L& l) { return l.reuse; }),
                over_layers(s, "reused, if independent", [](const L& l) { return l.independent_reuse; })}),
      by_layer("Experts foretold", share_axis("share of the experts used"),
               {over_layers(s, "by the layer before", [](const L& l) { return l.transition_recall; }),
                over_layers(s, "by popularity", [](const L& l) { return l.popularity_recall; })}),
      windows(s),
      by_layer("Drift: how far requests differ", {.label = "Jensen-Shannon divergence", .unit = "bits"},
               {over_layers(s, "prompts", [](const L& l) { return l.prompt_divergence; }),
                over_layers(s, "prompts, by chance", [](const L& l) { return l.prompt_chance; })})};
  if (!s.description.domains.empty())
    figure.panels.back().series.push_back(
        over_layers(s, "domains", [](const L& l) { return l.domain_divergence; }));
  if (s.description.gate_scores) figure.panels.push_back(gates(s));
  return figure;
}

}  // namespace moelab::cli
