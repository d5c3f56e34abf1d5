// The picture of `moelab compare`: each policy's time per output token, and what is noise or, of several
// budgets, how it depends on them.
#pragma once

#include <string>

#include "cli/plot/svg_chart.hpp"
#include "sim/sweep/policy_comparison.hpp"

namespace moelab::cli {

/// A panel of times for each routing, and one of hits where they say something. At one budget policies stand
/// by rank; whiskers are the intervals of their differences to the best, which are noise where they reach its
/// level. At several each policy is a line over the budget, in a band: the interval of its mean over the
/// seeds.
plot::Figure comparison_figure(const PolicyComparison& comparison);

/// The picture as a file of this name holds it: SVG, or a page of HTML with the table below it.
std::string comparison_picture(const PolicyComparison& comparison, const std::string& path);

}  // namespace moelab::cli
