// What a routing trace says of itself, and one of its rows: shared by its reader, builder and writer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moelab {

enum class Phase : std::uint8_t { encoder = 0, prefill = 1, decode = 2 };

/// What the router gave the experts before the top-k, if the trace says.
enum class RouterScores : std::uint8_t { none, logits, softmax, sigmoid };

struct TraceDescription {
  std::string model{};       // identity of the model it was recorded from, "" if unknown
  std::string provenance{};  // how it came to be: "recorded ...", "synthetic: ..."
  bool synthetic = false;
  std::uint32_t layers = 0;   // MoE layers
  std::uint32_t experts = 0;  // routed experts a layer, 1 to 65535
  std::uint32_t top_k = 0;    // chosen a token and layer
  bool gate_scores = false;   // the chosen ones' weights are there
  RouterScores router_scores = RouterScores::none;
  std::uint32_t candidates = 0;        // router scores of the best m experts only; 0: of all
  bool lookahead = false;              // what the previous layer's input would have chosen is there
  std::vector<std::string> domains{};  // kinds of prompts, distinct; empty: requests have none

  /// Router scores of a row: experts or candidates; 0: none.
  std::uint32_t router_width() const {
    return router_scores == RouterScores::none ? 0 : candidates > 0 ? candidates : experts;
  }
};

/// One token over all layers: spans of layers * top_k values (ids, gate_scores, lookahead_ids) and layers *
/// router_width() (router_scores, candidate_ids); empty where the description says that there is none.
struct TraceRow {
  Phase phase = Phase::decode;
  std::span<const std::uint16_t> ids{};
  std::span<const float> gate_scores{};
  std::span<const float> router_scores{};
  std::span<const std::uint16_t> candidate_ids{};
  std::span<const std::uint16_t> lookahead_ids{};
};

}  // namespace moelab
