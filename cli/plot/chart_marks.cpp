#include "cli/plot/chart_marks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cli/plot/chart_style.hpp"
#include "cli/plot/point_thinning.hpp"

namespace moelab::plot {
namespace {

constexpr double clip_margin = 3;  // what lines and markers on the plot's edge reach beyond it

std::string place(double x, double y) {
  return coordinate_text(x) + ' ' + coordinate_text(y);
}

std::string named_value(const Axis& axis, double value) {
  return (axis.label.empty() ? "" : axis.label + ' ') + number_text(value, 4) +
         (axis.unit.empty() ? "" : ' ' + axis.unit);
}

// One series of a panel on its way to the file.
struct Drawing {
  Xml& xml;
  const PanelLayout& layout;
  const Size& plot;
  const Series& series;
  std::size_t style = 0;
  std::vector<Spot> spots{};
  bool with_tooltips = true;  // in a crowd a reader cannot point at one

  std::vector<Spot> all_spots() const;
  double band_end(double value) const;
  std::string tooltip(std::size_t index) const;
  bool shows(std::size_t index) const {
    return layout.x.shows(series.x[index]) && layout.y.shows(series.y[index]);
  }
  void draw_whisker(const Spot& spot, double x) const;
  void draw_dots() const;
  void draw_bars(std::size_t place_in_group, std::size_t group) const;
  void draw_line() const;
  void draw_band(std::size_t begin, std::size_t end) const;
  void draw_piece(std::size_t begin, std::size_t end) const;
  void draw_line_markers() const;
};

// An end that lies below what a log axis can show stands at the axis' lower end.
double Drawing::band_end(double value) const {
  if (layout.y.kind == ScaleKind::log && value < layout.y.low && value >= -1e300) value = layout.y.low;
  return layout.y.can_place(value) ? layout.down(value, plot) : std::numeric_limits<double>::quiet_NaN();
}

std::vector<Spot> Drawing::all_spots() const {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  std::vector<Spot> all(series.x.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = {.index = i, .x = 0, .y = none, .low = none, .high = none};
    if (!layout.x.can_place(series.x[i]) || !layout.y.can_place(series.y[i])) continue;
    all[i].x = layout.across(series.x[i], plot);
    all[i].y = layout.down(series.y[i], plot);
    if (series.low.empty()) continue;
    all[i].low = band_end(series.low[i]);
    all[i].high = band_end(series.high[i]);
  }
  return all;
}

std::string Drawing::tooltip(std::size_t index) const {
  if (!with_tooltips) return "";
  const Panel& panel = *layout.panel;
  std::string text = series.notes.empty() ? "" : series.notes[index] + ": ";
  if (!series.name.empty()) text += series.name + ", ";
  text += panel.categories.empty() ? named_value(panel.x, series.x[index])
                                   : panel.categories[static_cast<std::size_t>(series.x[index])];
  text += ", " + named_value(panel.y, series.y[index]);
  if (series.low.empty() || !std::isfinite(series.low[index]) || !std::isfinite(series.high[index]))
    return text;
  return text + " (" + number_text(series.low[index], 4) + " to " + number_text(series.high[index], 4) + ")";
}

void Drawing::draw_whisker(const Spot& spot, double x) const {
  if (std::isnan(spot.low) || std::isnan(spot.high)) return;
  const double low = std::clamp(spot.low, 0.0, plot.height);
  const double high = std::clamp(spot.high, 0.0, plot.height);
  const std::string path = "M" + place(x, low) + "L" + place(x, high) + "M" + place(x - 3, low) + "L" +
                           place(x + 3, low) + "M" + place(x - 3, high) + "L" + place(x + 3, high);
  xml.open("path").set("class", "whisker").set("d", path).set("fill", "none");
  xml.set("stroke", series.mark == Mark::bars ? ink : series_colour(style))
      .set("stroke-width", "1.2")
      .close();
}

void Drawing::draw_dots() const {
  for (const Spot& spot : spots) {
    if (spot.gap() || !shows(spot.index)) continue;
    draw_whisker(spot, spot.x);
    draw_marker(xml, style, spot.x, spot.y, tooltip(spot.index));
  }
}

void Drawing::draw_bars(std::size_t place_in_group, std::size_t group) const {
  // A given range may be much narrower than a bar.
  const double share = std::min(layout.bar_spacing / (layout.x.high - layout.x.low), 1000.0);
  const double spacing = share * plot.width;
  const double width = 0.8 * spacing / static_cast<double>(group);
  const bool log = layout.y.kind == ScaleKind::log;
  const double foot = std::clamp(log ? plot.height : layout.down(0, plot), 0.0, plot.height);
  for (const Spot& spot : spots) {
    if (spot.gap() || !layout.x.shows(series.x[spot.index])) continue;
    const double start = spot.x - 0.4 * spacing + width * static_cast<double>(place_in_group);
    const double left = std::clamp(start, 0.0, plot.width);
    const double right = std::clamp(start + std::max(width, 0.5), 0.0, plot.width);
    if (left >= right) continue;
    const double head = std::clamp(spot.y, 0.0, plot.height);
    xml.open("rect").set("x", left).set("y", std::min(head, foot)).set("width", right - left);
    xml.set("height", std::abs(head - foot)).set("fill", series_fill(style));
    if (width > 6) xml.set("stroke", series_colour(style)).set("stroke-width", "0.8");
    if (with_tooltips) xml.leaf("title", tooltip(spot.index));
    xml.close();
    draw_whisker(spot, (left + right) / 2);
  }
}

// Between gaps; `end` is behind the last spot.
void Drawing::draw_piece(std::size_t begin, std::size_t end) const {
  std::string path = "M" + place(spots[begin].x, spots[begin].y);
  for (std::size_t i = begin + 1; i < end; ++i) {
    if (series.mark == Mark::step) path += "L" + place(spots[i].x, spots[i - 1].y);
    path += "L" + place(spots[i].x, spots[i].y);
  }
  xml.open("path")
      .set("class", "line")
      .set("d", path)
      .set("fill", "none")
      .set("stroke", series_colour(style));
  xml.set("stroke-width", "1.8").set("stroke-linejoin", "round");
  if (const std::string dashes = series_dashes(style); !dashes.empty()) xml.set("stroke-dasharray", dashes);
  xml.close();
}

void Drawing::draw_band(std::size_t begin, std::size_t end) const {
  std::string there;
  std::vector<std::string> back;
  for (std::size_t i = begin; i < end; ++i) {
    if (series.mark == Mark::step && i > begin) {
      there += 'L' + place(spots[i].x, spots[i - 1].high);
      back.push_back('L' + place(spots[i].x, spots[i - 1].low));
    }
    there += (there.empty() ? 'M' : 'L') + place(spots[i].x, spots[i].high);
    back.push_back('L' + place(spots[i].x, spots[i].low));
  }
  for (auto piece = back.rbegin(); piece != back.rend(); ++piece) there += *piece;
  xml.open("path").set("class", "band").set("d", there + 'Z').set("fill", series_colour(style));
  xml.set("fill-opacity", "0.18").set("stroke", "none").close();
}

void Drawing::draw_line() const {
  xml.open("svg").set("x", -clip_margin).set("y", -clip_margin);
  xml.set("width", plot.width + 2 * clip_margin).set("height", plot.height + 2 * clip_margin);
  xml.set("viewBox", place(-clip_margin, -clip_margin) + ' ' +
                         place(plot.width + 2 * clip_margin, plot.height + 2 * clip_margin));
  const auto each_run = [&](auto&& breaks, auto&& draw) {
    for (std::size_t begin = 0; begin < spots.size();) {
      std::size_t end = begin;
      while (end < spots.size() && !breaks(spots[end])) ++end;
      if (end > begin + 1) draw(begin, end);
      begin = end + 1;
    }
  };
  const auto no_band = [](const Spot& spot) {
    return spot.gap() || std::isnan(spot.low) || std::isnan(spot.high);
  };
  each_run(no_band, [&](std::size_t begin, std::size_t end) { draw_band(begin, end); });
  each_run([](const Spot& spot) { return spot.gap(); },
           [&](std::size_t begin, std::size_t end) { draw_piece(begin, end); });
  xml.close();
}

// On every point of a short line, on about ten of a long one, and on points alone between gaps.
void Drawing::draw_line_markers() const {
  const std::size_t stride = spots.size() <= 30 ? 1 : (spots.size() + 9) / 10;
  for (std::size_t i = 0; i < spots.size(); ++i) {
    const Spot& spot = spots[i];
    if (spot.gap() || !shows(spot.index)) continue;
    const bool alone = (i == 0 || spots[i - 1].gap()) && (i + 1 == spots.size() || spots[i + 1].gap());
    if (!alone && i % stride != style * 3 % 10 * stride / 10)
      continue;  // not where the next series has its own
    draw_marker(xml, style, spot.x, spot.y, tooltip(spot.index));
  }
}

void draw_series(Drawing drawing, std::size_t place_in_group, std::size_t group) {
  const Series& series = drawing.series;
  drawing.spots = drawing.all_spots();
  const std::size_t before = drawing.spots.size();
  drawing.spots = thinned(std::move(drawing.spots), series.mark);
  const bool line = series.mark == Mark::line || series.mark == Mark::level || series.mark == Mark::step;
  drawing.with_tooltips = line || before <= 2000;
  Xml& xml = drawing.xml;
  xml.open("g").set("class", "series").set("fill", series_colour(drawing.style));
  if (!series.name.empty()) xml.leaf("title", series.name);
  if (line) {
    drawing.draw_line();
    if (series.mark != Mark::level) drawing.draw_line_markers();
  } else if (series.mark == Mark::dots) {
    drawing.draw_dots();
  } else {
    drawing.draw_bars(place_in_group, group);
  }
  xml.close();
}

// One path a shade: a rectangle for each run of cells in a row.
void draw_heat_map(Xml& xml, const PanelLayout& layout, const Size& plot) {
  const HeatMap& map = *layout.panel->heat_map;
  std::vector<std::string> paths(heat_shades);
  const auto shade = [&](std::size_t row, std::size_t column) {
    const double value = map.values[row * map.columns + column];
    if (!layout.colour.can_place(value)) return heat_shades;
    const double at = std::clamp(layout.colour.position(value), 0.0, 1.0);
    return std::min(static_cast<std::size_t>(at * static_cast<double>(heat_shades)), heat_shades - 1);
  };
  for (std::size_t row = 0; row < map.rows; ++row)
    for (std::size_t column = 0; column < map.columns;) {
      const std::size_t colour = shade(row, column);
      const double left = layout.across(static_cast<double>(column) - 0.5, plot);
      while (column < map.columns && shade(row, column) == colour) ++column;
      if (colour == heat_shades) continue;
      const double right = layout.across(static_cast<double>(column) - 0.5, plot);
      const double top = layout.down(static_cast<double>(row) - 0.5, plot);
      const double bottom = layout.down(static_cast<double>(row) + 0.5, plot);
      paths[colour] += 'M' + place(left, top) + 'H' + coordinate_text(right) + 'V' + coordinate_text(bottom) +
                       'H' + coordinate_text(left) + 'Z';
    }
  xml.open("g").set("class", "heat").set("shape-rendering", "crispEdges");
  for (std::size_t i = 0; i < heat_shades; ++i)
    if (!paths[i].empty()) xml.open("path").set("d", paths[i]).set("fill", heat_colour(i)).close();
  xml.close();
}

}  // namespace

void draw_marks(Xml& xml, const PanelLayout& layout, const Size& plot,
                const std::vector<std::size_t>& styles) {
  const Panel& panel = *layout.panel;
  if (panel.heat_map) draw_heat_map(xml, layout, plot);
  const auto bars = [](const Series& series) { return series.mark == Mark::bars; };
  const auto group = static_cast<std::size_t>(std::count_if(panel.series.begin(), panel.series.end(), bars));
  std::size_t place_in_group = 0;
  for (const bool drawing_bars : {true, false})  // bars lie beneath everything else
    for (std::size_t i = 0; i < panel.series.size(); ++i) {
      if (bars(panel.series[i]) != drawing_bars || panel.series[i].x.empty()) continue;
      draw_series({xml, layout, plot, panel.series[i], styles[i]}, place_in_group, group);
      if (drawing_bars) ++place_in_group;
    }
}

}  // namespace moelab::plot
