// How a system that pages its experts says so: `paging`, and what stands beside its window.
#pragma once

#include "sim/scenario/system_config.hpp"

namespace moelab {

class YamlMap;

/// The section `paging`.
PagingConfig read_paging(const YamlMap& root);
/// What a window is filled with (`fetch`, `page_cache`), what is pinned beside it (`cache`), and what tokens
/// are given in the place of what is not there (`routing`). `system` has its paging.
void read_window(const YamlMap& root, SystemConfig& system);

}  // namespace moelab
