// What no source states (costs, lengths, popularity), and what shares the network.
#include <cstdio>

#include "experiments/prism/prism_tables.hpp"

namespace moelab::prism {
namespace {

constexpr std::uint32_t kSensitivityRequests = 50;  // of each server

struct Variant {
  const char* what;
  std::vector<Change> changes;
};

}  // namespace

void print_sensitivity(const Fit& fit) {
  const std::vector<Variant> variants = {
      {"as assumed", {}},
      {"arithmetic with choices, 60 to 110 tokens", {prompts("arithmetic", kChoices)}},
      {"lengths halved", {lengths(0.5)}},
      {"lengths doubled", {lengths(2)}},
      {"half as many requests a second", {arrivals_times(0.5)}},
      {"twice as many", {arrivals_times(2)}}};
  const std::vector<std::string> methods = {"prism", "eplb", "uniform"};
  std::printf(
      "\n**What no source states: mean seconds of a request, DeepSeek-V2-Lite, %u requests of each server "
      "(prism / eplb / uniform; prism against eplb)**\n\n| | BigBench, nothing fitted | software fitted | "
      "MultiData, nothing fitted | software fitted |\n|---|---|---|---|---|\n",
      kSensitivityRequests);
  std::vector<Run> runs;
  for (const Variant& variant : variants)
    for (const std::size_t w : {0U, 1U})
      for (const SoftwareCosts& costs : {SoftwareCosts{}, fit.costs})
        for (const std::string& method : methods) {
          Run one{kWorkloads[w].scenario, method, variant.changes};
          one.changes.push_back(requests(kSensitivityRequests));
          one.changes.push_back(software(costs));
          runs.push_back(std::move(one));
        }
  const std::vector<RunResult> results = run_all(runs);
  auto at = results.begin();
  for (const Variant& variant : variants) {
    std::printf("| %s |", variant.what);
    for (int column = 0; column < 4; ++column, at += 3)
      std::printf(" %.2f / %.2f / %.2f; %s |", mean_latency(at[0]), mean_latency(at[1]), mean_latency(at[2]),
                  percent(mean_latency(at[0]) / mean_latency(at[1]) - 1, 0).c_str());
    std::printf("\n");
  }
}

void print_executors() {
  std::printf(
      "\n**`fast` against `simgrid`: mean seconds of a request, Prism, 40 requests of each server**\n\n| "
      "workload | fast | simgrid | difference |\n|---|---|---|---|\n");
  for (const Workload& w : kWorkloads) {
    const Run one{w.scenario, "prism", {requests(40)}};
    const double fast = mean_latency(run(one)), shared = mean_latency(run_simgrid(one));
    std::printf("| %s | %.3f | %.3f | %s |\n", w.name, fast, shared, percent(shared / fast - 1).c_str());
  }
}

}  // namespace moelab::prism
