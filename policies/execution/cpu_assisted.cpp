// cpu-assisted: SMoE's CPU-assisted computing loading scheduling (Zhu et al., arXiv 2508.18983, section V-A,
// Algorithm 2).
//
//   S = missing experts, best score first;  l = 0, r = |S| - 1;  T_load = T_CPU = 0
//   while l <= r:
//     if T_load <= T_CPU: load S[l], T_load += C_load, ++l
//     else:               CPU  S[r], T_CPU  += C_CPU,  --r
//
// The best-scored experts are loaded, since they are the likeliest to be used again (Fig. 6), until both
// sides take about as long. For constant costs the longer side ends less than max(C_load, C_CPU) after the
// least possible maximum (Eq. 4): before its last expert it was no longer than the other side, so no longer
// than what n - 1 experts take when split evenly.
//
// C_load: mean of the last p observed loads ("the past p instances of these times"); before the first, the
// given load time. The paper does not say what p is; the default is 8.
// C_CPU: "the average time for a CPU computation", "a constant due to stable CPU times across low-batch
// sizes". Here the average over the step's missing experts: that constant in decode steps of small batches,
// and an average still where experts serve tens of tokens, as in prompts.
// Equal scores go by expert number. The CPU starts with the lowest score.
#include "policies/checked_parameter.hpp"
#include "policies/execution/execution_plan.hpp"

namespace moelab {
namespace {

class CpuAssisted final : public ExecutionPolicy {
 public:
  explicit CpuAssisted(std::uint32_t loads) : loads_(loads) { recent_.reserve(loads); }

  void plan(std::span<const MissingExpert> missing, const ExecutionCosts& costs,
            ExecutionPlan& plan) override {
    start_plan(plan, missing.size());
    if (missing.empty()) return;
    sort_by_score(missing, order_);
    const double load = load_seconds(costs), cpu = average_cpu_seconds(missing, costs);
    double loading = 0, computing = 0;
    for (std::size_t left = 0, right = order_.size(); left < right;) {
      if (loading <= computing) {
        loading += load;
        give_to_link(plan, order_[left++]);
      } else {
        computing += cpu;
        give_to_cpu(plan, order_[--right]);
      }
    }
  }

  void observe_load(double seconds) override {
    if (recent_.size() < loads_)
      recent_.push_back(seconds);
    else
      recent_[oldest_] = seconds;
    oldest_ = (oldest_ + 1) % loads_;
  }

 private:
  double load_seconds(const ExecutionCosts& costs) const {  // C_load
    if (recent_.empty()) return costs.load_s;
    double sum = 0;
    for (const double seconds : recent_) sum += seconds;
    return sum / static_cast<double>(recent_.size());
  }
  static double average_cpu_seconds(std::span<const MissingExpert> missing, const ExecutionCosts& costs) {
    double sum = 0;
    for (const MissingExpert& expert : missing) sum += cpu_seconds(costs, expert);
    return sum / static_cast<double>(missing.size());
  }

  const std::uint32_t loads_;   // p
  std::vector<double> recent_;  // the last p loads, seconds; a ring once it is full
  std::uint32_t oldest_ = 0;    // where the next load goes
  std::vector<std::uint32_t> order_;
};

PolicyInfo cpu_assisted_info() {
  return {.name = "cpu-assisted",
          .help = "best scores are loaded, worst computed by the CPU, so that both take about as long",
          .source = "SMoE (Zhu et al. 2025, arXiv 2508.18983), section V-A, Algorithm 2",
          .parameters = {{.name = "p",
                          .unit = "loads",
                          .default_value = 8,
                          .low = 1,
                          .high = 1e6,
                          .help = "how many of the last loads the expected load time is the mean of"}}};
}

std::unique_ptr<ExecutionPolicy> make_cpu_assisted(const PolicyParameters& parameters) {
  const PolicyInfo info = cpu_assisted_info();
  return std::make_unique<CpuAssisted>(checked_count(info, parameters, "p"));
}

}  // namespace

ExecutionPolicyEntry cpu_assisted_entry() {
  return {.info = cpu_assisted_info(), .needs_scores = true, .needs_cpu = true, .make = make_cpu_assisted};
}

}  // namespace moelab
