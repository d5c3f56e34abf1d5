// Draws the data of a panel: lines, steps, dots, bars, heat maps.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/plot/chart_layout.hpp"
#include "cli/plot/svg_text.hpp"

namespace moelab::plot {

/// Draws all series of the panel or its heat map, the plot's upper left corner being at (0, 0).
/// `styles[i]` is the look of series i (see chart_style.hpp).
void draw_marks(Xml& xml, const PanelLayout& layout, const Size& plot,
                const std::vector<std::size_t>& styles);

}  // namespace moelab::plot
