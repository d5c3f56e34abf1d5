// Draws one panel: title, axes, grid and what they carry.
#pragma once

#include <cstddef>
#include <vector>

#include "cli/plot/chart_layout.hpp"
#include "cli/plot/svg_text.hpp"

namespace moelab::plot {

/// A line of text; `anchor` is SVG's text-anchor, `slant` in degrees clockwise around (x, y).
struct TextStyle {
  double font = tick_font;
  const char* anchor = "start";
  const char* colour = "#222222";
  bool bold = false;
  double slant = 0;
};
void draw_text(Xml& xml, double x, double y, std::string_view text, const TextStyle& style);

/// Like draw_text(), but shortened to `width` pixels, the whole text being its tooltip then.
void draw_shortened(Xml& xml, double x, double y, std::string_view text, double width,
                    const TextStyle& style);

/// Draws the axes and the data, the plot's upper left corner being at (0, 0). The title is the caller's.
void draw_panel(Xml& xml, const PanelLayout& layout, const XNames& names, const Margins& margins,
                const Size& plot, const std::vector<std::size_t>& styles);

}  // namespace moelab::plot
