// The same runs on hardware and in the simulator, and how far apart they are. README.md in this folder says
// how it is done and what the figures mean.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "hw/bench/machine_context.hpp"
#include "hw/executor/hardware_engine.hpp"
#include "hw/io/reader.hpp"
#include "hw/validate/disturbance.hpp"
#include "hw/validate/prediction_error.hpp"
#include "hw/validate/run_record.hpp"
#include "hw/validate/validation_serving.hpp"
#include "hw/validate/validation_storage.hpp"
#include "hw/validate/window_record.hpp"
#include "sim/results/statistics.hpp"
#include "sim/results/timeline.hpp"
#include "sim/run_result.hpp"

namespace moelab {

class RoutingTrace;
struct Scenario;

struct ValidationOptions {
  std::vector<Bytes> budgets;  // empty: default_budgets()
  std::vector<std::uint32_t> threads = {1, 2};
  std::vector<std::string> codecs = {"lz4hc", "fixed3"};
  std::optional<Pace> pace = Pace{BytesPerSecond(800e6), Seconds(100e-6)};  // empty: the disk
  std::filesystem::path stores = "moelab-stores";
  /// The profile's GPU, by CUDA; else the CPU joins and computes, whatever the profile has, and plays the
  /// GPU of a profile whose is a stand-in.
  bool gpu = false;
  bool cpu_now = true;        // before each timed run the CPU is timed, and predicted at the speed found
  bool dense = true;          // false: dense and shared parts take no time, in both
  bool verify = true;         // before the timed runs, which do not, one that compares all checksums
  std::uint32_t repeats = 2;  // of every timed run, all in turns
  unsigned pack_threads = 1;
  /// Of a timeline of the first timed runs of each system, at the first place of the grid; empty: none.
  std::optional<TimelineWindow> timeline;
  TimelineForm timeline_form = TimelineForm::json;
  /// What is being done, now and then.
  std::function<void(const std::string&)> progress;
};

/// Operations of a kind, in pairs.
struct OperationTimes {
  std::vector<double> predicted, measured;  // seconds, from the engine's decision to its end
  void add(const OperationTimes& more);
};

/// A system at one place of the grid.
struct ValidationPoint {
  std::string codec;
  Bytes budget;
  std::uint32_t threads = 0;
  std::string system;

  // Of every layer of every repeat: seconds from the experts' graph being submitted to its end.
  std::vector<double> predicted_layers, measured_layers;
  std::vector<double> predicted_tpot, measured_tpot;  // of every repeat: mean seconds a token after the first
  std::array<std::uint64_t, kStates> predicted_hits{}, measured_hits{};
  // Of all repeats. Simulated by the codec's ratio; named: the stored sizes of what the simulator reads; read
  // by the executor. The last two must be equal.
  double simulated_bytes = 0;
  std::uint64_t named_bytes = 0, read_bytes = 0;
  // With a discrete GPU, while decoding, of one run: missing experts that were loaded, that the CPU computed,
  // and the choices of experts in whose place others were used.
  std::uint64_t loaded = 0, on_cpu = 0, substituted = 0;
  // Of a system that pages its experts: of a timed run what came into its window for layers that computed,
  // and how often a layer was loaded, of all of them.
  bool windowed = false;
  StreamedBytes streamed;
  std::uint64_t layers_streamed = 0;
  ServingPoint serving;
  std::map<OpKind, OperationTimes> operations;  // of all repeats
  Disturbance disturbance;                      // of the timed runs on hardware
  std::string difference;                       // where the runs stopped doing the same; empty: nowhere

  bool same_work() const {
    return difference.empty() && predicted_hits == measured_hits && named_bytes == read_bytes;
  }
  bool too_noisy() const { return !disturbance.too_noisy().empty(); }
  double predicted_tpot_s() const { return repeated(predicted_tpot).median; }
  Repeated measured_tpot_s() const { return repeated(measured_tpot); }
};

using OperationKey = std::tuple<OpKind, std::string, std::uint32_t>;  // kind, codec, threads

/// The systems at one codec, budget and number of threads, against each other.
struct ValidationGroup {
  std::string codec;
  Bytes budget;
  std::uint32_t threads = 0;
  std::optional<double> rank_correlation;  // of the systems' TPOT
  Ordering ordering;
};

struct Validation {
  std::string scenario, model, device;
  std::string storage;
  bool discrete = false;  // experts lie in host memory, and a GPU has its own
  std::vector<std::string> warnings, notes;
  MachineContext machine;  // before the first run; its file system is that of the stores
  std::vector<ValidationPoint> points;
  std::vector<std::string> resources;   // names
  std::vector<HandOffTimes> hand_offs;  // by resource
  double dispatch_s = 0;                // what the profile says that both ways of a hand-over take
  std::vector<ReadTimes> disk;          // empty when paced
  std::vector<std::string> timeline;    // events: of each system on hardware, and simulated
  std::map<std::string, std::vector<double>> cpu_ratios;  // seconds over the profile's, see ValidationCpu
  std::vector<double> hand_over_ratios;                   // the same of hand-overs, which no prediction takes
  std::vector<double> reading_ratios;  // seconds of the CPU's work beside reads of the disk over alone

  std::map<OperationKey, OperationTimes> operations() const;  // of all points

  // Of points whose runs were not too noisy to say anything.
  std::map<OperationKey, OperationTimes> quiet_operations() const;
  ErrorSummary layer_error() const;  // over all their layers
  ErrorSummary tpot_error() const;   // over points
  std::vector<ValidationGroup> groups() const;
  std::size_t too_noisy() const;  // points
  bool same_work() const;
};

/// Budgets with room for a quarter, a half and three quarters of the routed experts beside what every system
/// needs, rounded up to three digits of all experts' size.
std::vector<Bytes> default_budgets(const Scenario& scenario, const RoutingTrace& trace);

/// Runs every system of the scenario at every place of the grid. `scenario.device` is the profile.
/// Differences in what runs do are in the result, for the caller to report: they are errors of this program.
/// Throws InputError where the scenario cannot be validated (prefetching, page cache, paging without a GPU
/// that the CPU plays, clusters, codecs or shapes that the profile does not know, requests that come for
/// days), where there is too little memory, and what stores and readers throw.
Validation validate(const Scenario& scenario, const ValidationOptions& options);

}  // namespace moelab
