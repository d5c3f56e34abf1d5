// A panel with its axes settled, before it is drawn.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/plot/chart_scale.hpp"
#include "cli/plot/svg_chart.hpp"

namespace moelab::plot {

constexpr double tick_font = 11;
constexpr double label_font = 12;

struct Size {
  double width = 0;
  double height = 0;
};

/// Room around the plot proper, for ticks, labels and the colour bar.
struct Margins {
  double left = 0;
  double right = 0;
  double bottom = 0;
};

struct PanelLayout {
  const Panel* panel = nullptr;  // outlives the layout
  Scale x{};
  Scale y{};
  Scale colour{};          // of the heat map
  double bar_spacing = 1;  // between the middles of neighbouring bars (or groups of them), as x counts
  bool empty = true;       // there is nothing to draw

  /// Pixels from the left end of the x axis.
  double across(double value, const Size& plot) const { return x.position(value) * plot.width; }
  /// Pixels from the top; row 0 of a heat map is at the top, else y grows upwards.
  double down(double value, const Size& plot) const;
};

/// Settles the axes. Expects a panel that check_panel() let pass.
PanelLayout lay_out(const Panel& panel);

/// Throws std::invalid_argument when the panel is not as svg_chart.hpp describes it.
void check_panel(const Panel& panel);

/// Room left and right of the plot.
Margins side_margins(const PanelLayout& layout);

/// How the names along the x axis stand: all or every `stride`-th, slanted if they do not fit otherwise.
struct XNames {
  bool slanted = false;
  std::size_t stride = 1;
  double longest = 0;  // pixels; longer names are shortened
};
XNames x_names(const PanelLayout& layout, const Margins& margins, double plot_width);

/// Room below the plot.
double bottom_margin(const PanelLayout& layout, const XNames& names);

/// "label (unit)", or the one there is; the unit is that of the scale's ticks.
std::string axis_title(const Axis& axis, const Scale& scale);

/// The smallest stride at which texts of the given sizes, centred at the given places (both in pixels, places
/// ascending or descending), stay apart.
std::size_t stride_apart(const std::vector<double>& places, const std::vector<double>& sizes);

}  // namespace moelab::plot
