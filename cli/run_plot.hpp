// The picture of `moelab run`: how systems served from a paged KV cache over time.
#pragma once

#include <string>
#include <vector>

#include "cli/plot/svg_chart.hpp"
#include "sim/run_result.hpp"

namespace moelab {
struct Scenario;
}

namespace moelab::cli {

/// Throws InputError that names the option where no system of the scenario has anything to draw over time.
void check_serving_figure(const Scenario& scenario);

/// Tokens per second, KV cache, requests, swap traffic and residency level, each a panel with a curve for
/// every system that ran.
plot::Figure serving_figure(const Scenario& scenario, const std::vector<RunResult>& results);

}  // namespace moelab::cli
