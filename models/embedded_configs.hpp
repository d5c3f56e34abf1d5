// The files of configs/ as they were when the program was built. Defined in a source that
// models/embed_configs.cmake writes into the build folder.
#pragma once

#include <span>
#include <string_view>

namespace moelab {

struct EmbeddedConfig {
  std::string_view name;  // "configs/models/deepseek-v2-lite.yaml"
  std::string_view text;
};

/// All of them, sorted by name.
std::span<const EmbeddedConfig> embedded_configs();

}  // namespace moelab
