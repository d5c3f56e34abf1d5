#include "cli/plot/chart_style.hpp"

#include <array>
#include <cassert>
#include <cmath>

namespace moelab::plot {
namespace {

// A closed path through points given as "dx dy" pairs around the marker's middle.
template <std::size_t N>
std::string path_around(double x, double y, const std::array<std::array<double, 2>, N>& corners) {
  std::string path = "M";
  for (const auto& [dx, dy] : corners) {
    if (path.size() > 1) path += 'L';
    path += coordinate_text(x + dx) + ' ' + coordinate_text(y + dy);
  }
  return path + 'Z';
}

std::string marker_path(std::size_t shape, double x, double y) {
  using Corners = std::array<std::array<double, 2>, 4>;
  switch (shape) {
    case 1:
      return path_around(x, y, Corners{{{-3, -3}, {3, -3}, {3, 3}, {-3, 3}}});
    case 2:
      return path_around(x, y, std::array<std::array<double, 2>, 3>{{{0, -4}, {3.8, 3}, {-3.8, 3}}});
    case 3:
      return path_around(x, y, Corners{{{0, -4.3}, {4.3, 0}, {0, 4.3}, {-4.3, 0}}});
    case 4:
      return path_around(x, y, std::array<std::array<double, 2>, 3>{{{0, 4}, {3.8, -3}, {-3.8, -3}}});
    default:  // a cross
      return path_around(x, y,
                         std::array<std::array<double, 2>, 12>{{{-4, -1.2},
                                                                {-1.2, -1.2},
                                                                {-1.2, -4},
                                                                {1.2, -4},
                                                                {1.2, -1.2},
                                                                {4, -1.2},
                                                                {4, 1.2},
                                                                {1.2, 1.2},
                                                                {1.2, 4},
                                                                {-1.2, 4},
                                                                {-1.2, 1.2},
                                                                {-4, 1.2}}});
  }
}

constexpr std::size_t hatchings = 5;  // the first of them is none

std::string hatching_name(std::size_t index) {
  return "moelab-hatching-" + std::to_string(index % 7) + "-" + std::to_string(index % hatchings);
}

}  // namespace

std::string series_colour(std::size_t index) {
  constexpr std::array<const char*, 7> colours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                               "#000000", "#e69f00", "#56b4e9"};
  return colours[index % colours.size()];
}

std::string series_dashes(std::size_t index) {
  constexpr std::array<const char*, 5> dashes{"", "7 3", "2 2.5", "8 3 2 3", "12 4"};
  return dashes[index % dashes.size()];
}

void draw_marker(Xml& xml, std::size_t index, double x, double y, const std::string& tooltip) {
  const std::size_t shape = index % 6;
  if (shape == 0) {
    xml.open("circle").set("cx", x).set("cy", y).set("r", 3.3);
  } else {
    xml.open("path").set("d", marker_path(shape, x, y));
  }
  if (!tooltip.empty()) xml.leaf("title", tooltip);
  xml.close();
}

std::string series_fill(std::size_t index) {
  return index % hatchings == 0 ? series_colour(index) : "url(#" + hatching_name(index) + ")";
}

void write_hatchings(Xml& xml, std::size_t count) {
  constexpr std::array<const char*, hatchings> strokes{"", "M-1 1L1 -1M0 8L8 0M7 9L9 7", "M0 4L8 4",
                                                       "M-1 7L1 9M0 0L8 8M7 -1L9 1", "M4 0L4 8"};
  xml.open("defs");
  for (std::size_t index = 0; index < std::min(count, 7 * hatchings); ++index) {
    if (index % hatchings == 0) continue;
    xml.open("pattern").set("id", hatching_name(index)).set("patternUnits", "userSpaceOnUse");
    xml.set("width", "8").set("height", "8");
    xml.open("rect").set("width", "8").set("height", "8").set("fill", series_colour(index)).close();
    xml.open("path").set("d", strokes[index % hatchings]).set("stroke", "#ffffff").set("stroke-width", "1.4");
    xml.close().close();
  }
  xml.close();
}

std::string heat_colour(std::size_t shade) {
  constexpr std::array<std::array<int, 3>, 10> viridis{{{0x44, 0x01, 0x54},
                                                        {0x48, 0x28, 0x78},
                                                        {0x3e, 0x49, 0x89},
                                                        {0x31, 0x68, 0x8e},
                                                        {0x26, 0x82, 0x8e},
                                                        {0x1f, 0x9e, 0x89},
                                                        {0x35, 0xb7, 0x79},
                                                        {0x6d, 0xcd, 0x59},
                                                        {0xb4, 0xde, 0x2c},
                                                        {0xfd, 0xe7, 0x25}}};
  assert(shade < heat_shades);
  const std::size_t ninths = shade * (viridis.size() - 1);
  const std::size_t below = std::min(ninths / (heat_shades - 1), viridis.size() - 2);
  const auto rest = static_cast<int>(ninths - below * (heat_shades - 1));
  std::string text = "#";
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const int from = viridis[below][channel];
    const int value = from + (viridis[below + 1][channel] - from) * rest / static_cast<int>(heat_shades - 1);
    text += "0123456789abcdef"[value / 16];
    text += "0123456789abcdef"[value % 16];
  }
  return text;
}

}  // namespace moelab::plot
