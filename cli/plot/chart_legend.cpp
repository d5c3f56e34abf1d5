#include "cli/plot/chart_legend.hpp"

#include <algorithm>
#include <optional>

#include "cli/plot/chart_layout.hpp"
#include "cli/plot/chart_panel.hpp"
#include "cli/plot/chart_style.hpp"

namespace moelab::plot {
namespace {

constexpr double row_height = 17;
constexpr double sample_width = 30;

void draw_sample(Xml& xml, const LegendEntry& entry, double x, double y) {
  xml.open("g").set("fill", series_colour(entry.style));
  if (entry.mark == Mark::bars) {
    xml.open("rect").set("x", x + 8).set("y", y - 6).set("width", "14").set("height", "12");
    xml.set("fill", series_fill(entry.style)).set("stroke", series_colour(entry.style)).close();
  } else if (entry.mark != Mark::dots) {
    xml.open("line").set("x1", x).set("y1", y).set("x2", x + sample_width).set("y2", y);
    xml.set("stroke", series_colour(entry.style)).set("stroke-width", "1.8");
    if (const std::string dashes = series_dashes(entry.style); !dashes.empty())
      xml.set("stroke-dasharray", dashes);
    xml.close();
  }
  if (entry.mark != Mark::bars && entry.mark != Mark::level)
    draw_marker(xml, entry.style, x + sample_width / 2, y, "");
  xml.close();
}

}  // namespace

std::vector<std::string> series_names(const Figure& figure) {
  std::vector<std::string> names;
  for (const Panel& panel : figure.panels)
    for (const Series& series : panel.series)
      if (std::find(names.begin(), names.end(), series.name) == names.end()) names.push_back(series.name);
  return names;
}

std::vector<std::size_t> series_styles(const Panel& panel, std::span<const std::string> names) {
  std::vector<std::size_t> styles;
  for (const Series& series : panel.series)
    styles.push_back(
        static_cast<std::size_t>(std::find(names.begin(), names.end(), series.name) - names.begin()));
  return styles;
}

std::vector<LegendEntry> legend_entries(const Panel& panel, std::span<const std::string> names) {
  std::vector<LegendEntry> entries;
  for (std::size_t style = 0; style < names.size(); ++style) {
    if (names[style].empty()) continue;
    const auto found = std::find_if(panel.series.begin(), panel.series.end(), [&](const Series& series) {
      return series.name == names[style] && !series.x.empty();
    });
    if (found != panel.series.end()) entries.push_back({names[style], found->mark, style});
  }
  return entries;
}

bool legend_is_shared(const Figure& figure, std::span<const std::string> names) {
  std::optional<std::vector<LegendEntry>> first;
  for (const Panel& panel : figure.panels) {
    if (panel.series.empty()) continue;
    std::vector<LegendEntry> entries = legend_entries(panel, names);
    if (!first)
      first = std::move(entries);
    else if (*first != entries)
      return false;
  }
  return true;
}

double draw_legend(Xml* xml, std::span<const LegendEntry> entries, double x, double y, double width) {
  if (entries.empty()) return 0;
  double left = 0;
  double top = 0;
  if (xml) xml->open("g").set("class", "legend");
  for (const LegendEntry& entry : entries) {
    const double room = width - sample_width - 6;
    const double needed = sample_width + 6 + std::min(text_width(entry.name, tick_font), room);
    if (left > 0 && left + needed > width) {
      left = 0;
      top += row_height;
    }
    if (xml) {
      draw_sample(*xml, entry, x + left, y + top + row_height / 2);
      draw_shortened(*xml, x + left + sample_width + 6, y + top + row_height / 2 + 4, entry.name, room, {});
    }
    left += needed + 16;
  }
  if (xml) xml->close();
  return top + row_height + 5;
}

}  // namespace moelab::plot
