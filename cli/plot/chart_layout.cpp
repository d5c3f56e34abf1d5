#include "cli/plot/chart_layout.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <set>

#include "cli/plot/svg_text.hpp"

namespace moelab::plot {
namespace {

constexpr double slant_cosine = 0.8;  // about 37 degrees
constexpr double slant_sine = 0.6;

// The ends of what was added.
struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value, ScaleKind kind) {
    if (!can_place(value, kind)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void add(const Extent& other) {
    low = std::min(low, other.low);
    high = std::max(high, other.high);
  }
  bool empty() const { return low > high; }
};

// What the points that can be placed need.
struct Extents {
  Extent x{};
  Extent y{};
  std::set<double> bars{};  // places of bars
};

Extents extents_of(const Panel& panel) {
  Extents all;
  const ScaleKind kind_y = panel.y.scale;
  for (const Series& series : panel.series)
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (!can_place(series.x[i], panel.x.scale) || !can_place(series.y[i], kind_y)) continue;
      all.x.add(series.x[i], panel.x.scale);
      all.y.add(series.y[i], kind_y);
      if (!series.low.empty()) {
        all.y.add(series.low[i], kind_y);
        all.y.add(series.high[i], kind_y);
      }
      if (series.mark != Mark::bars) continue;
      all.bars.insert(series.x[i]);
      all.y.add(0, kind_y);  // on a log axis there is none
    }
  return all;
}

// Between neighbours, 1 where there are none; large enough for the axis of a single bar to have an extent.
double distance_between(const std::set<double>& places) {
  if (places.empty()) return 1;
  double smallest = std::numeric_limits<double>::infinity();
  for (auto place = places.begin(), next = std::next(place); next != places.end(); ++place, ++next)
    smallest = std::min(smallest, *next - *place);
  if (places.size() == 1) smallest = 1;
  return std::max({smallest, 1e-6 * std::abs(*places.begin()), 1e-6 * std::abs(*places.rbegin()), 1e-280});
}

Scale fitted(const Extent& extent, const Axis& axis) {
  if (axis.range) return make_scale(*axis.range, axis, true);
  if (!extent.empty()) return make_scale({extent.low, extent.high}, axis, false);
  return make_scale({axis.scale == ScaleKind::log ? 1.0 : 0.0, axis.scale == ScaleKind::log ? 10.0 : 1.0},
                    axis, false);
}

// An axis that counts from 0 to count - 1, each in the middle of its stretch.
Scale counting(std::size_t count, Axis axis) {
  axis.integers = true;
  return make_scale({-0.5, static_cast<double>(std::max<std::size_t>(count, 1)) - 0.5}, axis, true);
}

void lay_out_heat_map(PanelLayout& layout, const HeatMap& map) {
  layout.x = counting(map.columns, layout.panel->x);
  layout.y = counting(map.rows, layout.panel->y);
  Extent colours;
  for (const double value : map.values) colours.add(value, map.colour.scale);
  layout.empty = colours.empty();
  Axis colour = map.colour;  // all shades are used: the bar ends where the data do
  if (!colour.range && !colours.empty() && has_extent({colours.low, colours.high}))
    colour.range = AxisRange{colours.low, colours.high};
  layout.colour = fitted(colours, colour);
}

Scale category_scale(const Panel& panel) {
  Scale scale = counting(panel.categories.size(), panel.x);
  scale.ticks.clear();
  for (std::size_t i = 0; i < panel.categories.size(); ++i)
    scale.ticks.push_back({static_cast<double>(i), panel.categories[i]});
  return scale;
}

}  // namespace

double PanelLayout::down(double value, const Size& plot) const {
  return (panel->heat_map ? y.position(value) : 1 - y.position(value)) * plot.height;
}

