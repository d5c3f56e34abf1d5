#include <cmath>
#include <stdexcept>
#include <string>

#include "cli/plot/chart_layout.hpp"

namespace moelab::plot {
namespace {

// Says which panel is meant.
struct Check {
  const Panel& panel;
  void require(bool holds, const std::string& rule) const {
    if (!holds) throw std::invalid_argument("panel '" + panel.title + "': " + rule);
  }
  void axis(const Axis& axis, const char* name) const;
  void series(const Series& series) const;
  void categories() const;
  void heat_map(const HeatMap& map) const;
};

void Check::axis(const Axis& axis, const char* name) const {
  if (!axis.range) return;
  const auto [low, high] = *axis.range;
  const bool usable = can_place(low, axis.scale) && can_place(high, axis.scale) && has_extent(*axis.range);
  require(usable, std::string("the range of axis ") + name +
                      " has no extent, is upside down or holds what the axis cannot show");
}

void Check::series(const Series& series) const {
  const std::size_t points = series.x.size();
  const std::string name = "series '" + series.name + "': ";
  require(series.y.size() == points, name + "x and y differ in length");
  require(series.low.size() == series.high.size(), name + "low and high differ in length");
  require(series.low.empty() || series.low.size() == points, name + "low, high and y differ in length");
  require(series.notes.empty() || series.notes.size() == points, name + "notes and y differ in length");
  require(series.mark != Mark::bars || panel.x.scale == ScaleKind::linear, name + "bars on a log x axis");
}

void Check::categories() const {
  require(panel.x.scale == ScaleKind::linear && !panel.x.range, "categories on a log or given x axis");
  const auto count = static_cast<double>(panel.categories.size());
  for (const Series& series : panel.series)
    for (const double x : series.x)
      require(!std::isfinite(x) || (x >= 0 && x < count && x == std::floor(x)),
              "series '" + series.name + "': x is no place in the categories");
}

void Check::heat_map(const HeatMap& map) const {
  require(map.values.size() == map.rows * map.columns, "the heat map's values are not rows * columns");
  require(panel.series.empty() && panel.categories.empty() && !panel.diagonal,
          "a heat map has its panel for itself");
  const bool counts = panel.x.scale == ScaleKind::linear && panel.y.scale == ScaleKind::linear &&
                      !panel.x.range && !panel.y.range;
  require(counts, "a heat map's x and y axes count, and take no scale or range");
  axis(map.colour, "colour");
}

}  // namespace

void check_panel(const Panel& panel) {
  const Check check{panel};
  check.axis(panel.x, "x");
  check.axis(panel.y, "y");
  for (const Series& series : panel.series) check.series(series);
  if (!panel.categories.empty()) check.categories();
  check.require(!panel.diagonal || (panel.x.scale == panel.y.scale && panel.categories.empty()),
                "a diagonal where x and y differ in scale");
  if (panel.heat_map) check.heat_map(*panel.heat_map);
}

}  // namespace moelab::plot
