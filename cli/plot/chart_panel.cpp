#include "cli/plot/chart_panel.hpp"

#include <algorithm>
#include <string>

#include "cli/plot/chart_marks.hpp"
#include "cli/plot/chart_style.hpp"

namespace moelab::plot {
namespace {

void draw_stroke(Xml& xml, double x1, double y1, double x2, double y2, const char* colour) {
  xml.open("line").set("x1", x1).set("y1", y1).set("x2", x2).set("y2", y2).set("stroke", colour).close();
}

void draw_grid(Xml& xml, const PanelLayout& layout, const Size& plot) {
  if (layout.panel->heat_map) return;
  xml.open("g").set("class", "grid");
  for (const Tick& tick : layout.y.ticks) {
    const double y = layout.down(tick.value, plot);
    const bool sign_changes = tick.value == 0 && layout.y.low < 0;
    draw_stroke(xml, 0, y, plot.width, y, sign_changes ? axis_ink : grid_ink);
  }
  if (layout.panel->categories.empty())
    for (const Tick& tick : layout.x.ticks) {
      const double x = layout.across(tick.value, plot);
      draw_stroke(xml, x, 0, x, plot.height, grid_ink);
    }
  xml.close();
}

void draw_x_axis(Xml& xml, const PanelLayout& layout, const XNames& names, const Margins& margins,
                 const Size& plot) {
  xml.open("g").set("class", "x-axis");
  draw_stroke(xml, 0, plot.height, plot.width, plot.height, axis_ink);
  for (const double value : layout.x.minor) {
    const double x = layout.across(value, plot);
    draw_stroke(xml, x, plot.height, x, plot.height + 2.5, axis_ink);
  }
  for (std::size_t i = 0; i < layout.x.ticks.size(); ++i) {
    const Tick& tick = layout.x.ticks[i];
    const double x = layout.across(tick.value, plot);
    draw_stroke(xml, x, plot.height, x, plot.height + 4, axis_ink);
    if (i % names.stride != 0) continue;
    if (names.slanted) {
      draw_shortened(xml, x + 3, plot.height + 13, tick.text, names.longest, {.anchor = "end", .slant = -37});
    } else {
      draw_shortened(xml, x, plot.height + 16, tick.text, names.longest, {.anchor = "middle"});
    }
  }
  if (const std::string title = axis_title(layout.panel->x, layout.x); !title.empty())
    draw_shortened(xml, plot.width / 2, plot.height + margins.bottom - 5, title, plot.width,
                   {.font = label_font, .anchor = "middle"});
  xml.close();
}

// Ticks and names of a vertical scale to the left (side -1) or the right (side 1) of x.
void draw_vertical_names(Xml& xml, const Scale& scale, double x, int side, bool from_top, double height) {
  std::vector<double> places;
  for (const Tick& tick : scale.ticks) {
    const double at = scale.position(tick.value);
    places.push_back((from_top ? at : 1 - at) * height);
  }
  const std::size_t stride = stride_apart(places, std::vector<double>(places.size(), tick_font + 1));
  for (const double value : scale.minor) {
    const double y = (1 - scale.position(value)) * height;
    draw_stroke(xml, x, y, x + 2.5 * side, y, axis_ink);
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    draw_stroke(xml, x, places[i], x + 4 * side, places[i], axis_ink);
    if (i % stride == 0)
      draw_text(xml, x + 7 * side, places[i] + 4, scale.ticks[i].text,
                {.anchor = side < 0 ? "end" : "start"});
  }
}

void draw_y_axis(Xml& xml, const PanelLayout& layout, const Margins& margins, const Size& plot) {
  xml.open("g").set("class", "y-axis");
  draw_stroke(xml, 0, 0, 0, plot.height, axis_ink);
  draw_vertical_names(xml, layout.y, 0, -1, layout.panel->heat_map.has_value(), plot.height);
  if (const std::string title = axis_title(layout.panel->y, layout.y); !title.empty())
    draw_shortened(xml, -margins.left + label_font, plot.height / 2, title, plot.height,
                   {.font = label_font, .anchor = "middle", .slant = -90});
  xml.close();
}

void draw_colour_bar(Xml& xml, const PanelLayout& layout, const Margins& margins, const Size& plot) {
  constexpr double width = 12;
  const double x = plot.width + 12;
  const double step = plot.height / static_cast<double>(heat_shades);
  xml.open("g").set("class", "colour-bar").open("g").set("shape-rendering", "crispEdges");
  for (std::size_t i = 0; i < heat_shades; ++i) {
    xml.open("rect").set("x", x).set("y", plot.height - step * static_cast<double>(i + 1));
    xml.set("width", width).set("height", step).set("fill", heat_colour(i)).close();
  }
  xml.close();
  draw_vertical_names(xml, layout.colour, x + width, 1, false, plot.height);
  if (const std::string title = axis_title(layout.panel->heat_map->colour, layout.colour); !title.empty())
    draw_shortened(xml, plot.width + margins.right - 4, plot.height / 2, title, plot.height,
                   {.font = label_font, .anchor = "middle", .slant = -90});
  xml.close();
}

void draw_diagonal(Xml& xml, const PanelLayout& layout, const Size& plot) {
  const double low = std::max(layout.x.low, layout.y.low);
  const double high = std::min(layout.x.high, layout.y.high);
  if (low >= high) return;
  xml.open("line").set("class", "diagonal");
  xml.set("x1", layout.across(low, plot)).set("y1", layout.down(low, plot));
  xml.set("x2", layout.across(high, plot)).set("y2", layout.down(high, plot));
  xml.set("stroke", axis_ink).set("stroke-dasharray", "5 4").leaf("title", "equal").close();
}

std::string description(const PanelLayout& layout) {
  const Panel& panel = *layout.panel;
  std::string text = axis_title(panel.y, layout.y) + " over " + axis_title(panel.x, layout.x);
  if (panel.heat_map) return "heat map: " + text;
  for (std::size_t i = 0; i < panel.series.size(); ++i) text += (i == 0 ? ": " : ", ") + panel.series[i].name;
  return text;
}

}  // namespace

void draw_text(Xml& xml, double x, double y, std::string_view text, const TextStyle& style) {
  draw_shortened(xml, x, y, text, text_width(text, style.font), style);
}

void draw_shortened(Xml& xml, double x, double y, std::string_view text, double width,
                    const TextStyle& style) {
  xml.open("text").set("x", x).set("y", y).set("font-size", style.font).set("fill", style.colour);
  if (std::string_view(style.anchor) != "start") xml.set("text-anchor", style.anchor);
  if (style.bold) xml.set("font-weight", "bold");
  if (style.slant != 0)
    xml.set("transform", "rotate(" + coordinate_text(style.slant) + ' ' + coordinate_text(x) + ' ' +
                             coordinate_text(y) + ')');
  const std::string shown = shortened(text, style.font, width);
  if (shown != text) xml.leaf("title", text);
  xml.text(shown).close();
}

void draw_panel(Xml& xml, const PanelLayout& layout, const XNames& names, const Margins& margins,
                const Size& plot, const std::vector<std::size_t>& styles) {
  xml.leaf("desc", description(layout));
  draw_grid(xml, layout, plot);
  if (layout.panel->diagonal) draw_diagonal(xml, layout, plot);
  draw_marks(xml, layout, plot, styles);
  draw_x_axis(xml, layout, names, margins, plot);
  draw_y_axis(xml, layout, margins, plot);
  if (layout.panel->heat_map) draw_colour_bar(xml, layout, margins, plot);
  if (layout.empty)
    draw_text(xml, plot.width / 2, plot.height / 2, "no data", {.anchor = "middle", .colour = axis_ink});
}

}  // namespace moelab::plot
