// Charts as SVG 1.1 files that stand alone: no scripts, no fonts or images from elsewhere.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace moelab::plot {

/// Ends of an axis, low < high.
struct AxisRange {
  double low = 0;
  double high = 1;
};

enum class ScaleKind { linear, log };

struct Axis {
  std::string label{};
  /// Put after the label in parentheses. Give units without a prefix: s, J, W, B and B/s are shown with the
  /// one that suits the numbers ("ms", "GB"); numbers along a log axis that goes over several have it each
  /// ("10 ms"). Numbers of other units, and those without, carry k, M, G, ...
  std::string unit{};
  ScaleKind scale = ScaleKind::linear;
  /// What the axis shows. Without it: what the data need, rounded outwards to whole ticks. Far enough
  /// apart for an axis (1e-9 of their magnitude), and on a log axis at or above 1e-280.
  std::optional<AxisRange> range{};
  /// Only whole numbers are named along the axis (layers, experts).
  bool integers = false;
};

/// line: straight pieces between the points. level: likewise, without markers on them: what data are held
/// against. step: y[i] holds from x[i] to x[i+1]. bars: from 0 (on a log
/// axis, from its lower end) to y, side by side where several series have bars.
enum class Mark { line, level, dots, bars, step };

/// Points in the order in which a line runs through them. A value that is NaN or infinite, beyond 1e300 in
/// magnitude, or below 1e-280 on a log axis, makes its point a gap. Series of the same name look the same in
/// all panels of a figure; one without a name or points is left out of the legend.
struct Series {
  std::string name{};
  std::vector<double> x{};
  std::vector<double> y{};  // as many as x
  /// Both empty or both as many as y: a band around a line, whiskers on dots and bars.
  std::vector<double> low{};
  std::vector<double> high{};
  Mark mark = Mark::line;
  /// Empty, or one text a point, which its tooltip begins with.
  std::vector<std::string> notes{};
};

/// A coloured table. Row 0 is the topmost; the panel's axes count columns (x) and rows (y).
struct HeatMap {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<double> values{};  // rows * columns, row by row; gaps stay white
  Axis colour{};                 // of the colour bar
};

struct Panel {
  std::string title{};
  Axis x{};
  Axis y{};
  std::vector<Series> series{};
  std::optional<HeatMap> heat_map{};  // then there are no series
  /// If given, x is the place of a point in this list (0, 1, ...), and these names stand along the axis.
  std::vector<std::string> categories{};
  /// Draws y = x. Axes without a range of their own then share one; both have the same scale.
  bool diagonal = false;
};

struct Figure {
  std::string title{};
  std::string caption{};    // below everything; where the data come from, such as "synthetic trace, seed 1"
  std::size_t columns = 0;  // of panels; 0: chosen by their number, at most 3
  std::vector<Panel> panels{};
  double panel_width = 400;  // pixels, with its axes; at least 200
  double panel_height =
      270;  // pixels, with its axes; at least 150; title, legend and slanted names add to it
};

/// The figure as the text of an SVG file; the same text on every machine. Series of more than 2000 points are
/// thinned to what can be told apart, keeping the smallest and the largest value of each column of pixels.
/// Throws std::invalid_argument, naming the panel, for a figure that is not as described above.
std::string svg(const Figure& figure);

/// Writes svg(figure) whole or not at all. Throws InputError, which names the file, if it cannot.
void write_svg(const Figure& figure, const std::filesystem::path& path);

}  // namespace moelab::plot
