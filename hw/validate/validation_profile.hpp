// The profile that a validation's simulations are fed with: the user's, with the codec's ratio and the
// storage replaced by what the run really has.
#pragma once

#include <string>
#include <vector>

#include "models/architecture.hpp"
#include "models/device.hpp"

namespace moelab {

/// The profile of this machine's CPU side, since the CPU is what the hardware executor computes on: of a
/// profile with a GPU what it says of the CPU, if that is enough (a note says so; InputError otherwise).
DeviceProfile cpu_side(const DeviceProfile& device, std::vector<std::string>& notes);

/// Dense and shared parts take the hand-over only. Throws InputError where the experts' time would change
/// with that: their shape has not been measured.
void leave_out_dense(DeviceProfile& device, const Architecture& model);

/// Whether experts of the model's shape have been measured (else a roofline predicts them).
bool has_measured_experts(const DeviceProfile& device, const Architecture& model);

/// The codec's name in the profile: as it is called, or with the level that this means ("lz4hc", "lz4hc-9").
/// Throws InputError with the nearest name.
std::string codec_in_profile(const DeviceProfile& device, const std::string& codec);

}  // namespace moelab
