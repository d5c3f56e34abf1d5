// What one system's run leaves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/substitution_quality.hpp"
#include "policies/planning/planning.hpp"
#include "sim/cluster/cluster_metrics.hpp"
#include "sim/cluster/instance_metrics.hpp"
#include "sim/scenario/scenario_document.hpp"
#include "sim/service_rates.hpp"
#include "sim/serving/memory_plan.hpp"
#include "sim/serving/metrics.hpp"

namespace moelab {

struct ResourceUse {
  std::string name;
  double busy_s = 0;  // summed over slots
  std::uint32_t slots = 1;
};

/// Which of a run's metrics have a meaning there; the others are left out of what it writes.
struct Counted {
  bool lookups = false;    // of experts, one by one: hits by state
  bool bytes = false;      // read, by tier
  bool prefetch = false;   // a policy fetched ahead
  bool routing = false;    // a policy replaced experts
  bool execution = false;  // a policy chose who makes ready what is missing
  bool prefixes = false;   // prompts have beginnings in common, which a KV cache in blocks may hold
};

/// One system's run.
struct RunResult {
  std::string scenario, system, executor;
  std::string question;       // of the scenario
  std::string model, device;  // titles; on a cluster, the cluster's in the device's place
  std::string runtime;        // title of the software that it runs in; empty where none is said
  std::string routing;        // what it was drawn from, and how well that is known: routing_title()
  std::uint64_t seed = 0;
  Metrics metrics;
  Counted counted;
  MemoryPlan memory;
  Plan plan;  // pools; empty capacities for caches without pools
  bool planned = false;
  bool paged = false;         // SystemConfig::paging
  InstancesResult instances;  // of a system with several: metrics are of all of them together
  ClusterResult cluster;      // of a scenario with a cluster: metrics are of all its servers together
  std::vector<ResourceUse> busy;
  ServiceRates service;
  ExpectedAccuracy quality;             // of a system that substitutes experts, where it was measured
  std::vector<std::string> provenance;  // where the numbers of device, trace and system are from
  std::vector<std::string>
      warnings;  // what a reader must know: unmeasured profile, synthetic trace, in-sample planning
  std::uint64_t operations = 0;
  std::uint64_t wakes = 0;           // engine::Engine::wakes()
  std::vector<std::string> classes;  // of requests, in the workload's order; empty: it has none
  std::string document = "{}";       // scenario_document(): what was run, to be run again
  std::vector<DataFile> data_files;  // that it read

  // Compiled once: copying the members is most of what a source that takes one by value compiles.
  RunResult();
  RunResult(const RunResult&);
  RunResult(RunResult&&) noexcept;
  RunResult& operator=(const RunResult&);
  RunResult& operator=(RunResult&&) noexcept;
  ~RunResult();
};

/// What a system lacks that was not run for want of memory; "" where it was run.
std::string lacking_text(const RunResult& result);

}  // namespace moelab
