// Which name goes with which look.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cli/plot/svg_chart.hpp"
#include "cli/plot/svg_text.hpp"

namespace moelab::plot {

struct LegendEntry {
  std::string name{};
  Mark mark = Mark::line;
  std::size_t style = 0;
  bool operator==(const LegendEntry&) const = default;
};

/// The names in the order of their first appearance; the place of a name is its style. Series without a name
/// share the name "".
std::vector<std::string> series_names(const Figure& figure);

/// Styles of the panel's series, in their order.
std::vector<std::size_t> series_styles(const Panel& panel, std::span<const std::string> names);

/// One entry a name that has points, in the order of styles.
std::vector<LegendEntry> legend_entries(const Panel& panel, std::span<const std::string> names);

/// Whether one legend serves all panels with series.
bool legend_is_shared(const Figure& figure, std::span<const std::string> names);

/// Draws the entries in rows no wider than `width` from (x, y) on, y being the top; returns the height, which
/// `xml` null merely computes.
double draw_legend(Xml* xml, std::span<const LegendEntry> entries, double x, double y, double width);

}  // namespace moelab::plot
