// What tells the series of a figure apart, in colour and without.
#pragma once

#include <cstddef>
#include <string>

#include "cli/plot/svg_text.hpp"

namespace moelab::plot {

constexpr const char* ink = "#222222";       // texts
constexpr const char* axis_ink = "#666666";  // axes and their ticks
constexpr const char* grid_ink = "#e4e4e4";

/// Colour of the series that appears as `index`-th in a figure: Okabe and Ito's palette ("Color universal
/// design", 2008) without its yellow, which white paper swallows. Repeats after 7.
std::string series_colour(std::size_t index);

/// Value of stroke-dasharray, or "" for a solid line. Repeats after 5, so that colour and dashes together
/// repeat after 35.
std::string series_dashes(std::size_t index);

/// Writes the series' marker around (x, y), about 7 pixels wide, with `tooltip` unless that is empty. Shapes
/// repeat after 6.
void draw_marker(Xml& xml, std::size_t index, double x, double y, const std::string& tooltip);

/// What bars are filled with: the colour, or "url(#...)" of the hatching that write_hatchings() defines.
std::string series_fill(std::size_t index);

/// Writes <defs> with the hatchings of the first `count` series. What has the same name is the same in all
/// figures, so that several may stand in one document.
void write_hatchings(Xml& xml, std::size_t count);

/// Colour of a heat map at 0 (dark) to 1 (bright), "#rrggbb": viridis, whose brightness rises evenly. 64
/// shades.
std::string heat_colour(std::size_t shade);
constexpr std::size_t heat_shades = 64;

}  // namespace moelab::plot
