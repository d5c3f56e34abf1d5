// A timeline of a run in the Chrome trace-event format, which https://ui.perfetto.dev opens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/run.hpp"

namespace moelab {

/// Collects the operations of graphs as they finish: one process a system, one track a slot of a resource
/// (decompression threads have a track each), a slice an operation. Passes outside [first_pass, last_pass]
/// are left out, so that a long run stays openable. Times are microseconds of engine
/// time, exact to the nanosecond.
class Timeline : public GraphObserver {
 public:
  Timeline(std::uint64_t first_pass, std::uint64_t last_pass)
      : first_pass_(first_pass), last_pass_(last_pass) {}
  void finished(const LabelledGraph& graph, std::uint64_t pass, std::int32_t layer) override;
  /// The events of the run that `result` is of, as process number `process`: comma-separated JSON objects.
  std::string events(const RunResult& result, int process) const;

 private:
  struct Slice {
    double start, end;
    OpLabel label;
    engine::ResourceId resource;
    std::uint64_t pass;
    std::int32_t layer;
  };
  std::uint64_t first_pass_, last_pass_;
  std::vector<Slice> slices_;
};

/// The whole file, from each run's events.
std::string timeline_json(const std::vector<std::string>& events);

}  // namespace moelab
