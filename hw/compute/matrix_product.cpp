// One loop in the compiler's vector types, compiled for each kind of vector unit that it may meet.
#include "hw/compute/matrix_product.hpp"

#include <bit>
#include <cstring>
#include <stdexcept>

#include "hw/codec/cpu_features.hpp"

namespace moelab {

namespace {

/// Vectors of so many floats, and of as many 32-bit words.
template <std::size_t lanes>
struct Vectors {
  using Floats [[gnu::vector_size(lanes * 4)]] = float;
  using Words [[gnu::vector_size(lanes * 4)]] = std::uint32_t;
};

// Vectors go by reference: by value they would pass through an ABI that depends on the processor.

/// A vector of words has two weights in each: the lower halves are those of even columns, the upper ones
/// those of odd columns. Taken so, a shift or a mask makes floats of them, and nothing need change lanes.
template <std::size_t lanes>
[[gnu::always_inline]] inline void load_weights(const std::uint16_t* from,
                                                typename Vectors<lanes>::Floats& even,
                                                typename Vectors<lanes>::Floats& odd) {
  using Floats = typename Vectors<lanes>::Floats;
  typename Vectors<lanes>::Words words;
  std::memcpy(&words, from, sizeof words);
  if constexpr (std::endian::native == std::endian::little) {
    even = reinterpret_cast<Floats>(words << 16);
    odd = reinterpret_cast<Floats>(words & 0xFFFF0000U);
  } else {
    odd = reinterpret_cast<Floats>(words << 16);
    even = reinterpret_cast<Floats>(words & 0xFFFF0000U);
  }
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
  const float* halves;  // of `in`: by blocks of 2 * lanes columns, the even ones, then the odd ones
  float* out;
};

/// Vectors as weights are loaded: the values of even columns, then those of odd ones.
template <std::size_t lanes>
[[gnu::always_inline]] inline void take_apart(const float* in, std::size_t columns, std::size_t tokens,
                                              float* halves) {
  for (std::size_t token = 0; token < tokens; ++token, in += columns, halves += columns)
    for (std::size_t block = 0; block + 2 * lanes <= columns; block += 2 * lanes)
      for (std::size_t i = 0; i < 2 * lanes; ++i) halves[block + i % 2 * lanes + i / 2] = in[block + i];
}

/// Some rows times some tokens: a weight is read and widened once for all of the tokens.
template <std::size_t lanes, std::size_t rows, std::size_t tokens>
[[gnu::always_inline]] inline void tile(const Product& p, std::size_t row, std::size_t token) {
  typename Vectors<lanes>::Floats sums[rows][tokens] = {}, even[rows], odd[rows], value;
  std::size_t column = 0;
  for (; column + 2 * lanes <= p.columns; column += 2 * lanes) {
    for (std::size_t r = 0; r < rows; ++r)
      load_weights<lanes>(p.weights + (row + r) * p.columns + column, even[r], odd[r]);
    for (std::size_t t = 0; t < tokens; ++t) {
      const float* values = p.halves + (token + t) * p.columns + column;
      std::memcpy(&value, values, sizeof value);
      for (std::size_t r = 0; r < rows; ++r) sums[r][t] += even[r] * value;
      std::memcpy(&value, values + lanes, sizeof value);
      for (std::size_t r = 0; r < rows; ++r) sums[r][t] += odd[r] * value;
    }
  }
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t t = 0; t < tokens; ++t) {
      float all = sum<lanes>(sums[r][t]);
      for (std::size_t c = column; c < p.columns; ++c)
        all += float_of_bf16(p.weights[(row + r) * p.columns + c]) * p.in[(token + t) * p.columns + c];
      p.out[(token + t) * p.rows + row + r] = all;
    }
  }
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
[[gnu::always_inline]] inline void all_rows(const Product& p, std::size_t tokens) {
  std::size_t row = 0;
  for (; row + rows <= p.rows; row += rows) rows_by_tokens<lanes, rows>(p, row, tokens);
  for (; row < p.rows; ++row) rows_by_tokens<lanes, 1>(p, row, tokens);
}

/// `tile_rows` times four sums and two weights for each row stay in registers. A single token takes four rows
/// at a time on any processor: with more places to read from, memory gives more.
template <std::size_t lanes, std::size_t tile_rows>
[[gnu::always_inline]] inline void product(const std::uint16_t* weights, std::size_t rows,
                                           std::size_t columns, const float* in, std::size_t tokens,
                                           float* out) {
  thread_local std::vector<float> halves;
  halves.resize(tokens * columns);
  take_apart<lanes>(in, columns, tokens, halves.data());
  const Product p{weights, rows, columns, in, halves.data(), out};
  if (tokens == 1)
    all_rows<lanes, 4>(p, tokens);
  else
    all_rows<lanes, tile_rows>(p, tokens);
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
