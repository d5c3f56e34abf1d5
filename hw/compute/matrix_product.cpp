// One loop in the compiler's vector types, compiled for each kind of vector unit that it may meet.
#include "hw/compute/matrix_product.hpp"

#include <cstring>
#include <stdexcept>

#include "hw/codec/cpu_features.hpp"

namespace moelab {

namespace {

/// Vectors of so many floats, and of the weights that become them.
template <std::size_t lanes>
struct Vectors {
  using Floats [[gnu::vector_size(lanes * 4)]] = float;
  using Words [[gnu::vector_size(lanes * 4)]] = std::uint32_t;
  using Halves [[gnu::vector_size(lanes * 2)]] = std::uint16_t;
};

// Vectors go by reference: by value they would pass through an ABI that depends on the processor.
template <std::size_t lanes>
[[gnu::always_inline]] inline void load(const float* from, typename Vectors<lanes>::Floats& to) {
  std::memcpy(&to, from, sizeof to);
}

template <std::size_t lanes>
[[gnu::always_inline]] inline void load(const std::uint16_t* from, typename Vectors<lanes>::Floats& to) {
  typename Vectors<lanes>::Halves halves;
  std::memcpy(&halves, from, sizeof halves);
  to = reinterpret_cast<typename Vectors<lanes>::Floats>(
      __builtin_convertvector(halves, typename Vectors<lanes>::Words) << 16);
}

template <std::size_t lanes>
[[gnu::always_inline]] inline float sum(const typename Vectors<lanes>::Floats& vector) {
  float values[lanes];
  std::memcpy(values, &vector, sizeof values);
  for (std::size_t width = lanes / 2; width > 0; width /= 2)
    for (std::size_t i = 0; i < width; ++i) values[i] += values[i + width];
  return values[0];
}

/// A product's sizes, and where its operands are.
struct Product {
  const std::uint16_t* weights;
  std::size_t rows, columns;
  const float* in;
  float* out;
};

/// What is left of the columns from `column` on.
[[gnu::always_inline]] inline float rest(const Product& p, std::size_t row, std::size_t token,
                                         std::size_t column) {
  float value = 0;
  for (; column < p.columns; ++column)
    value += float_of_bf16(p.weights[row * p.columns + column]) * p.in[token * p.columns + column];
  return value;
}

/// One row, one token: four sums run side by side, and the weights are read in the order in which they lie.
template <std::size_t lanes>
[[gnu::always_inline]] inline void one(const Product& p, std::size_t row, std::size_t token) {
  typename Vectors<lanes>::Floats sums[4] = {}, weight, value;
  const std::uint16_t* weights = p.weights + row * p.columns;
  const float* in = p.in + token * p.columns;
  std::size_t column = 0;
  for (; column + 4 * lanes <= p.columns; column += 4 * lanes) {
    for (std::size_t i = 0; i < 4; ++i) {
      load<lanes>(weights + column + i * lanes, weight);
      load<lanes>(in + column + i * lanes, value);
      sums[i] += weight * value;
    }
  }
  for (; column + lanes <= p.columns; column += lanes) {
    load<lanes>(weights + column, weight);
    load<lanes>(in + column, value);
    sums[0] += weight * value;
  }
  sums[0] += sums[1];
  sums[2] += sums[3];
  sums[0] += sums[2];
  p.out[token * p.rows + row] = sum<lanes>(sums[0]) + rest(p, row, token, column);
}

/// Some rows times some tokens: a weight is read and widened once for all of the tokens.
template <std::size_t lanes, std::size_t rows, std::size_t tokens>
[[gnu::always_inline]] inline void tile(const Product& p, std::size_t row, std::size_t token) {
  typename Vectors<lanes>::Floats sums[rows][tokens] = {}, weights[rows], value;
  std::size_t column = 0;
  for (; column + lanes <= p.columns; column += lanes) {
    for (std::size_t r = 0; r < rows; ++r)
      load<lanes>(p.weights + (row + r) * p.columns + column, weights[r]);
    for (std::size_t t = 0; t < tokens; ++t) {
      load<lanes>(p.in + (token + t) * p.columns + column, value);
      for (std::size_t r = 0; r < rows; ++r) sums[r][t] += weights[r] * value;
    }
  }
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t t = 0; t < tokens; ++t)
      p.out[(token + t) * p.rows + row + r] = sum<lanes>(sums[r][t]) + rest(p, row + r, token + t, column);
}

template <std::size_t lanes, std::size_t rows>
[[gnu::always_inline]] inline void rows_by_tokens(const Product& p, std::size_t row, std::size_t tokens) {
  std::size_t token = 0;
  for (; token + 4 <= tokens; token += 4) tile<lanes, rows, 4>(p, row, token);
  if (token + 2 <= tokens) {
    tile<lanes, rows, 2>(p, row, token);
    token += 2;
  }
  if (token < tokens) tile<lanes, rows, 1>(p, row, token);
}

template <std::size_t lanes, std::size_t rows>
[[gnu::always_inline]] inline void product(const std::uint16_t* weights, std::size_t all_rows,
                                           std::size_t columns, const float* in, std::size_t tokens,
                                           float* out) {
  const Product p{weights, all_rows, columns, in, out};
  if (tokens == 1) {
    for (std::size_t row = 0; row < all_rows; ++row) one<lanes>(p, row, 0);
    return;
  }
  std::size_t row = 0;
  for (; row + rows <= all_rows; row += rows) rows_by_tokens<lanes, rows>(p, row, tokens);
  for (; row < all_rows; ++row) rows_by_tokens<lanes, 1>(p, row, tokens);
}

#if defined(__x86_64__)

__attribute__((target("avx512f,avx2,fma"))) void multiply_avx512(const std::uint16_t* weights,
                                                                 std::size_t rows, std::size_t columns,
                                                                 const float* in, std::size_t tokens,
                                                                 float* out) {
  product<16, 4>(weights, rows, columns, in, tokens, out);
}

__attribute__((target("avx2,fma"))) void multiply_avx2(const std::uint16_t* weights, std::size_t rows,
                                                       std::size_t columns, const float* in,
                                                       std::size_t tokens, float* out) {
  product<8, 2>(weights, rows, columns, in, tokens, out);
}

#endif

/// By what every processor of the kind has: NEON, SSE2, or plain words.
void multiply_portable(const std::uint16_t* weights, std::size_t rows, std::size_t columns, const float* in,
                       std::size_t tokens, float* out) {
  product<4, 2>(weights, rows, columns, in, tokens, out);
}

std::vector<MatrixKernel> find_kernels() {
  std::vector<MatrixKernel> found;
#if defined(__x86_64__)
  if (cpu_features().avx512f) found.push_back({"avx512", multiply_avx512});
  if (cpu_features().fma) found.push_back({"avx2", multiply_avx2});
  found.push_back({"sse2", multiply_portable});
#elif defined(__aarch64__)
  found.push_back({"neon", multiply_portable});
#else
  found.push_back({"portable", multiply_portable});
#endif
  return found;
}

}  // namespace

const std::vector<MatrixKernel>& matrix_kernels_here() {
  static const std::vector<MatrixKernel> found = find_kernels();
  return found;
}

void multiply(std::span<const std::uint16_t> weights, std::size_t rows, std::size_t columns,
              std::span<const float> in, std::size_t tokens, std::span<float> out) {
  if (weights.size() != rows * columns || in.size() != tokens * columns || out.size() != tokens * rows)
    throw std::invalid_argument("a matrix product's operands have not the sizes of its shape");
  matrix_kernels_here().front().multiply(weights.data(), rows, columns, in.data(), tokens, out.data());
}

}  // namespace moelab
