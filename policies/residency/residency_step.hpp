// One step of the residency level: which experts move (FluxMoE, section 6.3, "I/O balance").
#pragma once

#include <cstdint>

#include "policies/storage/storage.hpp"

namespace moelab {

enum class ResidencyDirection : std::uint8_t { off_gpu, to_gpu };

/// A step moves layers * experts experts, or as many as there are to move and room for.
///
///   staggered: `experts` of each layer; what some layers lack, others give in further rounds, from layer 0
///   single:    all from one layer, the next one each time; what it lacks comes from those after it. Steps
///              back to the GPU go to the layers that left last, last one first
///
/// Of a layer, one by one: an expert of the backend that is done last (on the side that is left) goes to the
/// one that would be done first with it (on the other side, of those with room). Equal: the one of fewer GPU
/// bytes a byte, then the first.
class ResidencyStep {
 public:
  ResidencyStep(std::uint32_t experts, bool staggered) : experts_(experts), staggered_(staggered) {}
  /// How many experts moved.
  std::uint64_t take(StorageSplit& split, ResidencyDirection direction);

 private:
  std::uint64_t take_staggered(StorageSplit& split, ResidencyDirection direction) const;
  std::uint64_t take_single(StorageSplit& split, ResidencyDirection direction);

  std::uint32_t experts_;
  bool staggered_;
  std::uint32_t turn_ = 0;  // single: the layer that leaves next
};

}  // namespace moelab