PanelLayout lay_out(const Panel& panel) {
  PanelLayout layout;
  layout.panel = &panel;
  if (panel.heat_map) {
    lay_out_heat_map(layout, *panel.heat_map);
    return layout;
  }
  Extents extents = extents_of(panel);
  layout.empty = extents.x.empty();
  layout.bar_spacing = distance_between(extents.bars);
  if (panel.diagonal && !panel.x.range && !panel.y.range) {
    extents.x.add(extents.y);
    extents.y = extents.x;
  }
  layout.y = fitted(extents.y, panel.y);
  if (!panel.categories.empty()) {
    layout.x = category_scale(panel);
  } else if (!extents.bars.empty() && !panel.x.range) {
    const double half = layout.bar_spacing / 2;
    layout.x = make_scale({std::min(extents.x.low, std::max(*extents.bars.begin() - half, -1e300)),
                           std::max(extents.x.high, std::min(*extents.bars.rbegin() + half, 1e300))},
                          panel.x, true);
  } else {
    layout.x = fitted(extents.x, panel.x);
  }
  return layout;
}

std::string axis_title(const Axis& axis, const Scale& scale) {
  if (axis.unit.empty()) return axis.label;
  const std::string unit = scale.prefix + axis.unit;
  return axis.label.empty() ? unit : axis.label + " (" + unit + ")";
}

std::size_t stride_apart(const std::vector<double>& places, const std::vector<double>& sizes) {
  for (std::size_t stride = 1; stride < places.size(); ++stride) {
    bool apart = true;
    for (std::size_t i = stride; i < places.size() && apart; i += stride)
      apart = std::abs(places[i] - places[i - stride]) >= (sizes[i] + sizes[i - stride]) / 2;
    if (apart) return stride;
  }
  return std::max<std::size_t>(places.size(), 1);
}

Margins side_margins(const PanelLayout& layout) {
  const auto widest = [](const Scale& scale) {
    double width = 0;
    for (const Tick& tick : scale.ticks) width = std::max(width, text_width(tick.text, tick_font));
    return width;
  };
  Margins margins;
  margins.left = widest(layout.y) + 12 + (axis_title(layout.panel->y, layout.y).empty() ? 0 : label_font + 6);
  margins.right = 16;
  if (!layout.x.ticks.empty() && layout.panel->categories.empty())
    margins.right = std::max(margins.right, text_width(layout.x.ticks.back().text, tick_font) / 2 + 4);
  if (layout.panel->heat_map)
    margins.right = 12 + 12 + 8 + widest(layout.colour) +
                    (axis_title(layout.panel->heat_map->colour, layout.colour).empty() ? 4 : label_font + 12);
  return margins;
}

XNames x_names(const PanelLayout& layout, const Margins& margins, double plot_width) {
  constexpr double gap = 8;
  std::vector<double> places;
  std::vector<double> widths;
  for (const Tick& tick : layout.x.ticks) {
    places.push_back(layout.x.position(tick.value) * plot_width);
    widths.push_back(text_width(tick.text, tick_font) + gap);
  }
  const std::size_t stride = stride_apart(places, widths);
  const bool categories = !layout.panel->categories.empty();
  if (!categories || (stride == 1 && widths.front() < plot_width))
    return {.slanted = false, .stride = stride, .longest = plot_width};
  const std::vector<double> heights(places.size(), (tick_font + 2) / slant_sine);
  return {.slanted = true,
          .stride = stride_apart(places, heights),
          .longest = std::min(130.0, (margins.left + places.front()) / slant_cosine)};
}

double bottom_margin(const PanelLayout& layout, const XNames& names) {
  double height = tick_font + 8;
  if (names.slanted) {
    double longest = 0;
    for (const Tick& tick : layout.x.ticks) longest = std::max(longest, text_width(tick.text, tick_font));
    height += slant_sine * std::min(longest, names.longest);
  }
  return height + (axis_title(layout.panel->x, layout.x).empty() ? 4 : label_font + 8);
}

}  // namespace moelab::plot
