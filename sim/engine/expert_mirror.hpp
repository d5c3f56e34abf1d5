// The door through which a serving loop tells the hardware's memory what the cache holds of each expert.
#pragma once

#include <cstdint>

namespace moelab::engine {

/// What is kept of an expert: the compression states F, C, S, E, M in their order.
enum class Kept : std::uint8_t { full, both_planes, sign_mantissas, exponents, nothing };

struct ExpertPlace {
  std::uint32_t layer;   // counted among the MoE layers
  std::uint32_t expert;  // within the layer
  bool operator==(const ExpertPlace&) const = default;
};

/// Follows the states of all experts, every one `nothing` at first. Called between operations of the serving
/// loop, on the engine's thread; what an implementation throws ends the run.
class ExpertMirror {
 public:
  virtual ~ExpertMirror() = default;
  /// The cache holds the expert from the start: whatever the state keeps is there when this returns. Before
  /// the engine runs, so in no time of the run's; at most once an expert, `as` anything but `nothing`.
  virtual void preload(ExpertPlace expert, Kept as) = 0;
  /// A layer or a fetch is about to load what is missing of the expert and to use all of it: nothing of what
  /// is in memory goes before the matching release(). Uses of one expert may overlap.
  virtual void use(ExpertPlace expert) = 0;
  /// The cache decided. Of changes at one moment those to `nothing` come first.
  virtual void keep(ExpertPlace expert, Kept from, Kept to) = 0;
  /// The use is over. With the last one goes what is not kept.
  virtual void release(ExpertPlace expert) = 0;
};

}  // namespace moelab::engine
