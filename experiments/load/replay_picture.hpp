// The comparison as a picture: distributions of requests' times, and the server over time.
#pragma once

#include "cli/plot/svg_chart.hpp"
#include "experiments/load/replay_report.hpp"

namespace moelab::replay {

plot::Figure replay_figure(const ServingFolder& folder, const Setup& setup, const Replay& replayed,
                           const Comparison& c, const std::string& times);

}  // namespace moelab::replay
