// What a submitted graph leaves in the metrics, and remembering it for the next time that the same happens.
//
// Most layers of a long run have been seen before: the same number of experts, in the same states, for as
// many tokens each. Where nothing else goes on, the same graph then takes the same time to the last digit, so
// it need not run again. What decides is the key; whether results are the same with and without is tested
// (tests/sim/serving_test.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/layer_graph.hpp"
#include "sim/serving/metrics.hpp"

namespace moelab {

struct StepOutcome {
  engine::Outcome time;
  std::array<double, kCauses> stall_s{};
  std::array<double, kTiers> bytes{};
};

/// What a finished graph has read, by tier.
std::array<double, kTiers> bytes_read(const LabelledGraph& graph);

/// Remembers the outcome of layers by what they consist of. Bounded: what comes when it is full is not kept.
class LayerMemo {
 public:
  /// Larger layers (those of prompts, of large batches) hardly ever repeat.
  static constexpr std::size_t kMostExperts = 16;
  static constexpr std::size_t kMostLayers = 1 << 15;

  /// What decides when an expert's parts are read, decompressed and executed, and what waiting for them is
  /// called, as one number. `tokens`: 0 for one that is only made ready.
  static std::uint64_t code(const ExpertReads& reads, State state, std::uint32_t tokens, bool low_score) {
    return std::uint64_t{tokens} << 8 | std::uint64_t{low_score} << 7 |
           static_cast<std::uint64_t>(state) << 4 | static_cast<std::uint64_t>(reads.sm_tier) << 2 |
           static_cast<std::uint64_t>(reads.e_tier);
  }
  /// Looks up the layer of these experts (codes in the instance's order) and of shared experts that take
  /// `shared_s`; nullptr when it is too large or has not been kept.
  const StepOutcome* find(std::span<const std::uint64_t> codes, double shared_s);
  /// Keeps the outcome of the layer that find() was asked for last.
  void keep(const StepOutcome& outcome);

 private:
  struct Key {
    double shared_s = 0;
    std::uint32_t experts = 0;
    std::array<std::uint64_t, kMostExperts> codes{};  // 0 behind `experts`
    bool operator==(const Key&) const = default;
  };
  std::size_t hash() const;

  Key key_;
  std::size_t place_ = 0;  // of the key in table_
  bool keepable_ = false;
  std::vector<std::uint32_t> table_;  // open addressing; number of the layer + 1, 0: free
  std::vector<Key> keys_;
  std::vector<StepOutcome> outcomes_;
};

}  // namespace moelab
