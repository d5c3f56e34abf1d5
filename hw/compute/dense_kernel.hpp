// Dense layers' work, with stand-in weights: a stream of matrix products that reads as many bytes and makes
// as many floating-point operations as attention, shared experts and the like would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hw/io/aligned_memory.hpp"

namespace moelab {

/// One object a thread.
class DenseKernel {
 public:
  /// A usual length of rows. The executor's and the benchmark's are the same: short rows are read at half the
  /// bandwidth of long ones.
  static constexpr std::size_t kUsualColumns = 2048;

  /// Keeps `resident_bytes` of BF16 weights, in rows of `columns`, and goes through them round and round:
  /// give it more than the caches hold, or they will. At least one row is kept. Throws std::invalid_argument
  /// for 0 columns.
  DenseKernel(std::uint64_t resident_bytes, std::size_t columns);

  /// Multiplies the next weights, `bytes` of them rounded up to whole rows, with the vectors of `tokens`
  /// tokens: tokens * bytes floating-point operations. The sum of the results is returned, so that none of
  /// it can be left out; every weight is 1 and every vector (1, 2, 3, ... columns) / columns, so that it is
  /// rows * tokens * (columns + 1) / 2, within rounding.
  double run(std::uint64_t bytes, std::size_t tokens);

 private:
  std::size_t columns_, rows_, next_ = 0;  // rows
  AlignedMemory weights_;
  std::vector<float> in_, out_;
};

}  // namespace moelab
