// One system, run on hardware and simulated with the same profile.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hw/executor/compute_device.hpp"
#include "hw/executor/hardware_engine.hpp"
#include "hw/executor/host_experts.hpp"
#include "hw/validate/disturbance.hpp"
#include "hw/validate/run_record.hpp"
#include "hw/validate/validation_storage.hpp"
#include "hw/validate/window_record.hpp"
#include "sim/run_result.hpp"

namespace moelab {

class RoutingTrace;
struct Scenario;
struct SystemConfig;

/// By the executor, without what alignment adds.
struct MovedBytes {
  std::uint64_t read = 0;                         // of experts
  std::uint64_t swapped_out = 0, swapped_in = 0;  // of the KV cache
  StreamedBytes streamed;                         // into a window, with what is in `read`
};

struct RunPair {
  RunResult predicted, measured;
  /// Where requests come over time: simulated with nothing heard of the run on hardware.
  std::optional<RunResult> alone;
  std::unique_ptr<RunRecord> predicted_record, measured_record;
  /// Of a system that pages its experts, else nullptr.
  std::unique_ptr<WindowRecord> predicted_window, measured_window;
  /// Of what the simulator's window streams, by the stored tensors: for layers that computed, and with what
  /// was on its way at the end.
  StreamedBytes named, named_in_all;
  MovedBytes moved;
  std::vector<HandOffTimes> hand_offs;  // by resource
  Disturbance disturbance;              // of the run on hardware
};

/// What runs on a discrete GPU need beside: its end is the device, this is the host's.
struct HostEnd {
  const HostExperts& experts;
  ComputeDevice& cpu;
};

struct RunHow {
  bool verify = true, dense = true;
  GraphObserver *predicted = nullptr, *measured = nullptr;  // see the runs beside the records; or nullptr
};

/// The scenario's device is what both plan with; it is a discrete one exactly where `host` is given. What the
/// execution policy heard of loads on hardware it hears again in the simulator: it makes of the times that it
/// sees what it does, in both the same. Likewise of requests: each is taken into the step that took it on
/// hardware. Throws InputError where the executor does: a store that
/// does not fit, damaged chunks, more memory than the plan allows.
RunPair run_both(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace,
                 ValidationStore& store, ValidationStorage& storage, ComputeDevice& device,
                 const HostEnd* host, const RunHow& how);

/// Whether some of the system's requests are not there from the start, nor come as those before are answered.
bool come_over_time(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace);

/// Where the runs stop doing the same: a sentence; none where they do not.
std::optional<std::string> first_difference(const RunPair& pair);

}  // namespace moelab
