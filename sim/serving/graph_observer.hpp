// What a run shows of itself while it goes on: for timelines and records.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "policies/compression_state.hpp"
#include "sim/engine/labelled_graph.hpp"

namespace moelab {

/// What a server's memory holds, as far as that changes while it serves. With several GPUs that share a
/// model, of one.
struct MemoryContents {
  std::array<std::uint32_t, kStates> experts{};  // kept by the cache, of all layers, by state; none in M
  double expert_bytes = 0;
  double kv_bytes = 0;  // of tokens; where the cache has blocks, of those in use
};

/// A request that was answered. Seconds of engine time.
struct ServedSpan {
  std::uint64_t request = 0;  // its number among the server's, in order of arrival
  double arrival_s = 0;
  double begin_s = 0;  // of the first pass that ran some of it
  double first_token_s = 0;
  double end_s = 0;
};

class GraphObserver {
 public:
  virtual ~GraphObserver() = default;
  /// Every finished graph, with the pass and model layer it belongs to (-1: the end of a pass, or none).
  virtual void finished(const LabelledGraph& graph, std::uint64_t pass, std::int32_t layer) = 0;
  /// Whether it wants holds() now: finding out what caches hold takes time.
  virtual bool wants_memory() const { return false; }
  /// From now on.
  virtual void holds(double /*now*/, const MemoryContents& /*memory*/) {}
  virtual void answered(const ServedSpan& /*span*/) {}
  /// The pass of that number has ended, and this server has generated so many tokens so far.
  virtual void pass_ended(double /*now*/, std::uint64_t /*pass*/, std::uint64_t /*tokens*/) {}
  /// Who sees one server of several; its resources' names begin with `prefix`. Lives as long as this.
  virtual GraphObserver* of_server(const std::string& /*prefix*/) { return this; }
};

/// Is called after each pass with the tokens that a server has generated so far; may throw to stop the run.
using ServingProgress = std::function<void(std::uint64_t tokens)>;

}  // namespace moelab
