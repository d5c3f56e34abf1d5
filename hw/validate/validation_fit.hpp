// Whether a scenario can be validated at all, and what its systems have to agree about.
#pragma once

#include <cstdint>
#include <string>

namespace moelab {

struct Scenario;

/// Throws InputError with everything that keeps a scenario's systems from doing the same on hardware and in
/// the simulator, or from running there. `gpu`: the profile's GPU is used, by CUDA.
void require_fit_for_hardware(const Scenario& scenario, bool gpu);

/// Into how many shards tensors are packed: what all systems that compress read; 1 where none does. Throws
/// InputError where they differ.
std::uint32_t shards_of(const Scenario& scenario);

/// By which experts are packed that lie compressed in a GPU's memory and are decoded into a window; empty:
/// none do. Throws InputError where systems name two, or one that is none of ours.
std::string window_codec_of(const Scenario& scenario);

}  // namespace moelab
