// P1 and P2 with what software costs as today and by runtimes.
#include <string>

#include "experiments/claims/runtime_rows.hpp"
#include "experiments/prism/prism_paper.hpp"
#include "experiments/prism/prism_study.hpp"

namespace moelab::prism {
namespace {

using claims::RuntimeFigure;

constexpr std::size_t kRuntimeSeeds = 3;
constexpr std::uint32_t kRuntimeRequests = 100;  // of each server
/// What an expert takes the host at most (moe-infinity.yaml), and at least.
constexpr double kMost = 1, kLeast = 0;

Change runtime_of(const std::string& system, double expert_times) {
  return in_runtime(system.starts_with("moe-infinity") ? "moe-infinity" : "prism-prototype", expert_times);
}

std::vector<Run> with_runtimes(const std::vector<Run>& runs, double expert_times) {
  std::vector<Run> changed;
  for (const Run& run : runs) changed.push_back(run.with({runtime_of(run.system, expert_times)}));
  return changed;
}

std::vector<double> means(const std::vector<Run>& runs) {
  std::vector<double> out;
  for (const BySeed& results : run_seeds(runs, kRuntimeSeeds)) out.push_back(mean_over_seeds(results));
  return out;
}

std::vector<Run> table1_runs() {
  std::vector<Run> runs;
  for (const PaperAlone& row : kPaperAlone)
    runs.push_back(
        {"prism-mixtral-alone", row.system, {requests(kRuntimeRequests), prompts("arithmetic", kQuestions)}});
  return runs;
}

std::vector<Run> table2_runs(const SoftwareCosts& costs) {
  std::vector<Run> runs;
  for (const Workload& w : kWorkloads)
    for (const std::string& method : kMethods)
      runs.push_back({w.scenario, method, {requests(kRuntimeRequests), software(costs)}});
  return runs;
}

void add_table1(std::vector<RuntimeFigure>& figures) {
  const std::vector<Run> runs = table1_runs();
  const std::vector<double> today = means(runs), stated = means(with_runtimes(runs, kMost)),
                            other = means(with_runtimes(runs, kLeast));
  for (std::size_t i = 0; i < kPaperAlone.size(); ++i)
    figures.push_back({"P1", std::string(kPaperAlone[i].system) + ", s", kPaperAlone[i].mean, today[i],
                       stated[i], other[i]});
}

void add_table2(std::vector<RuntimeFigure>& figures) {
  const std::vector<Run> runs = table2_runs(fit_software().costs);
  const std::vector<double> today = means(runs), stated = means(with_runtimes(runs, kMost)),
                            other = means(with_runtimes(runs, kLeast));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::size_t workload = i / kMethods.size();
    const std::string& method = kMethods[i % kMethods.size()];
    figures.push_back({"P2", std::string(kWorkloads[workload].name) + ", " + method + ", s",
                       paper_mean(workload, method), today[i], stated[i], other[i]});
  }
}

}  // namespace
}  // namespace moelab::prism

namespace moelab::claims {

std::vector<RuntimeFigure> prism_runtime_figures() {
  std::vector<RuntimeFigure> out;
  prism::add_table1(out);
  prism::add_table2(out);
  return out;
}

}  // namespace moelab::claims
