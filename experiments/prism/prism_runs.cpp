#include "experiments/prism/prism_runs.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <future>
#include <map>
#include <mutex>
#include <utility>

#include "experiments/claims/claim.hpp"
#include "experiments/claims/study_scenario.hpp"
#include "sim/results/result_transfer.hpp"
#include "sim/results/statistics.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/simgrid_module.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::prism {
namespace {

/// Routing depends on a scenario's model, tasks and seed, of which changes touch the seed alone: drawn once.
const RoutingTrace& trace_of(const std::string& name, const Scenario& scenario) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::uint64_t>, RoutingTrace> traces;
  const std::scoped_lock lock(mutex);
  const auto key = std::make_pair(name, scenario.seed);
  const auto found = traces.find(key);
  return found != traces.end() ? found->second : traces.emplace(key, scenario_trace(scenario)).first->second;
}

std::uint32_t scaled(std::uint32_t tokens, double factor) {
  return std::max(1U, static_cast<std::uint32_t>(std::lround(tokens * factor)));
}

std::uint32_t middle(const TokenRange& range) {
  return (range.low + range.high + 1) / 2;
}

}  // namespace

Change software(const SoftwareCosts& costs) {
  return [costs](Scenario& s) {
    SystemConfig& system = s.systems.front();
    system.host_per_call = Seconds(costs.per_call_s);
    system.host_per_layer = Seconds(costs.per_layer_s);
    system.host_source = "fitted to Table II's rows of Uniform";
  };
}

Change in_runtime(const std::string& name, double expert_times) {
  Runtime runtime = load_runtime(name);
  runtime.expert_host *= expert_times;
  return [runtime](Scenario& s) { set_runtime(runtime, s.systems.front()); };
}

Change requests(std::uint32_t number) {
  return [number](Scenario& s) {
    for (ServerLoad& load : s.cluster->loads)
      for (LoadPhase& phase : load.phases) phase.requests = number;
  };
}

Change arrivals_every(double seconds) {
  return [seconds](Scenario& s) {
    for (ServerLoad& load : s.cluster->loads) load.arrivals_per_s = 1 / seconds;
  };
}

Change arrivals_times(double factor) {
  return [factor](Scenario& s) {
    for (ServerLoad& load : s.cluster->loads) load.arrivals_per_s *= factor;
  };
}

Change lengths(double factor) {
  return [factor](Scenario& s) {
    for (TaskConfig& task : s.cluster->tasks)
      for (TokenRange* range : {&task.prompt, &task.output})
        *range = {scaled(range->low, factor), scaled(range->high, factor)};
  };
}

Change prompts(const std::string& task, const TokenRange& tokens) {
  return [task, tokens](Scenario& s) {
    for (TaskConfig& t : s.cluster->tasks)
      if (t.name == task) t.prompt = tokens;
  };
}

Change bandwidth(double megabits_per_s) {
  return [megabits_per_s](Scenario& s) {
    for (ClusterServer& server : s.cluster->profile.servers)
      server.out = server.in = BytesPerSecond(megabits_per_s * 1e6 / 8);
  };
}

Change testbeds(std::size_t number) {
  return [number](Scenario& s) {
    ClusterConfig& c = *s.cluster;
    const std::size_t servers = c.profile.servers.size();
    for (std::size_t copy = 1; copy < number; ++copy)
      for (std::size_t i = 0; i < servers; ++i) {
        ClusterServer server = c.profile.servers[i];
        server.name = server.host = server.name + "-" + std::to_string(copy + 1);
        c.profile.servers.push_back(server);
        c.profile.device_of.push_back(c.profile.device_of[i]);
        c.loads.push_back(ServerLoad(c.loads[i]));
      }
  };
}

Change costs_of(MigrationConfig::Costs costs, double computing_every_s) {
  return [costs, computing_every_s](Scenario& s) {
    MigrationConfig& migration = *s.systems.front().placed->migration;
    migration.costs = costs;
    migration.computing_every = Seconds(computing_every_s);
  };
}

Change seed(std::uint64_t number) {
  return [number](Scenario& s) { s.seed = number; };
}

Change even_history() {
  return [](Scenario& s) {
    std::vector<double> shares(s.cluster->tasks.size(), 0);
    for (const ServerLoad& load : s.cluster->loads)
      for (std::size_t task = 0; task < shares.size(); ++task)
        shares[task] += load.phases.front().shares[task] / static_cast<double>(s.cluster->loads.size());
    for (ServerLoad& load : s.cluster->loads) load.history = shares;
  };
}

