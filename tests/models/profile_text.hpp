// Device profiles from text, for tests of what they say and of what is wrong with them.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "models/device.hpp"
#include "models/yaml_reader.hpp"

namespace moelab::test {

/// Throws what read_device finds wrong.
inline DeviceProfile profile_of(const std::string& text) {
  Problems problems;
  DeviceProfile device = read_device(YamlDocument::from_text("device.yaml", text, problems));
  problems.throw_if_any();
  return device;
}

/// `text` with the first `what`, which has to be there, replaced.
inline std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

}  // namespace moelab::test
