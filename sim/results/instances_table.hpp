// What the instances of systems did, for people and for programs.
#pragma once

#include <vector>

#include "models/json.hpp"
#include "sim/results/text_report.hpp"
#include "sim/run_result.hpp"

namespace moelab {

/// Two tables: a row an instance, of systems with several; and a row a system whose requests' KV caches were
/// sent from one to another.
void add_instances(const std::vector<RunResult>& results, TextReport& report);
/// Of a system with several instances.
nlohmann::ordered_json instances_json(const InstancesResult& instances);

}  // namespace moelab
