// Running a scenario: trace, plans, engine, server -> results.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/substitution_quality.hpp"
#include "policies/planning/planning.hpp"
#include "sim/cluster/cluster_metrics.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario/scenario_document.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/memory_plan.hpp"
#include "sim/serving/metrics.hpp"
#include "sim/serving/server.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

struct ResourceUse {
  std::string name;
  double busy_s = 0;  // summed over slots
  std::uint32_t slots = 1;
};

/// One system's run.
struct RunResult {
  std::string scenario, system, executor;
  std::string question;       // of the scenario
  std::string model, device;  // titles; on a cluster, the cluster's in the device's place
  std::uint64_t seed = 0;
  Metrics metrics;
  MemoryPlan memory;
  Plan plan;  // pools; empty capacities for caches without pools
  bool planned = false;
  bool paged = false;     // SystemConfig::paging; where memory.shortfall is not 0, nothing was run
  ClusterResult cluster;  // of a scenario with a cluster: metrics are of all its servers together
  std::vector<ResourceUse> busy;
  ExpectedAccuracy quality;             // of a system that substitutes experts, where somebody measured it
  std::vector<std::string> provenance;  // where the numbers of device, trace and system are from
  std::vector<std::string>
      warnings;  // what a reader must know: unmeasured profile, synthetic trace, in-sample planning
  std::uint64_t operations = 0;
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

/// What resolves time: see sim/engine/engine.hpp. With simgrid, one run in the life of a process.
enum class ExecutorKind : std::uint8_t { fast, simgrid };

std::unique_ptr<engine::Engine> make_engine(ExecutorKind kind);

/// Resources of the same kind on all servers of a cluster have the same kind: "server1/gpu0" is a "gpu". Of
/// one device it is the name itself.
std::string resource_kind(const std::string& resource);

/// What an engine has done, into the result of its run.
void add_account(const engine::Engine& engine, RunResult& result);

/// What a system runs on.
struct Platform {
  std::unique_ptr<engine::Engine> engine;
  engine::ExpertMirror* mirror = nullptr;  // nullptr: nobody follows what is kept
};

struct RunOptions {
  ExecutorKind executor = ExecutorKind::fast;
  /// Makes what a system runs on, of which the costs say how large parts of experts are and the plan how much
  /// memory they may take; empty: a new engine of `executor`. The mirror lives at least as long as the
  /// engine.
  std::function<Platform(const SystemConfig&, const ExpertCosts&, const MemoryPlan&)> platform;
  /// Makes the observer of a system's run (nullptr: none). Resources are numbered as in RunResult::busy.
  std::function<GraphObserver*(const SystemConfig&)> observer;
  const RankInclusion* statistics = nullptr;  // planning_statistics(), where they were made before
  /// Kinds of resources that are infinitely fast: what runs there takes no time. Policies and plans go on
  /// counting on the times of the device. Not with `platform`.
  std::vector<std::string> free_resources;
  LoadWitness witness;  // of loads over the link of a discrete GPU; empty: the policy hears what was
  std::function<void(const SystemConfig&, std::uint64_t tokens, std::uint64_t all_tokens)> progress;
};

/// Before an engine runs, once it has all its resources: what options.free_resources asks.
void free_resources(const RunOptions& options, engine::Engine& engine);

/// Checks everything that can be checked without running: budget, policies and planning input of every
/// system. Throws InputError with everything that is wrong. `statistics`: planning_statistics(), where
/// somebody has them already; returned are those that were looked at, nothing where no system plans.
std::optional<RankInclusion> check_scenario(const Scenario& scenario, const RoutingTrace& trace,
                                            const RankInclusion* statistics = nullptr);

/// Throws InputError for what only comes out while running, such as an operation that takes longer than
/// engine::kLongest.
RunResult run_system(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace,
                     const RunOptions& options = {});

}  // namespace moelab
