// One server of a cluster whose servers call each other.
#pragma once

#include "sim/cluster/called_stage.hpp"
#include "sim/serving/serving_loop.hpp"

namespace moelab {

struct PlacedServer {
  /// Everything by reference outlives the server. `requests` in order of arrival.
  PlacedServer(ClusterWorld& world, std::uint32_t number, const std::vector<ServedRequest>& requests,
               GraphObserver* observer, ServingProgress progress)
      : state(world.engine, observer, std::move(progress)),
        stage(state, world, number, requests),
        loop(state, stage, world.scenario.model, Bytes(0)) {}

  ServerState state;
  CalledStage stage;
  ServingLoop loop;
};

}  // namespace moelab
