#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sim/cluster/cluster_metrics.hpp"

namespace moelab {

/// Servers with the share of experts called at home over time, migrations and faults.
nlohmann::ordered_json cluster_json(const ClusterResult& cluster);

}  // namespace moelab
