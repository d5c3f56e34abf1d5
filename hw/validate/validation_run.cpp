#include "hw/validate/validation_run.hpp"

#include <algorithm>
#include <cmath>

#include "hw/executor/expert_machine.hpp"
#include "hw/validate/validation_memory.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/served_request.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

/// Outlives the engine, which ends its machine before what was moved is asked for.
class CountingMachine final : public Machine {
 public:
  CountingMachine(std::unique_ptr<ExpertMachine> machine, MovedBytes& moved)
      : machine_(std::move(machine)), moved_(moved) {}
  ~CountingMachine() override {
    for (const Tier tier : {Tier::ssd, Tier::page_cache, Tier::host})
      moved_.read += machine_->bytes_read(tier);
    if (machine_->swaps() == nullptr) return;
    moved_.swapped_out += machine_->swaps()->bytes_out();
    moved_.swapped_in += machine_->swaps()->bytes_in();
  }
  void begin(const engine::Graph& graph, engine::OpIndex op) override { machine_->begin(graph, op); }
  void run(const engine::Graph& graph, engine::OpIndex op, std::stop_token stop) override {
    machine_->run(graph, op, std::move(stop));
  }
  void end(const engine::Graph& graph, engine::OpIndex op) override { machine_->end(graph, op); }

 private:
  std::unique_ptr<ExpertMachine> machine_;
  MovedBytes& moved_;
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
    record_.answered(span);
    if (other_ == nullptr) return;
    ServedSpan shown = span;  // one that was taken before its time, for hardware had come so far
    shown.arrival_s = std::min(shown.arrival_s, shown.begin_s);
    other_->answered(shown);
  }
  void pass_ended(double now, std::uint64_t pass, std::uint64_t tokens) override {
    if (other_ != nullptr) other_->pass_ended(now, pass, tokens);
  }

 private:
  RunRecord& record_;
  GraphObserver* other_;
};

}  // namespace

bool come_over_time(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace) {
  if (come_in_turn(scenario, system)) return false;
  const std::vector<ServedRequest> requests = served_requests(scenario, trace);
  return !requests.empty() && requests.back().arrival_s > 0;
}

RunPair run_both(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace,
                 ValidationStore& store, ValidationStorage& storage, ComputeDevice& device,
                 const HostEnd* host, const RunHow& how) {
  RunPair pair;
  pair.predicted_record = std::make_unique<RunRecord>();
  pair.measured_record = std::make_unique<RunRecord>();

  Shown measured(*pair.measured_record, how.measured), predicted(*pair.predicted_record, how.predicted);
  RunOptions on_hardware;
  std::vector<double> loads;
  std::vector<std::size_t> arrivals;
  on_hardware.witness = [&](double seconds) { return loads.emplace_back(seconds); };
  on_hardware.arrivals = [&](std::size_t come) { return arrivals.emplace_back(come); };
  on_hardware.observer = [&](const SystemConfig&) { return &measured; };
  on_hardware.platform = [&](const SystemConfig& s, const ExpertCosts&, const MemoryPlan& plan) -> Platform {
    auto machine = std::make_unique<ExpertMachine>(
        store.chunks(), scenario.model, device,
        ExpertMachineOptions{.storage = [&, whole = !s.compressed] { return storage.open(whole); },
                             .host_experts = host != nullptr ? &host->experts : nullptr,
                             .cpu = host != nullptr ? &host->cpu : nullptr,
                             .swaps = swap_room(scenario, s, trace, plan),
                             .reading_threads = s.worker_reads ? 1 + s.threads : 1,
                             .shards = s.shards,
                             .memory_limit = memory_limit(scenario, s, trace, plan, store),
                             .verify = how.verify,
                             .dense = how.dense});
    engine::ExpertMirror* const mirror = machine.get();
    constexpr std::size_t kOtherThreads = 6;  // host, I/O, recovery, experts, dense, and the engine's
    return {make_hardware_engine(std::make_unique<CountingMachine>(std::move(machine), pair.moved),
                                 {.spin = spin_for(kOtherThreads + s.threads), .times = &pair.hand_offs}),
            mirror};
  };
  pair.measured = run_system(scenario, system, trace, on_hardware);
  check_fits(pair.measured);

  RunOptions simulated;
  simulated.witness = [&, next = std::size_t{0}](double seconds) mutable {
    return next < loads.size() ? loads[next++] : seconds;  // fewer: the runs differ, which is found
  };
  simulated.arrivals = [&, next = std::size_t{0}](std::size_t come) mutable {
    return next < arrivals.size() ? arrivals[next++] : come;
  };
  simulated.observer = [&](const SystemConfig&) { return &predicted; };
  pair.predicted = run_system(scenario, system, trace, simulated);
  if (come_over_time(scenario, system, trace)) pair.alone = run_system(scenario, system, trace);
  return pair;
}

std::optional<std::string> first_difference(const RunPair& pair) {
  if (auto found = first_difference(*pair.predicted_record, *pair.measured_record)) return found;
  const ServingCounts &predicted = pair.predicted.metrics.serving, &measured = pair.measured.metrics.serving;
  if (auto found = first_difference(predicted, measured)) return found;
  // Whole bytes a step, of a format whose blocks may have parts of them.
  const double rounding = 0.5 * static_cast<double>(predicted.steps);
  const auto moved = [&](const char* way, double simulated, std::uint64_t copied) -> std::string {
    if (std::abs(simulated - static_cast<double>(copied)) <= rounding) return "";
    return to_string(Bytes(simulated)) + " of the KV cache are swapped " + way + " in the simulator, " +
           to_string(Bytes(static_cast<double>(copied))) + " were copied on hardware";
  };
  std::string text = moved("out", predicted.swap_out_bytes, pair.moved.swapped_out);
  if (text.empty()) text = moved("in", predicted.swap_in_bytes, pair.moved.swapped_in);
  if (text.empty()) return std::nullopt;
  return text;
}

}  // namespace moelab
