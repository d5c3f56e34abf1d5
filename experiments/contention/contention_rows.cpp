// The two simulating executors on the main job: where nothing is shared, where capacities are, and what
// ZipMoE's 7.47 % (row Z8) would take. usage: contention_rows       prints Markdown; see README.md here for
// what it means
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "experiments/claims/study_scenario.hpp"
#include "sim/engine/engine.hpp"
#include "sim/results/result_transfer.hpp"
#include "sim/results/statistics.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/simgrid_module.hpp"
#include "traces/routing_trace.hpp"

namespace {

using namespace moelab;
using Settings = std::vector<std::pair<std::string, std::string>>;

const Settings kJob = {
    {"workload.requests", "2"}, {"workload.prompt_tokens", "64"}, {"workload.output_tokens", "64"}};
const Settings kNothingShared = {{"overrides.device.ssd.slowdown_while_decompressing.value", "1"},
                                 {"overrides.device.memory.controller.value", "1000000 GB/s"}};

Settings operator+(Settings a, const Settings& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Pair {
  RunResult fast, simgrid;
};

Pair run(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace) {
  RunOptions options;
  options.executor = ExecutorKind::simgrid;
  return {run_system(scenario, system, trace), unpack_result(engine::run_in_simgrid_child([&] {
            return pack_result(run_system(scenario, system, trace, options));
          }))};
}

/// The largest relative difference in any figure of two runs; of a time that is next to nothing, as a share
/// of the run's.
double difference(const Pair& pair) {
  const Metrics &a = pair.fast.metrics, &b = pair.simgrid.metrics;
  double worst = a.hits == b.hits && a.bytes == b.bytes && pair.fast.operations == pair.simgrid.operations
                     ? 0
                     : std::numeric_limits<double>::infinity();
  const auto compare = [&](double x, double y) {
    worst = std::max(worst, std::abs(x - y) / std::max(std::abs(x), 1e-3 * a.wall_s));
  };
  compare(a.wall_s, b.wall_s);
  for (std::size_t i = 0; i < a.ttft_s.size(); ++i) compare(a.ttft_s[i], b.ttft_s[i]);
  for (std::size_t i = 0; i < a.token_gaps_s.size(); ++i) {
    const double x = a.token_gaps_s[i], y = b.token_gaps_s[i];
    worst = std::max(worst, std::abs(x - y) / x);
  }
  for (std::size_t i = 0; i < kCauses; ++i) compare(a.stall_s[i], b.stall_s[i]);
  for (std::size_t i = 0; i < pair.fast.busy.size(); ++i)
    compare(pair.fast.busy[i].busy_s, pair.simgrid.busy[i].busy_s);
  return worst;
}

double tpot_ms(const RunResult& r) {
  return 1e3 * mean(r.metrics.token_gaps_s);
}

void print_nothing_shared() {
  const Scenario scenario = study_scenario("zipmoe-orin", kJob + kNothingShared);
  const RoutingTrace trace = scenario_trace(scenario);
  std::printf(
      "| system | TPOT fast | TPOT simgrid | largest relative difference of any figure |\n| --- | --- | --- "
      "| --- |\n");
  for (const SystemConfig& system : scenario.systems) {
    const Pair pair = run(scenario, system, trace);
    std::printf("| %s | %.3f ms | %.3f ms | %.1e |\n", system.name.c_str(), tpot_ms(pair.fast),
                tpot_ms(pair.simgrid), difference(pair));
    std::fflush(stdout);
  }
}

void print_shared() {
  const std::vector<std::string> systems = {"zipmoe", "zipmoe-lru", "zipmoe-prototype", "zipmoe-nocache"};
  std::printf("| budget | threads |");
  for (const std::string& name : systems) std::printf(" %s |", name.c_str());
  std::printf("\n| --- | --- |");
  for (std::size_t i = 0; i < systems.size(); ++i) std::printf(" --- |");
  std::printf("\n");
  for (const int budget : {10, 20, 28})
    for (const int threads : {2, 6, 12}) {
      std::printf("| %d GB | %d |", budget, threads);
      for (const std::string& name : systems) {
        const Scenario scenario = study_scenario(
            "zipmoe-orin", kJob + Settings{{"budget", std::to_string(budget) + " GB"},
                                           {"systems", "[" + name + "]"},
                                           {"overrides.system.threads", std::to_string(threads)}});
        const Pair pair = run(scenario, scenario.systems.front(), scenario_trace(scenario));
        const double fast = tpot_ms(pair.fast), simgrid = tpot_ms(pair.simgrid);
        std::printf(" %.1f / %.1f ms, %+.1f %% |", fast, simgrid, 100 * (fast / simgrid - 1));
        std::fflush(stdout);
      }
      std::printf("\n");
    }
}

/// Seconds of one second's worth of reading while `threads` decompress all the time, through a memory of
/// `bandwidth`.
double read_seconds(double bandwidth, double ssd, double traffic, int threads) {
  using namespace engine;
  return std::stod(engine::run_in_simgrid_child([&] {
    const std::unique_ptr<Engine> engine = make_simgrid_engine();
    const ResourceId io = engine->add_resource("io", 1);
    const ResourceId workers = engine->add_resource("decompress", static_cast<std::uint32_t>(threads));
    const CapacityId memory = engine->add_capacity("memory", {.bandwidth = bandwidth});
    const CapacityId disk = engine->add_capacity("ssd", {.bandwidth = ssd, .beyond = memory});
    Graph graph;
    const OpIndex read = graph.add(graph.lane(io), 1);
    graph.share(read, disk, 1, ssd);
    constexpr double kLong = 100;
    for (int i = 0; i < threads; ++i)
      graph.share(graph.add(graph.lane(workers), kLong), memory, kLong, kLong * traffic);
    const auto play = [&]() -> Process {
      engine->submit(graph, kDemand);
      co_await engine->finished(graph);
    };
    Process process = play();
    engine->spawn(process);
    engine->run();
    return std::to_string(graph.end(read));
  }));
}

/// Of the codec on one thread, chunks of a megabyte: bytes through memory a second, compressed in and plain
/// out.
double traffic_of(const CodecProfile& codec) {
  const Bytes plain(1e6);
  return (plain / codec.decompress_seconds(plain)).value() * (1 + codec.ratio.value);
}

void print_z8() {
  constexpr int kThreads = 6;
  const DeviceProfile device = load_device("jetson-agx-orin-64gb");
  const double ssd = 3.5e9;  // the paper's peak
  std::printf("| memory controller |");
  for (const auto& [name, codec] : device.codecs) std::printf(" read lost, %s |", name.c_str());
  std::printf("\n| --- |");
  for (std::size_t i = 0; i < device.codecs.size(); ++i) std::printf(" --- |");
  std::printf("\n");
  for (const double gbs : {204.8, 164.0, 102.4, 51.2, 25.6, 13.48, 12.8, 9.77}) {
    std::printf("| %.2f GB/s |", gbs);
    for (const auto& [name, codec] : device.codecs) {
      std::printf(" %.2f %% |", 100 * (1 - 1 / read_seconds(gbs * 1e9, ssd, traffic_of(codec), kThreads)));
    }
    std::printf("\n");
  }
  for (const auto& [name, codec] : device.codecs)
    std::printf("\n%s: %d threads move %.2f GB/s, so 7.47 %% of 3.5 GB/s is lost at %.2f GB/s in all.\n",
                name.c_str(), kThreads, kThreads * traffic_of(codec) / 1e9,
                (kThreads * traffic_of(codec) + (1 - 0.0747) * ssd) / 1e9);
}

}  // namespace

int main() {
  try {
    std::printf("## Nothing shared\n\n");
    print_nothing_shared();
    std::printf("\n## Capacities shared: TPOT fast / simgrid, difference\n\n");
    print_shared();
    std::printf("\n## Row Z8: reading while 6 threads decompress\n\n");
    print_z8();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "contention_rows: %s\n", error.what());
    return 1;
  }
}
