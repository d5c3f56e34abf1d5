// Which versions of the libraries that do the work are loaded: speeds depend on them.
#pragma once

#include <string>

namespace moelab {

/// "LZ4 1.9.4, Zstandard 1.5.4, xxHash 0.8.1"
std::string codec_libraries();

}  // namespace moelab
