// Where the weights that are packed come from: a checkpoint, or a law.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "hw/store/chunk_store.hpp"

namespace moelab {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual const ExpertWeights& weights() const = 0;
  /// Another text where the values are others: what an interrupted pack recognises its source by.
  virtual std::string identity() const = 0;
  /// The tensor's BF16 weights, row-major. `into` has its number of elements. Threads may call it at the same
  /// time. Throws InputError.
  virtual void read(TensorPlace place, std::span<std::uint16_t> into) const = 0;
};

}  // namespace moelab
