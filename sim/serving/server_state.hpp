// What a server is at: the requests it serves, the step that runs, and what was counted so far. Its loop and
// its stage share it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "sim/engine/engine.hpp"
#include "sim/serving/graph_observer.hpp"
#include "sim/serving/metrics.hpp"
#include "sim/serving/pass.hpp"
#include "sim/serving/request_stream.hpp"

namespace moelab {

struct ServerState {
  /// Everything by reference outlives the state; `observer` may be nullptr and `progress` empty.
  ServerState(engine::Engine& e, GraphObserver* o, ServingProgress p)
      : engine(e), observer(o), progress(std::move(p)) {}
  ServerState(const ServerState&) = delete;  // a server's parts know it
  ServerState& operator=(const ServerState&) = delete;

  /// From now on serves what `source` announces, in steps that `policy` forms of rows of `trace` and drafts;
  /// what it served before is forgotten. `source` and `trace` outlive the state.
  void serve(RequestSource& source, const RoutingTrace& trace, std::unique_ptr<BatchingPolicy> policy,
             Drafts drafts = {}) {  // a copy: they may be those of the stream that goes
    batching = std::move(policy);
    stream.emplace(source, trace, *batching, drafts);
  }
  /// Of the step that runs.
  std::uint64_t step() const { return steps - 1; }
  /// A graph of that step has ended and the step waited for it: counts what its critical path went to.
  /// `layer` of the model; -1: none.
  void account(const LabelledGraph& graph, std::int32_t layer, std::span<const FetchWait> waits = {});
  /// Likewise, but something else was waited for: observers see it.
  void show(const LabelledGraph& graph, std::int32_t layer) const {
    if (observer != nullptr) observer->finished(graph, step(), layer);
  }

  engine::Engine& engine;
  GraphObserver* observer;   // nullptr: none looks
  ServingProgress progress;  // may be empty
  std::unique_ptr<BatchingPolicy> batching;
  std::optional<RequestStream> stream;
  Pass pass;                // the step that runs
  std::uint64_t steps = 0;  // begun
  Metrics metrics;
};

}  // namespace moelab
