#include "sim/serving/serving_account.hpp"

#include <algorithm>

namespace moelab {

void ServingAccount::begin(const BatchStep& step, const KvUse& use, std::uint64_t kv_blocks) {
  ServingCounts& c = metrics_.serving;
  ++c.steps;
  c.rows += step.rows;
  c.recomputed += step.recomputed;
  c.swapped_out += step.swapped_out.size();
  c.dropped += step.dropped.size();
  c.most_blocks = std::max(c.most_blocks, use.gpu_blocks);
  c.most_kv_use =
      std::max(c.most_kv_use, static_cast<double>(use.gpu_blocks) / static_cast<double>(kv_blocks));
  out_ = static_cast<double>(step.blocks_out) * kv_block_;
  in_ = static_cast<double>(step.blocks_in) * kv_block_;
  moves_ = step.of_ranks;
  c.swap_out_bytes += out_.value();
  c.swap_in_bytes += in_.value();
  sample_.swap_out_bytes += out_.value();
  sample_.swap_in_bytes += in_.value();
  tokens_ = metrics_.tokens;
}

void ServingAccount::take(double now, const KvUse& use, std::uint64_t kv_blocks) {
  sample_.step = metrics_.serving.steps;
  sample_.time_s = now;
  sample_.running = use.running;
  sample_.waiting = use.waiting;
  sample_.swapped = use.swapped;
  sample_.blocks = use.gpu_blocks;
  sample_.all_blocks = kv_blocks;
  sample_.tokens += metrics_.tokens - tokens_;
}

void ServingAccount::finish(double residency) {
  if (sample_.step == 0) return;  // the last step was wanted
  sample_.residency = residency;
  metrics_.series.finish(sample_);
}

}  // namespace moelab
