#include "hw/validate/validation_run.hpp"

#include <algorithm>

#include "hw/executor/expert_machine.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/expert_costs.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

/// Bytes of experts that may be in memory: the plan's, and what it does not count. That is experts of a
/// prompt that are more than a decode step's; chunks that are larger than the ratio says; and, since staging
/// holds twice an expert's size (hw/executor/README.md), the E-chunks of codecs that hardly compress.
std::uint64_t memory_limit(const Scenario& scenario, const RoutingTrace& trace, const MemoryPlan& plan,
                           const ValidationStore& store) {
  std::uint64_t prompt = 0;
  for (const TraceRequest& q : trace.requests()) prompt = std::max(prompt, q.decode_begin - q.begin);
  const FeedForward& ff = scenario.model.moe();
  const double batch = scenario.workload.batch, experts = ff.experts, k = ff.top_k;
  const double of_step = std::min(experts, k * batch);
  const double of_prompt = std::min(experts, k * batch * static_cast<double>(prompt));
  const double in_use = std::max(of_step, of_prompt);
  const double elements = expert_tensor_weights(scenario.model, ff), tensors = ff.matrices;
  const double beyond_staging = scenario.device.is_discrete()
                                    ? 0  // nothing is joined
                                    : std::max(0.0, tensors * store.ratio() + 1 - tensors) * elements;
  const double more = (in_use - of_step) * 2 * expert_bytes(scenario.model).value() + in_use * beyond_staging;
  return static_cast<std::uint64_t>((plan.expert_cache + plan.staging + plan.prefetch).value() + more) +
         store.surplus();
}

/// Outlives the engine, which ends its machine before what was read is asked for.
class CountingMachine final : public Machine {
 public:
  CountingMachine(std::unique_ptr<ExpertMachine> machine, std::uint64_t& bytes_read)
      : machine_(std::move(machine)), bytes_read_(bytes_read) {}
  ~CountingMachine() override {
    for (const Tier tier : {Tier::ssd, Tier::page_cache, Tier::host})
      bytes_read_ += machine_->bytes_read(tier);
  }
  void begin(const engine::Graph& graph, engine::OpIndex op) override { machine_->begin(graph, op); }
  void run(const engine::Graph& graph, engine::OpIndex op, std::stop_token stop) override {
    machine_->run(graph, op, std::move(stop));
  }
  void end(const engine::Graph& graph, engine::OpIndex op) override { machine_->end(graph, op); }

 private:
  std::unique_ptr<ExpertMachine> machine_;
  std::uint64_t& bytes_read_;
};

/// Writes the record and shows the run to somebody else, if there is anybody. Nobody is asked to look at what
/// caches hold: that would take time of the run on hardware.
class Shown final : public GraphObserver {
 public:
  Shown(RunRecord& record, GraphObserver* other) : record_(record), other_(other) {}
  void finished(const LabelledGraph& graph, std::uint64_t pass, std::int32_t layer) override {
    record_.finished(graph, pass, layer);
    if (other_ != nullptr) other_->finished(graph, pass, layer);
  }
  void answered(const ServedSpan& span) override {
    if (other_ != nullptr) other_->answered(span);
  }
  void pass_ended(double now, std::uint64_t pass, std::uint64_t tokens) override {
    if (other_ != nullptr) other_->pass_ended(now, pass, tokens);
  }

 private:
  RunRecord& record_;
  GraphObserver* other_;
};

}  // namespace

RunPair run_both(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace,
                 ValidationStore& store, ValidationStorage& storage, ComputeDevice& device,
                 const HostEnd* host, const RunHow& how) {
  RunPair pair;
  pair.predicted_record = std::make_unique<RunRecord>();
  pair.measured_record = std::make_unique<RunRecord>();

  Shown measured(*pair.measured_record, how.measured), predicted(*pair.predicted_record, how.predicted);
  RunOptions on_hardware;
  std::vector<double> loads;
  on_hardware.witness = [&](double seconds) { return loads.emplace_back(seconds); };
  on_hardware.observer = [&](const SystemConfig&) { return &measured; };
  on_hardware.platform = [&](const SystemConfig& s, const ExpertCosts&, const MemoryPlan& plan) -> Platform {
    auto machine = std::make_unique<ExpertMachine>(
        store.chunks(), scenario.model, device,
        ExpertMachineOptions{.storage = [&, whole = !s.compressed] { return storage.open(whole); },
                             .host_experts = host != nullptr ? &host->experts : nullptr,
                             .cpu = host != nullptr ? &host->cpu : nullptr,
                             .reading_threads = s.worker_reads ? 1 + s.threads : 1,
                             .shards = s.shards,
                             .memory_limit = memory_limit(scenario, trace, plan, store),
                             .verify = how.verify,
                             .dense = how.dense});
    engine::ExpertMirror* const mirror = machine.get();
    constexpr std::size_t kOtherThreads = 6;  // host, I/O, recovery, experts, dense, and the engine's
    return {make_hardware_engine(std::make_unique<CountingMachine>(std::move(machine), pair.bytes_read),
                                 {.spin = spin_for(kOtherThreads + s.threads), .times = &pair.hand_offs}),
            mirror};
  };
  pair.measured = run_system(scenario, system, trace, on_hardware);
  check_fits(pair.measured);

  RunOptions simulated;
  simulated.witness = [&, next = std::size_t{0}](double seconds) mutable {
    return next < loads.size() ? loads[next++] : seconds;  // fewer: the runs differ, which is found
  };
  simulated.observer = [&](const SystemConfig&) { return &predicted; };
  pair.predicted = run_system(scenario, system, trace, simulated);
  return pair;
}

}  // namespace moelab
