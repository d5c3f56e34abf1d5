// How many tokens rows attend to: closed forms over rows that follow each other.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

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

/// Tokens that the rows attend to in one layer, each through a sliding window of so many (0: none), summed
/// over them: sum of min(first + i, window) over i = 0 .. rows - 1. Exact below 2^53 where `first` is a whole
/// number or a half.
inline double attended_tokens(const RowRun& run, int window) {
  const double rows = run.rows;
  if (run.whole) return rows * (window > 0 ? std::min<double>(run.first, window) : run.first);
  // The rows that see all there is come first.
  const double below = window > 0 ? std::clamp(std::floor(window - run.first) + 1, 0.0, rows) : rows;
  return below * run.first + below * (below - 1) / 2 + (rows - below) * window;
}

}  // namespace moelab
