// Counts what serving from a KV cache in blocks takes, step by step, and keeps samples of it.
#pragma once

#include <vector>

#include "models/units.hpp"
#include "policies/batching/batching.hpp"
#include "sim/serving/metrics.hpp"

namespace moelab {

class ServingAccount {
 public:
  /// `metrics` outlives this. `kv_block`: bytes of a block, of one GPU.
  ServingAccount(Metrics& metrics, Bytes kv_block) : metrics_(metrics), kv_block_(kv_block) {}

  /// A step begins, with `kv_blocks` blocks in all.
  void begin(const BatchStep& step, const KvUse& use, std::uint64_t kv_blocks);
  // What the step that begins swaps, in all, and of GPU `gpu` of those that are simulated.
  Bytes swapped_out() const { return out_; }
  Bytes swapped_in() const { return in_; }
  Bytes swapped_out(std::size_t gpu) const {
    return moves_.empty() ? out_ : static_cast<double>(moves_[gpu].out) * kv_block_;
  }
  Bytes swapped_in(std::size_t gpu) const {
    return moves_.empty() ? in_ : static_cast<double>(moves_[gpu].in) * kv_block_;
  }
  /// It has run, and metrics.tokens has what it generated. `residency()`: the share of experts that takes GPU
  /// memory; is asked where a sample is kept.
  template <class Residency>
  void end(double now, const KvUse& use, std::uint64_t kv_blocks, Residency residency) {
    take(now, use, kv_blocks);
    if (!metrics_.series.wants(sample_.step)) return;
    sample_.residency = residency();
    metrics_.series.add(sample_);
    sample_ = {};
  }
  /// All steps have run. `residency` as above.
  void finish(double residency);

 private:
  void take(double now, const KvUse& use, std::uint64_t kv_blocks);

  Metrics& metrics_;
  Bytes kv_block_, out_, in_;
  std::vector<BlockMoves> moves_;  // by GPU, where each has requests of its own
  std::uint64_t tokens_ = 0;       // generated before the step
  ServingSample sample_;           // of what came since the last one in the series
};

}  // namespace moelab
