// A picture of a trace's statistics.
#pragma once

#include <string>

#include "cli/plot/svg_chart.hpp"
#include "traces/statistics/routing_statistics.hpp"

namespace moelab::cli {

/// "model (recorded): 1000 tokens of 10 requests, 8 layers of 32 experts, top-4".
std::string about_line(const RoutingStatistics& statistics);

plot::Figure statistics_figure(const RoutingStatistics& statistics);

}  // namespace moelab::cli
