// One expert's feed-forward network on a CPU core, with the weights as a chunk store gives them back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moelab {

struct ExpertShape {
  std::size_t hidden, width;
  int matrices;  // 3: gate, up, down with SiLU; 2: up, down with ReLU
  std::size_t weights() const { return static_cast<std::size_t>(matrices) * hidden * width; }
  bool operator==(const ExpertShape&) const = default;
};

/// An expert's tensors, BF16 and row-major as in checkpoints: gate and up [width, hidden], down
/// [hidden, width].
struct ExpertTensors {
  std::span<const std::uint16_t> gate;  // empty with 2 matrices
  std::span<const std::uint16_t> up, down;
};

/// Of one shape, for any expert. Keeps what lies between the matrices: one object a thread.
class ExpertFfn {
 public:
  /// Throws std::invalid_argument for a size of 0, or matrices that are not 2 or 3.
  explicit ExpertFfn(const ExpertShape& shape);

  const ExpertShape& shape() const { return shape_; }
  /// The tensors of this shape that lie one after the other in `weights`: gate, up, down, or up, down.
  ExpertTensors tensors_in(std::span<const std::uint16_t> weights) const;
  /// out[t] = down (silu(gate in[t]) * (up in[t])), or down relu(up in[t]); row-major [tokens, hidden]. Sizes
  /// that are not the shape's throw std::invalid_argument.
  void run(const ExpertTensors& tensors, std::span<const float> in, std::size_t tokens, std::span<float> out);

 private:
  ExpertShape shape_;
  std::vector<float> gate_, up_;  // [tokens, width]
};

}  // namespace moelab
