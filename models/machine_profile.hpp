// What a machine of catalogue parts can do, as a device profile: data sheets' rates, and what a runtime makes
// of them.
#pragma once

#include "models/device.hpp"
#include "models/machine_parts.hpp"
#include "models/runtime.hpp"

namespace moelab {

/// A profile whose rates are the data sheets' and whose `software` has the runtime's shares of them. What
/// data sheets do not say (codecs on the CPU's threads, page cache, an SSD that is not named) is assumed, and
/// its source says so. Throws InputError where the size of a memory has to be known and is not: the host's
/// (`ram`) of a machine whose GPU works in it or that has none. The CPU's arithmetic is that for `weights`.
DeviceProfile profile_of(const MachineParts& machine, const Runtime& runtime, const StoredWeights& weights);

/// A profile that says what its machine achieves, with the times of a runtime.
DeviceProfile with_runtime(DeviceProfile profile, const Runtime& runtime);

/// Where a scenario of catalogue parts names no runtime: what the hardware does without any.
inline constexpr std::string_view kBareRuntime = "bare";

}  // namespace moelab
