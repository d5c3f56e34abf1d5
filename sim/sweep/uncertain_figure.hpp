// Which resource a cause of time belongs to, and which figure of the profile its length rests on.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/sweep/run_answer.hpp"

namespace moelab {

struct SystemConfig;

using CauseShares = std::vector<std::pair<std::string, double>>;  // cause and its share of the time

/// "CPU", "GPU", "disk", "link", "host memory", "network", "host", or "" where it is none of these. A fetch
/// under way (prefetch) is where the busiest resource is that fetches.
std::string place_of_cause(const std::string& cause, const Scenario& scenario, const SystemConfig& system,
                           const RunResult& result);

/// Of the figures behind at least a tenth of the time, the one whose source says least (assumed, fitted,
/// derived, paper and data sheet, measured, in this order); of equal ones that behind the most. Nothing where
/// the provenance has none of them.
std::optional<UncertainFigure> least_certain_figure(const CauseShares& causes, const Scenario& scenario,
                                                    const SystemConfig& system, const RunResult& result);

/// Whether a tenth of the time or more went to moving experts, of which the routing decides how many.
bool rests_on_routing(const CauseShares& causes);

}  // namespace moelab
