#include "policies/guard/policy_guard.hpp"

namespace moelab {
namespace {

class GuardedExecution final : public ExecutionPolicy {
 public:
  GuardedExecution(const ExecutionPolicyEntry& entry, const PolicyParameters& parameters,
                   const GuardOptions& options)
      : policy_(made_policy(entry.info, options, [&] { return entry.make(parameters); })),
        guard_(entry.info, options),
        needs_cpu_(entry.needs_cpu) {}

  void plan(std::span<const MissingExpert> missing, const ExecutionCosts& costs,
            ExecutionPlan& plan) override {
    guard_.begin_step();
    guard_.ask([&] { policy_->plan(missing, costs, plan); });
    if (plan.places.size() != missing.size())
      guard_.broken("gives " + counted(plan.places.size(), "place") + " to " +
                    counted(missing.size(), "missing expert"));
    listed_.assign(missing.size(), 0);
    check_list(plan, plan.loads, Assignment::load, "loads");
    check_list(plan, plan.cpu, Assignment::cpu, "gives to the CPU");
    for (std::size_t position = 0; position < listed_.size(); ++position)
      if (listed_[position] == 0)
        guard_.broken("neither loads the missing expert at position " + std::to_string(position) +
                      " nor gives it to the CPU");
    if (!plan.cpu.empty() && !needs_cpu_)
      guard_.broken("gives experts to the CPU, and its entry does not say needs_cpu");
  }
  void observe_load(double seconds) override {
    guard_.ask([&] { policy_->observe_load(seconds); });
  }

 private:
  void check_list(const ExecutionPlan& plan, const std::vector<std::uint32_t>& list, Assignment place,
                  const std::string& does) {
    for (const std::uint32_t position : list) {
      const std::string expert = " the missing expert at position " + std::to_string(position);
      if (position >= listed_.size()) guard_.broken(does + expert + " of " + std::to_string(listed_.size()));
      if (listed_[position] != 0) guard_.broken(does + expert + ", which it has listed before");
      if (plan.places[position] != place) guard_.broken(does + expert + ", and places it elsewhere");
      listed_[position] = 1;
    }
  }

  std::unique_ptr<ExecutionPolicy> policy_;
  PolicyGuard guard_;
  bool needs_cpu_;
  std::vector<std::uint8_t> listed_;
};

}  // namespace

std::unique_ptr<ExecutionPolicy> make_execution_policy(const ExecutionPolicyEntry& entry,
                                                       const PolicyParameters& parameters,
                                                       const GuardOptions& options) {
  if (!is_guarded(entry.info, options)) return entry.make(parameters);
  return std::make_unique<GuardedExecution>(entry, parameters, options);
}

}  // namespace moelab
