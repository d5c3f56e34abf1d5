// Weighted draws in constant time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "traces/random.hpp"

namespace moelab {

/// Draws an index with probability in proportion to its weight, in constant time: Walker's alias method, in
/// Vose's form (IEEE Transactions on Software Engineering 17(9), 1991).
class AliasTable {
 public:
  /// Weights are not negative, and one at least is positive.
  void build(std::span<const double> weights) {
    double sum = 0;
    for (const double weight : weights) sum += weight;
    columns_.resize(weights.size());
    small_.clear();
    large_.clear();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      columns_[i] = {weights[i] / sum * static_cast<double>(weights.size()), static_cast<std::uint32_t>(i)};
      (columns_[i].own < 1 ? small_ : large_).push_back(static_cast<std::uint32_t>(i));
    }
    while (!small_.empty() && !large_.empty()) {
      const std::uint32_t less = small_.back();
      const std::uint32_t more = large_.back();
      small_.pop_back();
      columns_[less].alias = more;
      columns_[more].own -= 1 - columns_[less].own;
      if (columns_[more].own < 1) {
        large_.pop_back();
        small_.push_back(more);
      }
    }
    // What is left has a share of 1 but for rounding, and its alias is itself.
  }

  std::uint32_t draw(Random& random) const {
    const double place = random.uniform() * static_cast<double>(columns_.size());
    const auto column = static_cast<std::uint32_t>(place);
    return place - column < columns_[column].own ? column : columns_[column].alias;
  }

 private:
  struct Column {
    double own = 0;  // share of the column that is its own index's; the rest is the alias's
    std::uint32_t alias = 0;
  };
  std::vector<Column> columns_;
  std::vector<std::uint32_t> small_;
  std::vector<std::uint32_t> large_;
};

}  // namespace moelab
