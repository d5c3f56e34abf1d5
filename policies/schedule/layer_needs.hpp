// What a tensor of an expert still needs, by the expert's compression state (ZipMoE, Fig. 6).
#pragma once

#include <cstdint>

#include "policies/schedule/schedule.hpp"

namespace moelab {

/// One read of sm_read_s: the SM-chunk, or the whole tensor when shards = 0.
inline bool needs_sm_read(const LayerExpert& expert) {
  return !has_sm(expert.state);
}
/// Reads of e_read_s, one for each E-chunk.
inline std::uint32_t e_reads(const LayerInstance& instance, const LayerExpert& expert) {
  return has_e(expert.state) ? 0 : instance.shards;
}
inline std::uint32_t decompressions(const LayerInstance& instance, const LayerExpert& expert) {
  return expert.state == State::F ? 0 : instance.shards;
}
inline bool needs_recovery(const LayerInstance& instance, const LayerExpert& expert) {
  return decompressions(instance, expert) > 0;
}
/// Seconds of I/O for one tensor.
inline double read_s(const LayerInstance& instance, const LayerExpert& expert) {
  return (needs_sm_read(expert) ? instance.sm_read_s : 0) + e_reads(instance, expert) * instance.e_read_s;
}

}  // namespace moelab
