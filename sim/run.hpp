// Running a scenario: trace, plans, engine, server -> results.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/run_result.hpp"
#include "sim/serving/arrival_witness.hpp"
#include "sim/serving/load_witness.hpp"
#include "sim/serving/pool_planning.hpp"

namespace moelab {

namespace engine {
class Engine;
class ExpertMirror;
class WindowMirror;
}  // namespace engine
class GraphObserver;
class RoutingTrace;
struct ExpertCosts;
struct Scenario;
struct SystemConfig;

/// What resolves time: see sim/engine/engine.hpp. With simgrid, one run in the life of a process.
enum class ExecutorKind : std::uint8_t { fast, simgrid };

std::unique_ptr<engine::Engine> make_engine(ExecutorKind kind);

/// Resources of the same kind on all servers of a cluster have the same kind: "server1/gpu0" is a "gpu". Of
/// one device it is the name itself.
std::string resource_kind(const std::string& resource);

/// What an engine has done, into the result of its run.
void add_account(const engine::Engine& engine, RunResult& result);

/// [layers * experts] uses by other requests, for cache policies that need a profile (expert_profile()); the
/// result says where they are from.
std::vector<double> profile_experts(const Scenario& scenario, const RoutingTrace& trace, RunResult& result);

/// What a system runs on.
struct Platform {
  std::unique_ptr<engine::Engine> engine;
  engine::ExpertMirror* mirror = nullptr;  // nullptr: what is kept is not followed
  engine::WindowMirror* window = nullptr;  // the same of a system that pages its experts
};

struct RunOptions {
  ExecutorKind executor = ExecutorKind::fast;
  /// Makes what a system runs on, of which the costs say how large parts of experts are and the plan how much
  /// memory they may take; empty: a new engine of `executor`. Mirrors live at least as long as the engine.
  std::function<Platform(const SystemConfig&, const ExpertCosts&, const MemoryPlan&)> platform;
  /// Makes the observer of a system's run (nullptr: none). Resources are numbered as in RunResult::busy.
  std::function<GraphObserver*(const SystemConfig&)> observer;
  const RankInclusion* statistics = nullptr;  // planning_statistics(), where they were made before
  /// Kinds of resources that are infinitely fast: what runs there takes no time. Policies and plans go on
  /// counting on the times of the device. Not with `platform`.
  std::vector<std::string> free_resources;
  LoadWitness witness;      // of loads over the link of a discrete GPU; empty: the policy hears what was
  ArrivalWitness arrivals;  // of requests that come when they come; empty: they come by the engine's clock
  std::function<void(const SystemConfig&, std::uint64_t tokens, std::uint64_t all_tokens)> progress;
};

/// What options.platform makes, or an engine of options.executor. Throws InputError for what a real machine
/// does not do, where that is what it is to run on.
Platform make_platform(const Scenario& scenario, const SystemConfig& system, const ExpertCosts& costs,
                       const MemoryPlan& memory, const RunOptions& options);

/// Before an engine runs, once it has all its resources: what options.free_resources asks.
void free_resources(const RunOptions& options, engine::Engine& engine);

/// Checks everything that can be checked without running: budget, policies and planning input of every
/// system. Throws InputError with everything that is wrong. `statistics`: planning_statistics(), where
/// the caller has them already; returned are those that were looked at, nothing where no system plans.
std::optional<RankInclusion> check_scenario(const Scenario& scenario, const RoutingTrace& trace,
                                            const RankInclusion* statistics = nullptr);

/// Of a machine that makes experts ready one by one: whether its device and the system's policies go
/// together, and can be made. Throws InputError.
void check_expert_policies(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace);

/// Tokens that a run of the system on one machine generates where it drops no request.
std::uint64_t tokens_of_run(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace);

/// Throws InputError for what only comes out while running, such as an operation that takes longer than
/// engine::kLongest.
RunResult run_system(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace,
                     const RunOptions& options = {});

/// What a system that reads through the page cache has of one memory for all, outside its budget; 0 where it
/// reads past it, where the GPU has a memory of its own, and of a cluster.
Bytes page_cache_beside_budget(const Scenario& scenario, const RunResult& result);

/// Throws InputError with what the system lacks, where it was not run for want of memory.
void check_fits(const RunResult& result);
/// The same before anything runs, for each of a scenario's systems that cache experts on one machine.
void check_fits(const Scenario& scenario, const RoutingTrace& trace);

}  // namespace moelab
