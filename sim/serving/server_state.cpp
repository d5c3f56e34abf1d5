#include "sim/serving/server_state.hpp"

namespace moelab {

void ServerState::account(const LabelledGraph& graph, std::int32_t layer, std::span<const FetchWait> waits) {
  metrics.add_stalls(critical_path(graph, waits), pass.prompt);
  show(graph, layer);
}

}  // namespace moelab
