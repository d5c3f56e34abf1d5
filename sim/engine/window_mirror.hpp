// The door through which a windowed stage tells another's memory where experts lie and what its window
// holds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moelab::engine {

/// Where every expert lies: on one of the backends, by its number.
struct StoredExperts {
  std::vector<std::string> backends;  // names (PagingConfig::backends)
  std::uint32_t experts = 0;          // a layer
  std::vector<std::uint16_t> places;  // [MoE layers, experts]

  std::uint16_t backend_of(std::uint32_t layer, std::uint32_t expert) const {
    return places[std::size_t{layer} * experts + expert];
  }
};

/// Layers are counted among the MoE layers. Called between operations of the serving loop, on the engine's
/// thread; what an implementation throws ends the run.
class WindowMirror {
 public:
  virtual ~WindowMirror() = default;
  /// Where experts lie from the start: whatever is to be in the GPU's memory is there when this returns.
  /// Once, before the engine runs, so in no time of the run's.
  virtual void store(const StoredExperts& experts) = 0;
  /// What the layer streams is about to be loaded into half 0 or 1 of the window, which is free.
  virtual void load(std::uint32_t layer, std::uint32_t half) = 0;
  /// The layer's experts compute next, each for so many tokens of the step.
  virtual void compute(std::uint32_t layer, std::span<const std::uint32_t> tokens) = 0;
  /// The layer's half is free again.
  virtual void release(std::uint32_t layer) = 0;
};

}  // namespace moelab::engine
