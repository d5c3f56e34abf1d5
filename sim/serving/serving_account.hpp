// Counts what serving from a KV cache in blocks takes, step by step, and keeps samples of it.
#pragma once

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
  // What the step that begins swaps.
  Bytes swapped_out() const { return out_; }
  Bytes swapped_in() const { return in_; }
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
  std::uint64_t tokens_ = 0;  // generated before the step
  ServingSample sample_;      // of what came since the last one in the series
};

}  // namespace moelab
