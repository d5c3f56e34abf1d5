// Device profiles as YAML.
#pragma once

#include <string>

#include "models/device.hpp"

namespace moelab {

/// A profile file that reads back as an equal profile, number for number; provenance and `unmeasured`, which
/// reading fills in, need not be filled in before. Throws InputError where that would not be so: a value out
/// of the range that the reader accepts, a source that the profile does not list, text that is not UTF-8.
std::string device_to_yaml(const DeviceProfile& profile);

/// The profile with what reading its file fills in: provenance and `unmeasured`. Throws as device_to_yaml().
DeviceProfile as_read(const DeviceProfile& profile);

}  // namespace moelab
