// Memory does not grow with the trace: long traces stream through it.
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "sim/child_process.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::resident_memory_test {
namespace {

constexpr std::uint32_t kPrompt = 24, kOutput = 1000;

const std::filesystem::path kFolder = std::filesystem::temp_directory_path();

/// The main job under LRU, with another workload.
Scenario scenario_with(const std::string& workload) {
  const std::filesystem::path file = kFolder / ("moelab-long-" + std::to_string(getpid()) + ".yaml");
  std::ofstream(file) << "name: long\nquestion: does memory grow?\nmodel: deepseek-v2-lite\n"
                         "device: jetson-agx-orin-64gb\nbudget: 20 GB\nworkload: "
                      << workload << "\nsystems: [zipmoe-lru]\nseed: 1\n";
  Scenario scenario = load_scenario(file.string());
  std::filesystem::remove(file);
  return scenario;
}

/// Peak resident bytes of a process that replays the main job on a workload.
double peak_bytes(const std::string& workload, std::uint64_t tokens) {
  return std::stod(run_in_child([&] {
    const Scenario scenario = scenario_with(workload);
    const RoutingTrace trace = scenario_trace(scenario);
    check_scenario(scenario, trace);
    const RunResult result = run_system(scenario, scenario.systems.front(), trace);
    if (result.metrics.tokens != tokens) return std::string("-1");
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return std::to_string(1024.0 * static_cast<double>(usage.ru_maxrss));
  }));
}

std::string generated(std::uint32_t requests) {
  return "{batch: 1, requests: " + std::to_string(requests) + ", prompt_tokens: " + std::to_string(kPrompt) +
         ", output_tokens: " + std::to_string(kOutput) +
         ", skew: 1.4, reuse: 0.2, drift: 0.55, gate_decay: 0.24}";
}

}  // namespace

TEST_CASE("memory: a long trace streams through it, generated or read", "[long]") {
  // 26 layers, k = 6: 936 bytes a row of ids and scores, so 204,600 rows are 191 MB; 6 MB of times a token
  // are kept.
  constexpr std::uint32_t kRequests = 200;
  const double peak = peak_bytes(generated(kRequests), kRequests * kOutput);
  CHECK(peak > 0);
  CHECK(peak < 100e6);

  const std::filesystem::path file = kFolder / ("moelab-long-" + std::to_string(getpid()) + ".safetensors");
  run_in_child([&] {
    write_routing_trace(scenario_trace(scenario_with(generated(kRequests))), file);
    return std::string();
  });
  CHECK(std::filesystem::file_size(file) > 190'000'000);
  const double peak_read = peak_bytes("{batch: 1, trace: " + file.string() + "}", kRequests * kOutput);
  CHECK(peak_read > 0);
  CHECK(peak_read < 100e6);
  std::filesystem::remove(file);
}

}  // namespace moelab::resident_memory_test
