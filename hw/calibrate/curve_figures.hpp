// Curves of a profile, from the points of a benchmark case.
#pragma once

#include <span>
#include <string>

#include "hw/calibrate/figure_ledger.hpp"

namespace moelab {

/// What the amounts of a curve count, and the parameter that has them.
enum class CurveAmount { bytes, elements, tokens };

/// What is known of the time beyond the largest amount, to which the slope of the last two points goes on.
enum class Beyond {
  as_measured,    // that slope, whatever it is: a GPU's expert may take as long for 16 tokens as for 4
  no_faster_rate  // a rate bounds it, see most_rate()
};

/// The points' medians over their amounts, made not to fall; a fixed cost and a rate are fitted to say how
/// far it is from those. Two amounts at least (the caller sees to that).
Sourced<Curve> enter_curve(FigureLedger& ledger, const std::string& path, const std::string& what,
                           BenchPoints points, CurveAmount amount, Beyond beyond = Beyond::as_measured);

/// The most amount a second that points of a fixed cost and a rate can stand for: the fitted rate, but not
/// below the best mean rate of a point, and not above twice that (at the largest amount the rate takes half
/// of the time at least). Amounts and seconds are above 0.
double most_rate(std::span<const CurvePoint> points);

/// How many amounts the points have: what a curve needs two of.
std::size_t amounts_of(const BenchPoints& points, CurveAmount amount);

/// "64 us + 2.41 GB/s".
std::string shown(const AffineFit& fit, CurveAmount amount);

}  // namespace moelab
