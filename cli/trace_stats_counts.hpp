// Statistics of a counts-only trace, printed and drawn.
#pragma once

#include <string>

#include "cli/plot/svg_chart.hpp"
#include "traces/statistics/counts_statistics.hpp"

namespace moelab::cli {

std::string counts_table(const CountsStatistics& statistics);
std::string counts_json(const CountsStatistics& statistics);
plot::Figure counts_figure(const CountsStatistics& statistics);

}  // namespace moelab::cli
