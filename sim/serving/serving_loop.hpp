// The serving loop, one for all servers: requests -> steps -> layers -> tokens. It is a coroutine, so that
// several servers can live in one engine.
//
//   step:   what a stage does between steps -> what has come forms a step -> blocks of the KV cache are
//           swapped -> tokens are drafted -> layer after layer, as the stage has it -> head
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/architecture.hpp"
#include "sim/engine/engine.hpp"
#include "sim/serving/server_state.hpp"
#include "sim/serving/serving_account.hpp"
#include "sim/serving/serving_stage.hpp"

namespace moelab {

class ServingLoop {
 public:
  /// Everything by reference outlives the loop. `kv_block`: bytes of a block of the KV cache, of one GPU; 0:
  /// it is not in blocks.
  ServingLoop(ServerState& state, ServingStage& stage, const Architecture& model, Bytes kv_block);

  /// Serves every request once, except those that are under way when the server leaves. Throws
  /// std::logic_error when requests are left that nothing would let run.
  engine::Process serve();

 private:
  void begin_step();
  bool submit_swaps();
  void end_layer(std::size_t layer, double began);
  void end_step();
  void end();

  ServerState& state_;
  ServingStage& stage_;
  const Architecture& model_;
  std::vector<std::int32_t> moe_numbers_;  // by model layer; -1: dense
  std::optional<ServingAccount> account_;  // where the KV cache is in blocks
  LabelledGraph swaps_;
};

}  // namespace moelab
