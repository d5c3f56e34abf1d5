#include "hw/validate/validation_run.hpp"

#include <algorithm>
#include <cmath>

#include "hw/bench/bench_team.hpp"
#include "hw/executor/expert_machine.hpp"
#include "hw/executor/windowed_machine.hpp"
#include "hw/validate/validation_memory.hpp"
#include "models/input_error.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/served_request.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

void add_moved(const ExpertMachine& machine, MovedBytes& moved) {
  for (const Tier tier : {Tier::ssd, Tier::page_cache, Tier::host}) moved.read += machine.bytes_read(tier);
}

void add_moved(const WindowedMachine& machine, MovedBytes& moved) {
  moved.read += machine.streamed().loaded;
  moved.streamed = machine.streamed();
}

/// Says what was moved when it ends, which is when its engine does.
template <class Counted>
class CountingMachine final : public Machine {
 public:
  CountingMachine(std::unique_ptr<Counted> machine, MovedBytes& moved)
      : machine_(std::move(machine)), moved_(moved) {}
  ~CountingMachine() override {
    add_moved(*machine_, moved_);
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
  std::unique_ptr<Counted> machine_;
  MovedBytes& moved_;
};

/// The parts that are the same for all systems.
struct Hardware {
  ValidationStore& store;
  ValidationStorage& storage;
  ComputeDevice& device;
  const HostEnd* host;
  const RunHow& how;
};

template <class M>
std::unique_ptr<engine::Engine> counted_engine(std::unique_ptr<M> machine, std::size_t threads,
                                               RunPair& pair) {
  constexpr std::size_t kOtherThreads = 6;  // host, I/O, recovery, experts, dense, and the engine's
  return make_hardware_engine(std::make_unique<CountingMachine<M>>(std::move(machine), pair.moved),
                              {.spin = spin_for(kOtherThreads + threads), .times = &pair.hand_offs});
}

Platform cached_platform(const Hardware& here, const Scenario& scenario, const SystemConfig& s,
                         const RoutingTrace& trace, const MemoryPlan& plan, RunPair& pair) {
  auto machine = std::make_unique<ExpertMachine>(
      here.store.chunks(), scenario.model, here.device,
      ExpertMachineOptions{
          .storage = [&storage = here.storage, whole = !s.compressed] { return storage.open(whole); },
          .host_experts = here.host != nullptr ? &here.host->experts : nullptr,
          .cpu = here.host != nullptr ? &here.host->cpu : nullptr,
          .swaps = swap_room(scenario, s, trace, plan),
          .reading_threads = s.worker_reads ? 1 + s.threads : 1,
          .shards = s.shards,
          .memory_limit = memory_limit(scenario, s, trace, plan, here.store),
          .verify = here.how.verify,
          .dense = here.how.dense});
  engine::ExpertMirror* const mirror = machine.get();
  return {counted_engine(std::move(machine), s.threads, pair), mirror, nullptr};
}

Platform windowed_platform(const Hardware& here, const Scenario& scenario, const SystemConfig& s,
                           const RoutingTrace& trace, const MemoryPlan& plan, RunPair& pair) {
  if (here.device.paging() == nullptr || here.host == nullptr)
    throw InputError(scenario.name,
                     "system '" + s.name + "' pages its experts, in a GPU with memory of its own");
  auto machine = std::make_unique<WindowedMachine>(
      here.store.chunks(), scenario.model, here.device, here.host->experts,
      WindowedMachineOptions{.swaps = swap_room(scenario, s, trace, plan),
                             .memory_limit = window_memory_limit(plan, here.store),
                             .verify = here.how.verify,
                             .dense = here.how.dense});
  pair.measured_window = std::make_unique<WindowRecord>(machine.get());
  return {counted_engine(std::move(machine), 1, pair), nullptr, pair.measured_window.get()};
}

/// Writes the record and shows the run to the other observer, if there is one. Neither is asked to look at
/// what caches hold: that would take time of the run on hardware.
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

void name_streamed_bytes(RunPair& pair, const ExpertWeights& weights) {
  pair.named = pair.named_in_all =
      streamed_bytes_named(*pair.predicted_record, *pair.predicted_window, weights);
  for (const std::uint32_t layer : pair.predicted_window->unused()) {
    const StreamedBytes more = streamed_bytes_of(layer, *pair.predicted_window, weights);
    pair.named_in_all.loaded += more.loaded;
    pair.named_in_all.decoded += more.decoded;
  }
}

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
  const Hardware here{store, storage, device, host, how};
  RunOptions on_hardware;
  std::vector<double> loads;
  std::vector<std::size_t> arrivals;
  on_hardware.witness = [&](double seconds) { return loads.emplace_back(seconds); };
  on_hardware.arrivals = [&](std::size_t come) { return arrivals.emplace_back(come); };
  on_hardware.observer = [&](const SystemConfig&) { return &measured; };
  on_hardware.platform = [&](const SystemConfig& s, const ExpertCosts&, const MemoryPlan& plan) -> Platform {
    return s.paging ? windowed_platform(here, scenario, s, trace, plan, pair)
                    : cached_platform(here, scenario, s, trace, plan, pair);
  };
  const std::optional<ProcessorTime> before = processor_time();
  const double begin = seconds_now();
  pair.measured = run_system(scenario, system, trace, on_hardware);
  pair.disturbance = disturbance_between(before, processor_time(), seconds_now() - begin);
  check_fits(pair.measured);

