// Curves of a profile, from the points of a benchmark case.
#pragma once

#include <string>

#include "hw/calibrate/figure_ledger.hpp"

namespace moelab {

/// What the amounts of a curve count, and the parameter that has them.
enum class CurveAmount { bytes, elements, tokens };

/// The points' medians over their amounts, made not to fall; a fixed cost and a rate are fitted to say how
/// far it is from those. Two amounts at least (the caller sees to that).
Sourced<Curve> enter_curve(FigureLedger& ledger, const std::string& path, const std::string& what,
                           BenchPoints points, CurveAmount amount);

/// How many amounts the points have: what a curve needs two of.
std::size_t amounts_of(const BenchPoints& points, CurveAmount amount);

/// "64 us + 2.41 GB/s".
std::string shown(const AffineFit& fit, CurveAmount amount);

}  // namespace moelab
