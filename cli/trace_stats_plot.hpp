// A picture of a trace's statistics.
#pragma once

#include <functional>
#include <string>

#include "cli/plot/svg_chart.hpp"
#include "traces/statistics/routing_statistics.hpp"

namespace moelab::cli {

/// "model (recorded): 1000 tokens of 10 requests, 8 layers of 32 experts, top-4".
std::string about_line(const RoutingStatistics& statistics);

/// Mean of a figure over the layers for which it is known; NaN: none.
double mean_over_layers(const RoutingStatistics& statistics,
                        const std::function<double(const LayerStatistics&)>& figure);

plot::Figure statistics_figure(const RoutingStatistics& statistics);

}  // namespace moelab::cli
