#include "hw/kernels/cuda_expert.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>

#include "hw/kernels/cuda_samples.hpp"

namespace moelab {

namespace {

double from_bf16(std::uint16_t bits) {
  return static_cast<double>(std::bit_cast<float>(std::uint32_t{bits} << 16));
}

/// matrix[rows, columns] * in
std::vector<double> product(const std::uint16_t* matrix, std::size_t rows, const std::vector<double>& in) {
  std::vector<double> out(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < in.size(); ++c) out[r] += from_bf16(matrix[r * in.size() + c]) * in[c];
  }
  return out;
}

std::size_t elements_of(const ExpertShape& shape) {
  if (shape.hidden == 0 || shape.width == 0 || shape.matrices < 2 || shape.matrices > 3)
    throw std::invalid_argument("an expert has a hidden size, a width and 2 or 3 matrices");
  return shape.weights();
}

}  // namespace

CudaExpert::CudaExpert(const ExpertShape& shape, std::size_t tokens, const CudaStream& stream)
    : shape_(shape),
      tokens_(tokens),
      stream_(stream),
      handle_(stream),
      host_weights_(normal_weights(elements_of(shape), 0.02, 1)),
      host_input_(normal_weights(tokens * shape.hidden, 1, 2)),
      weights_(device_buffers(rotation(2 * elements_of(shape)), 2 * elements_of(shape))),
      input_(2 * tokens * shape.hidden),
      gate_(2 * tokens * shape.width),
      up_(shape.matrices == 3 ? 2 * tokens * shape.width : 0),
      output_(2 * tokens * shape.hidden) {
  if (tokens == 0) throw std::invalid_argument("an expert on 0 tokens");
  for (const DeviceMemory& copy : weights_) stream.copy(copy.data(), host_weights_.data(), copy.size());
  stream.copy(input_.data(), host_input_.data(), input_.size());
  stream.wait();
}

void CudaExpert::multiply(const std::uint16_t* matrix, std::size_t rows, std::size_t columns,
                          const DeviceMemory& in, const DeviceMemory& out) const {
  handle_.multiply(matrix, in.data(), out.data(), rows, tokens_, columns);
}

void CudaExpert::run(std::size_t i) {
  const std::size_t matrix = shape_.hidden * shape_.width;
  const std::uint16_t* const weights = weights_[i % weights_.size()].as<std::uint16_t>();
  multiply(weights, shape_.width, shape_.hidden, input_, gate_);
  if (shape_.matrices == 3) multiply(weights + matrix, shape_.width, shape_.hidden, input_, up_);
  cuda_activate(gate_.as<std::uint16_t>(), up_.as<std::uint16_t>(), tokens_ * shape_.width, stream_.get());
  multiply(weights + (shape_.weights() - matrix), shape_.hidden, shape_.width, gate_, output_);
}

std::vector<double> CudaExpert::expected(std::size_t token) const {
  const std::size_t matrix = shape_.hidden * shape_.width;
  std::vector<double> input;
  for (std::size_t i = 0; i < shape_.hidden; ++i)
    input.push_back(from_bf16(host_input_[token * shape_.hidden + i]));
  std::vector<double> inner = product(host_weights_.data(), shape_.width, input);
  if (shape_.matrices == 3) {
    const std::vector<double> up = product(host_weights_.data() + matrix, shape_.width, input);
    for (std::size_t i = 0; i < inner.size(); ++i) inner[i] = inner[i] / (1 + std::exp(-inner[i])) * up[i];
  } else {
    for (double& x : inner) x = std::max(x, 0.0);
  }
  return product(host_weights_.data() + (shape_.weights() - matrix), shape_.hidden, inner);
}

void CudaExpert::check() {
  run(0);
  std::vector<std::uint16_t> found(tokens_ * shape_.hidden);
  stream_.copy(found.data(), output_.data(), output_.size());
  stream_.wait();
  for (const std::size_t token : {std::size_t{0}, tokens_ - 1}) {
    const std::vector<double> reference = expected(token);
    double squares = 0, worst = 0;
    for (std::size_t i = 0; i < reference.size(); ++i) {
      squares += reference[i] * reference[i];
      worst = std::max(worst, std::abs(from_bf16(found[token * shape_.hidden + i]) - reference[i]));
    }
    // Each of three roundings to BF16 moves a value by 2^-9 of itself at most, the last one values of up to
    // five deviations: 0.01 of the deviation, the others averaged out.
    const double deviation = std::sqrt(squares / static_cast<double>(reference.size()));
    if (!(worst <= 0.03 * deviation))
      throw WrongAnswer("an expert's output is " + std::to_string(worst) + " off, where its deviation is " +
                        std::to_string(deviation));
  }
}

namespace {

class ExpertTiming final : public CudaTiming {
 public:
  ExpertTiming(const ExpertShape& shape, std::size_t tokens) : expert_(shape, tokens, stream_) {}
  void check() override { expert_.check(); }
  double run(std::size_t operations) override {
    return timer_.seconds(stream_, operations, [&](std::size_t i) { expert_.run(i); });
  }

 private:
  CudaStream stream_;
  CudaExpert expert_;
  EventTimer timer_;
};

}  // namespace

std::unique_ptr<CudaTiming> cuda_expert_timing(const ExpertShape& shape, std::size_t tokens) {
  return std::make_unique<ExpertTiming>(shape, tokens);
}

}  // namespace moelab
