// Text packed by gzip (RFC 1952), for output that is large and repeats itself.
#pragma once

#include <filesystem>
#include <string>

namespace moelab {

/// `text` as one gzip member without name or time, so that equal text gives equal bytes.
/// Throws std::runtime_error where zlib has no memory.
std::string gzipped(const std::string& text);

/// What a file of this name is to hold: `text`, gzipped where the name ends in ".gz".
std::string packed_by_name(const std::filesystem::path& file, std::string text);

}  // namespace moelab