Change even_arrivals(double every_s) {
  return [every_s](Scenario& s) {
    for (ServerLoad& load : s.cluster->loads) {
      load.arrivals_per_s = 0;
      for (const LoadPhase& phase : load.phases) {
        const auto task = std::max_element(phase.shares.begin(), phase.shares.end()) - phase.shares.begin();
        const TaskConfig& t = s.cluster->tasks[static_cast<std::size_t>(task)];
        for (std::uint32_t i = 0; i < phase.requests; ++i) {
          RequestRecord& record = load.log.emplace_back();
          record.arrival_s = every_s * static_cast<double>(load.log.size());
          record.prompt_tokens = middle(t.prompt);
          record.output_tokens = middle(t.output);
        }
      }
    }
  };
}

Run Run::with(const std::vector<Change>& more) const {
  Run run = *this;
  run.changes.insert(run.changes.end(), more.begin(), more.end());
  return run;
}

RunResult run(const Run& run, ExecutorKind executor) {
  Scenario s = study_scenario(run.scenario, {{"systems", "[" + run.system + "]"}});
  for (const Change& change : run.changes) change(s);
  const RoutingTrace& trace = trace_of(run.scenario, s);
  check_scenario(s, trace);
  RunOptions options;
  options.executor = executor;
  return run_system(s, s.systems.front(), trace, options);
}

std::vector<RunResult> run_all(const std::vector<Run>& runs) {
  constexpr std::size_t kAtOnce = 2;
  std::vector<RunResult> results(runs.size());
  std::atomic<std::size_t> next = 0;
  std::vector<std::future<void>> workers;
  for (std::size_t i = 0; i < kAtOnce; ++i)
    workers.push_back(std::async(std::launch::async, [&] {
      for (std::size_t at = next++; at < runs.size(); at = next++) {
        results[at] = run(runs[at]);
        if (!runs[at].name.empty())
          std::fprintf(stderr, "%s: %.4f s\n", runs[at].name.c_str(), mean_latency(results[at]));
      }
    }));
  for (std::future<void>& worker : workers) worker.get();
  return results;
}

std::vector<std::vector<RunResult>> run_seeds(const std::vector<Run>& runs, std::size_t seeds) {
  std::vector<Run> all;
  for (const Run& one : runs)
    for (std::uint64_t number = 1; number <= seeds; ++number) {
      all.push_back(one.with({seed(number)}));
      if (!one.name.empty()) all.back().name += ", seed " + std::to_string(number);
    }
  std::vector<RunResult> results = run_all(all);
  std::vector<std::vector<RunResult>> by_run(runs.size());
  for (std::size_t i = 0; i < results.size(); ++i) by_run[i / seeds].push_back(std::move(results[i]));
  return by_run;
}

RunResult run_simgrid(const Run& one) {
  return unpack_result(
      engine::run_in_simgrid_child([&] { return pack_result(run(one, ExecutorKind::simgrid)); }));
}

double mean_latency(const RunResult& result) {
  return mean(result.metrics.end_to_end_s);
}

std::vector<double> mean_latencies(const std::vector<RunResult>& by_seed) {
  std::vector<double> latencies;
  for (const RunResult& r : by_seed) latencies.push_back(mean_latency(r));
  return latencies;
}

std::vector<double> changes_between(const std::vector<double>& after, const std::vector<double>& before) {
  std::vector<double> changes;
  for (std::size_t i = 0; i < after.size(); ++i) changes.push_back(after[i] / before[i] - 1);
  return changes;
}

double share_at_home(const RunResult& result, double from_s, double to_s) {
  double local = 0, all = 0;
  for (const ServerResult& server : result.cluster.servers) {
    const double width = server.local_share.width_s();
    const auto& buckets = server.local_share.buckets();
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      const double at = (static_cast<double>(i) + 0.5) * width;
      if (at < from_s || at >= to_s) continue;
      local += buckets[i].local;
      all += buckets[i].local + buckets[i].remote;
    }
  }
  return all > 0 ? local / all : 0;
}

std::string fixed(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string percent(double share, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%+.*f %%", digits, 100 * share);
  return text.data();
}

std::string with_interval(const std::vector<double>& values, int digits) {
  const claims::Interval interval = claims::interval95(values);
  if (values.size() == 1) return fixed(interval.mean, digits);
  return fixed(interval.mean, digits) + " +- " + fixed(interval.half_width, digits);
}

std::string percent_with_interval(const std::vector<double>& shares, int digits) {
  const claims::Interval interval = claims::interval95(shares);
  if (shares.size() == 1) return percent(interval.mean, digits);
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "%+.*f +- %.*f %%", digits, 100 * interval.mean, digits,
                100 * interval.half_width);
  return text.data();
}

}  // namespace moelab::prism
