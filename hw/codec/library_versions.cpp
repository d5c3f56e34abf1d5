#include "hw/codec/library_versions.hpp"

#include <lz4.h>
#include <xxhash.h>
#include <zstd.h>

namespace moelab {

std::string codec_libraries() {
  const unsigned xxhash = XXH_versionNumber();  // major * 10000 + minor * 100 + release
  return std::string("LZ4 ") + LZ4_versionString() + ", Zstandard " + ZSTD_versionString() + ", xxHash " +
         std::to_string(xxhash / 10000) + "." + std::to_string(xxhash / 100 % 100) + "." +
         std::to_string(xxhash % 100);
}

}  // namespace moelab
