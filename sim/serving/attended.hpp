// How many tokens rows attend to: closed forms over rows that follow each other.
#pragma once

#include <algorithm>
#include <cstdint>

#include "models/architecture.hpp"

namespace moelab {

/// Rows of one request that run in one pass, one behind the other. The first attends to `first` tokens,
/// itself included, and each further row to one more; in an encoder, which sees its whole prompt, all to
/// `first`.
struct RowRun {
  bool prompt = false;  // rows of a prompt; else they decode
  double first = 0;     // tokens
  std::uint32_t rows = 1;
  bool whole = false;  // an encoder's
  double encoded = 0;  // tokens of the encoder that each row attends to besides, by cross-attention
};

/// Tokens that the rows attend to in one layer, summed over them (models/architecture.hpp).
inline double attended_tokens(const RowRun& run, int window) {
  if (run.whole) return run.rows * (window > 0 ? std::min<double>(run.first, window) : run.first);
  return attended_tokens(run.first, run.rows, window);
}

}  // namespace moelab
