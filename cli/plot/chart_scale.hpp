// Where values stand on an axis, and which of them are named there.
#pragma once

#include <string>
#include <vector>

#include "cli/plot/svg_chart.hpp"

namespace moelab::plot {

/// Whether the ends are far enough apart for an axis to end there: by more than 1e-9 of their magnitude.
bool has_extent(const AxisRange& range);

struct Tick {
  double value = 0;
  std::string text{};
};

/// An axis with its ends settled.
struct Scale {
  ScaleKind kind = ScaleKind::linear;
  double low = 0;
  double high = 1;
  std::vector<Tick> ticks{};    // ascending, within [low, high] but for rounding
  std::vector<double> minor{};  // marks without names between them (log axes)
  std::string
      prefix{};  // of the axis's unit, in which the ticks' numbers are: "m" where they are milliseconds

  /// 0 at `low`, 1 at `high`; values beyond the ends are beyond 0 and 1, by at most 10.
  double position(double value) const;
  /// Whether a point of this value can be placed (see Series).
  bool can_place(double value) const;
  /// can_place() and between the ends.
  bool shows(double value) const;
};

/// Whether an axis of this scale can show the value at all.
bool can_place(double value, ScaleKind kind);

/// Ticks at 1, 2 or 5 times a power of ten (linear: multiples of such a step; log: those numbers themselves,
/// or powers of ten), between 3 and 8 of them; fewer only where `axis.integers` leaves no more. `tight`: the
/// ends are `data`'s, with the ticks between them; else they are moved outwards to such numbers, and data of
/// (nearly) no extent get some. axis.range is not looked at. Expects ends that can_place(), low <= high, for
/// `tight` has_extent().
Scale make_scale(AxisRange data, const Axis& axis, bool tight);

}  // namespace moelab::plot
