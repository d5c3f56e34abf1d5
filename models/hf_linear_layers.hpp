// The linear layers of a checkpoint, by the names that it gives them, and what one takes in a format. Only
// hf_*.cpp use it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "models/architecture.hpp"

namespace moelab::hf {

/// How a format stores one matrix of `rows` outputs by `columns` inputs.
struct LinearFormat {
  std::string name = "bf16";
  double bits = 16;          // a weight
  double scale_bits = 0;     // a block's scale and zero point
  double block_rows = 1;     // of a block; 0: all
  double block_columns = 0;  // 0: all
  double column_bits = 0;    // an input's group, where groups are no runs
  double matrix_bytes = 0;   // a matrix, whatever its size
  double flat_block = 0;     // instead of rows and columns: a block is so many weights one after another
  double nested_block = 0;   // so many scales of those share a scale of 32 bits

  double bytes(double rows, double columns) const;
  bool operator==(const LinearFormat&) const = default;
};

/// A matrix that a checkpoint names, or `count` of them that no entry of its lists tells apart.
struct LinearLayer {
  std::vector<std::string> names;  // any that files use
  WeightPart part = WeightPart::attention;
  double rows = 0;
  double columns = 0;
  double count = 1;
  bool linear = true;  // of PyTorch's class Linear; the embedding is not

  double weights() const { return rows * columns * count; }
};

/// What decides the names.
struct LayerNames {
  std::string_view model_type;
  bool text_part = false;    // of a model of several media
  bool each_expert = false;  // visits each expert, not the first for all
};

/// Visits every matrix that methods of quantisation may convert, in order of layers, until `visit` says no.
/// Left out are routers and the gates of shared experts, which runtimes do not quantise (vLLM's models give
/// them no quant_config), convolutions, norms and biases, and an embedding that is the head too. Of decoders
/// without an encoder only. The reference is valid during the call.
void for_each_linear(const Architecture& a, const LayerNames& names,
                     const std::function<bool(const LinearLayer&)>& visit);

}  // namespace moelab::hf
