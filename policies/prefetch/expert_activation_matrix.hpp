// The expert activation matrix (EAM) of MoE-Infinity (Xue et al. 2024, arXiv 2401.14361): how many tokens of
// a request went to each expert of each layer.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

namespace moelab {

class ExpertActivationMatrix {
 public:
  ExpertActivationMatrix(std::uint32_t layers, std::uint32_t experts)
      : experts_(experts), counts_(std::size_t{layers} * experts, 0), row_tokens_(layers, 0) {}

  /// `tokens` more tokens went to `expert` of `layer`. A count holds up to 2^32 - 1.
  void add(std::uint32_t layer, std::uint32_t expert, std::uint32_t tokens) {
    assert(layer < layers() && expert < experts_);
    counts_[std::size_t{layer} * experts_ + expert] += tokens;
    row_tokens_[layer] += tokens;
  }
  void clear() {
    std::fill(counts_.begin(), counts_.end(), 0);
    std::fill(row_tokens_.begin(), row_tokens_.end(), 0);
  }

  std::uint32_t layers() const { return static_cast<std::uint32_t>(row_tokens_.size()); }
  std::uint32_t experts() const { return experts_; }
  /// Tokens by object number, layer * experts + expert.
  std::span<const std::uint32_t> counts() const { return counts_; }
  std::span<const std::uint32_t> row(std::uint32_t layer) const {
    return counts().subspan(std::size_t{layer} * experts_, experts_);
  }
  /// Sum of a layer's row: top-k times the tokens routed there.
  std::uint64_t row_tokens(std::uint32_t layer) const { return row_tokens_[layer]; }
  /// Share of a layer's routed tokens that went to `expert`, 0 for a layer that has seen none: the paper's
  /// activation ratio.
  double ratio(std::uint32_t layer, std::uint32_t expert) const {
    const std::uint64_t tokens = row_tokens_[layer];
    return tokens == 0 ? 0 : static_cast<double>(row(layer)[expert]) / static_cast<double>(tokens);
  }
  bool empty() const {
    return std::all_of(row_tokens_.begin(), row_tokens_.end(), [](std::uint64_t t) { return t == 0; });
  }

 private:
  std::uint32_t experts_;
  std::vector<std::uint32_t> counts_;      // [layers, experts]
  std::vector<std::uint64_t> row_tokens_;  // [layers]
};

}  // namespace moelab
