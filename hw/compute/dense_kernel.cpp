#include "hw/compute/dense_kernel.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "hw/compute/matrix_product.hpp"

namespace moelab {

namespace {

constexpr std::uint16_t kOne = 0x3F80;    // BF16
constexpr std::size_t kRowsAtOnce = 256;  // results of as many rows are kept, then summed

}  // namespace

DenseKernel::DenseKernel(std::uint64_t resident_bytes, std::size_t columns) : columns_(columns) {
  if (columns == 0) throw std::invalid_argument("a dense kernel has at least one column");
  rows_ = std::max<std::size_t>(1, static_cast<std::size_t>(resident_bytes) / 2 / columns);
  weights_ = AlignedMemory(rows_ * columns * 2);
  std::ranges::fill(weights_.as<std::uint16_t>(), kOne);
}

double DenseKernel::run(std::uint64_t bytes, std::size_t tokens) {
  for (std::size_t i = in_.size(); i < tokens * columns_; ++i)
    in_.push_back(static_cast<float>(i % columns_ + 1) / static_cast<float>(columns_));
  double sum = 0;
  std::uint64_t left = (bytes + 2 * columns_ - 1) / (2 * columns_);  // rows
  while (left > 0) {
    const auto rows =
        static_cast<std::size_t>(std::min<std::uint64_t>({left, kRowsAtOnce, std::uint64_t{rows_ - next_}}));
    out_.resize(rows * tokens);
    multiply(weights_.as<std::uint16_t>().subspan(next_ * columns_, rows * columns_), rows, columns_,
             std::span(in_).first(tokens * columns_), tokens, out_);
    sum = std::accumulate(out_.begin(), out_.end(), sum);
    next_ = (next_ + rows) % rows_;
    left -= rows;
  }
  return sum;
}

}  // namespace moelab
