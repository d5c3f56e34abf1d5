// Figure 8: many testbeds in one network, and bandwidth; what the results depend on that nobody states.
#include <array>
#include <cstdio>

#include "experiments/prism/prism_tables.hpp"

namespace moelab::prism {
namespace {

constexpr const char* kScenario = "prism-deepseek-bigbench";
constexpr std::size_t kGpus = 4;           // of a testbed
constexpr std::uint32_t kFewRequests = 8;  // of each server where there are many

Run sized(std::size_t gpus, double every_s, const SoftwareCosts& costs) {
  // As many requests of each server at every size: what waits at the end weighs the same.
  return {kScenario,
          "prism",
          {testbeds(gpus / kGpus), requests(kFewRequests), arrivals_every(every_s), software(costs)}};
}

const std::vector<std::size_t> kSizes = {4, 16, 64, 256};
constexpr std::size_t kColumns = 4;  // nothing fitted and software fitted, each with two of something

/// Mean latencies with a request every 15 and every 8 s, nothing fitted, then software fitted; by size.
std::vector<std::array<double, kColumns>> run_sizes(const Fit& fit) {
  std::vector<Run> runs;
  for (const std::size_t n : kSizes)
    for (const SoftwareCosts& costs : {SoftwareCosts{}, fit.costs})
      for (const double every : {15.0, 8.0}) runs.push_back(sized(n, every, costs));
  const std::vector<RunResult> results = run_all(runs);
  std::vector<std::array<double, kColumns>> latency(kSizes.size());
  for (std::size_t i = 0; i < results.size(); ++i)
    latency[i / kColumns][i % kColumns] = mean_latency(results[i]);
  return latency;
}

void print_sizes(const std::vector<std::array<double, kColumns>>& latency, Orders& orders) {
  std::printf(
      "\n**Figure 8a (P6): mean seconds of a request, Prism; testbeds of 4 GPUs side by side in one network, "
      "a "
      "request every 15 and every 8 s at each server**\n\n| GPUs | nothing fitted, 15 s | 8 s | software "
      "fitted, "
      "15 s | 8 s |\n|---|---|---|---|---|\n");
  std::array<double, kColumns> change{};
  for (std::size_t c = 0; c < kColumns; ++c) change[c] = latency.back()[c] / latency.front()[c] - 1;
  for (std::size_t i = 0; i < kSizes.size(); ++i)
    std::printf("| %zu | %.3f | %.3f | %.2f | %.2f |\n", kSizes[i], latency[i][0], latency[i][1],
                latency[i][2], latency[i][3]);
  std::printf("| 4 -> 256 | %s | %s | %s | %s |\n| paper | -9 %% | -19 %% | -9 %% | -19 %% |\n",
              percent(change[0]).c_str(), percent(change[1]).c_str(), percent(change[2]).c_str(),
              percent(change[3]).c_str());
  Order lower{"more GPUs lower mean latency, 4 to 256"};
  Order denser{"the more, the denser requests come"};
  for (const std::size_t column : {0U, 2U}) {
    const std::string how = column == 0 ? "nothing fitted" : "software fitted";
    lower.add(change[column] < 0, how + ", 15 s " + percent(change[column]));
    lower.add(change[column + 1] < 0, how + ", 8 s " + percent(change[column + 1]));
    denser.add(change[column + 1] < change[column],
               how + " " + percent(change[column + 1]) + " against " + percent(change[column]));
  }
  orders.push_back(lower);
  orders.push_back(denser);
}

Run sized_at(double megabits, std::size_t gpus, const SoftwareCosts& costs) {
  Run one = sized(gpus, 15, costs);
  one.changes.push_back(bandwidth(megabits));
  return one;
}

/// `middle`: with 500 Mbit/s.
void print_bandwidths(const Fit& fit, const std::array<double, kColumns>& middle, Orders& orders) {
  constexpr std::uint32_t kCopies = 16;
  std::vector<Run> runs;
  for (const double rate : {100.0, 1000.0}) {
    for (const SoftwareCosts& costs : {SoftwareCosts{}, fit.costs})
      for (const std::size_t n : {4U, 256U}) runs.push_back(sized_at(rate, n, costs));
    runs.push_back(sized_at(rate, 256, {}));
    runs.back().changes.push_back(copies(kCopies));
  }
  const std::vector<RunResult> results = run_all(runs);
  std::array<std::array<double, kColumns + 1>, 2> latency{};
  for (std::size_t i = 0; i < results.size(); ++i)
    latency[i / (kColumns + 1)][i % (kColumns + 1)] = mean_latency(results[i]);
  std::printf(
      "\n**Figure 8b (P7): mean seconds of a request, Prism, a request every 15 s at each server**\n\n| "
      "Mbit/s | "
      "nothing fitted, 4 GPUs | 256 GPUs | software fitted, 4 GPUs | 256 GPUs | nothing fitted, 256 GPUs, "
      "each "
      "expert on %u servers at least |\n|---|---|---|---|---|---|\n",
      kCopies);
  const auto print = [&](const char* name, const auto& row) {
    std::printf("| %s | %.2f | %.2f | %.2f | %.2f |", name, row[0], row[1], row[2], row[3]);
  };
  print("100", latency[0]);
  std::printf(" %.2f |\n", latency[0][kColumns]);
  print("500", middle);
  std::printf(" - |\n");
  print("1000", latency[1]);
  std::printf(" %.2f |\n", latency[1][kColumns]);
  std::array<double, kColumns + 1> change{};
  for (std::size_t c = 0; c <= kColumns; ++c) change[c] = latency[1][c] / latency[0][c] - 1;
  std::printf(
      "| 100 -> 1000 | %s | %s | %s | %s | %s |\n| paper | -55 %% | -35 %% | -55 %% | -35 %% | -35 %% |\n",
      percent(change[0]).c_str(), percent(change[1]).c_str(), percent(change[2]).c_str(),
      percent(change[3]).c_str(), percent(change[4]).c_str());
  Order less{"bandwidth lowers latency less with 256 GPUs than with 4"};
  less.add(change[1] > change[0], "nothing fitted " + percent(change[1]) + " against " + percent(change[0]));
  less.add(change[3] > change[2], "software fitted " + percent(change[3]) + " against " + percent(change[2]));
  orders.push_back(less);
}

struct Variant {
  const char* what;
  std::vector<Change> changes;
};

}  // namespace

void print_scale(const Fit& fit, Orders& orders) {
  const auto latency = run_sizes(fit);
  print_sizes(latency, orders);
  // Those of testbeds of 4 and of 256 GPUs, a request every 15 s.
  print_bandwidths(fit, {latency.front()[0], latency.back()[0], latency.front()[2], latency.back()[2]},
                   orders);
}

void print_sensitivity(const Fit& fit) {
  const std::vector<Variant> variants = {{"as assumed", {}},
                                         {"lengths halved", {lengths(0.5)}},
                                         {"lengths doubled", {lengths(2)}},
                                         {"half as many requests a second", {arrivals_times(0.5)}},
                                         {"twice as many", {arrivals_times(2)}}};
  const std::vector<std::string> methods = {"prism", "eplb", "uniform"};
  std::printf(
      "\n**What nobody states: mean seconds of a request, DeepSeek-V2-Lite, 100 requests of each server "
      "(prism / "
      "eplb / uniform; prism against eplb)**\n\n| | BigBench, nothing fitted | software fitted | MultiData, "
      "nothing "
      "fitted | software fitted |\n|---|---|---|---|---|\n");
  std::vector<Run> runs;
  for (const Variant& variant : variants)
    for (const std::size_t w : {0U, 1U})
      for (const SoftwareCosts& costs : {SoftwareCosts{}, fit.costs})
        for (const std::string& method : methods) {
          Run one{kWorkloads[w].scenario, method, variant.changes};
          one.changes.push_back(requests(100));
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
      "workload | "
      "fast | simgrid | difference |\n|---|---|---|---|\n");
  for (const Workload& w : kWorkloads) {
    const Run one{w.scenario, "prism", {requests(40)}};
    const double fast = mean_latency(run(one)), shared = mean_latency(run_simgrid(one));
    std::printf("| %s | %.3f | %.3f | %s |\n", w.name, fast, shared, percent(shared / fast - 1).c_str());
  }
}

}  // namespace moelab::prism
