// Products of a BF16 matrix, as checkpoints have them, with the float vectors of one or more tokens: what
// experts and dense layers are made of. With one token each weight is read once and used once, so that memory
// is the limit; with more, tiles of rows and tokens use each weight several times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moelab {

/// out[t][r] = sum over c of weights[r][c] * in[t][c], in float, in an order of the processor's choosing.
/// Row-major: weights [rows, columns], in [tokens, columns], out [tokens, rows]; any sizes, 0 too, which the
/// spans must have (std::invalid_argument otherwise). The spans do not overlap.
void multiply(std::span<const std::uint16_t> weights, std::size_t rows, std::size_t columns,
              std::span<const float> in, std::size_t tokens, std::span<float> out);

/// A BF16 value as a float.
constexpr float float_of_bf16(std::uint16_t value) {
  return __builtin_bit_cast(float, std::uint32_t{value} << 16);
}

/// The same for one kind of vector unit: for tests and for who wants to know.
struct MatrixKernel {
  const char* name;
  void (*multiply)(const std::uint16_t* weights, std::size_t rows, std::size_t columns, const float* in,
                   std::size_t tokens, float* out);
};

/// What this processor can run, fastest first; never empty. multiply() uses the first.
const std::vector<MatrixKernel>& matrix_kernels_here();

}  // namespace moelab