  RunOptions simulated;
  simulated.witness = [&, next = std::size_t{0}](double seconds) mutable {
    return next < loads.size() ? loads[next++] : seconds;  // fewer: the runs differ, which is found
  };
  simulated.arrivals = [&, next = std::size_t{0}](std::size_t come) mutable {
    return next < arrivals.size() ? arrivals[next++] : come;
  };
  simulated.observer = [&](const SystemConfig&) { return &predicted; };
  if (system.paging) {
    pair.predicted_window = std::make_unique<WindowRecord>();
    simulated.platform = [&](const SystemConfig&, const ExpertCosts&, const MemoryPlan&) -> Platform {
      return {make_engine(ExecutorKind::fast), nullptr, pair.predicted_window.get()};
    };
  }
  pair.predicted = run_system(scenario, system, trace, simulated);
  if (pair.predicted_window) name_streamed_bytes(pair, store.chunks().weights());
  if (come_over_time(scenario, system, trace)) pair.alone = run_system(scenario, system, trace);
  return pair;
}

namespace {

std::string said(const char* what, double simulated, std::uint64_t done) {
  return to_string(Bytes(simulated)) + " of experts are " + what + " in the simulator, " +
         to_string(Bytes(static_cast<double>(done))) + " were on hardware";
}

/// What the windows did, and what was brought into them: the bytes that the simulator counts are those of its
/// operations and of what was on its way at the end, and hardware moved those of its operations.
std::optional<std::string> window_difference(const RunPair& pair) {
  constexpr double kRounding = 1e-9;  // a share of a sum
  if (auto found = first_difference(*pair.predicted_window, *pair.measured_window)) return found;
  const StreamedBytes& done = pair.moved.streamed;
  if (pair.named.loaded != done.loaded)
    return said("loaded", static_cast<double>(pair.named.loaded), done.loaded);
  if (pair.named.decoded != done.decoded)
    return said("decoded", static_cast<double>(pair.named.decoded), done.decoded);
  const ServingCounts& counted = pair.predicted.metrics.serving;
  const auto differs = [](double simulated, std::uint64_t bytes) {
    const auto real = static_cast<double>(bytes);
    return std::abs(simulated - real) > kRounding * real;
  };
  if (differs(counted.loaded_bytes, pair.named_in_all.loaded))
    return said("counted as loaded", counted.loaded_bytes, pair.named_in_all.loaded);
  if (differs(counted.decoded_bytes, pair.named_in_all.decoded))
    return said("counted as decoded", counted.decoded_bytes, pair.named_in_all.decoded);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> first_difference(const RunPair& pair) {
  if (auto found = first_difference(*pair.predicted_record, *pair.measured_record)) return found;
  if (pair.predicted_window)
    if (auto found = window_difference(pair)) return found;
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
