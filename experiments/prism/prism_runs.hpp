// Runs of the Prism paper's testbed, and what a question changes about them.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "sim/run.hpp"
#include "sim/scenario.hpp"

namespace moelab::prism {

inline constexpr std::size_t kServers = 3;  // of the testbed
inline const std::vector<std::string> kMethods = {"prism", "eplb", "smartmoe", "redundance", "uniform"};

/// A quarter of Table II.
struct Workload {
  const char* scenario;
  const char* name;
  bool deepseek, bigbench;
};
inline constexpr std::array<Workload, 4> kWorkloads = {
    {{"prism-deepseek-bigbench", "DeepSeek-V2-Lite, BigBench", true, true},
     {"prism-deepseek-multidata", "DeepSeek-V2-Lite, MultiData", true, false},
     {"prism-mixtral-bigbench", "Mixtral-8x7B, BigBench", false, true},
     {"prism-mixtral-multidata", "Mixtral-8x7B, MultiData", false, false}}};

/// What the framework takes: of the host's time, before a remote call and before a layer.
struct SoftwareCosts {
  double per_call_s = 0, per_layer_s = 0;
};

/// What a question changes about a scenario with one system.
using Change = std::function<void(Scenario&)>;
Change software(const SoftwareCosts& costs);  // of a system that calls other servers
/// Instead: in a runtime of configs/runtimes, whose experts take the host so many times what it says.
Change in_runtime(const std::string& name, double expert_times);
Change requests(std::uint32_t number);                              // of each phase of each server's users
Change arrivals_every(double seconds);                              // of each server, in the mean; Poisson
Change arrivals_times(double factor);                               // as many times as often
Change lengths(double factor);                                      // of prompts and answers, in tokens
Change prompts(const std::string& task, const TokenRange& tokens);  // of one task, where there is such a one
Change bandwidth(double megabits_per_s);  // of each server's network interface, both ways
Change testbeds(std::size_t number);      // with their users, side by side in one network
Change costs_of(MigrationConfig::Costs costs,
                double computing_every_s);  // that a decision to migrate goes by
Change seed(std::uint64_t number);          // of routing, requests and placements at random
Change even_history();  // all servers' first placement from all tasks of their first users alike
/// Requests at even distances, of mean length: all servers' users change what they ask at one time.
Change even_arrivals(double every_s);

struct Run {
  std::string scenario, system;
  std::vector<Change> changes{};  // in this order
  std::string name{};             // of a long one: its mean latency goes to standard error when it is there
  Run with(const std::vector<Change>& more) const;
};

/// Throws InputError.
RunResult run(const Run& run, ExecutorKind executor = ExecutorKind::fast);
/// The same for all of them, two at a time; results in their order.
std::vector<RunResult> run_all(const std::vector<Run>& runs);
/// The same with seeds 1 to `seeds`; by run and seed.
std::vector<std::vector<RunResult>> run_seeds(const std::vector<Run>& runs, std::size_t seeds);
/// With SimGrid, in a process of its own.
RunResult run_simgrid(const Run& run);

double mean_latency(const RunResult& result);
/// By seed.
std::vector<double> mean_latencies(const std::vector<RunResult>& by_seed);
/// By seed: how much less (below 0) or more one takes than the other with the same seed, as a share.
std::vector<double> changes_between(const std::vector<double>& after, const std::vector<double>& before);
/// Of the experts that all servers' users wanted from `from_s` to `to_s`, the share computed at home.
double share_at_home(const RunResult& result, double from_s = 0, double to_s = 1e18);

std::string fixed(double value, int digits = 2);
std::string percent(double share, int digits = 1);  // with its sign
/// "1.23 +- 0.04": mean and half the width of the 95 % interval, of several values.
std::string with_interval(const std::vector<double>& values, int digits = 2);
std::string percent_with_interval(const std::vector<double>& shares, int digits = 1);

}  // namespace moelab::prism
