// Text packed by zlib, for output that is large and repeats itself.
#pragma once

#include <filesystem>
#include <string>

namespace moelab {

/// `text` as one gzip member (RFC 1952) without name or time, so that equal text gives equal bytes.
/// Throws std::runtime_error where zlib has no memory.
std::string gzipped(const std::string& text);

/// `text` in zlib's own format (RFC 1950). Throws likewise.
std::string zlib_packed(const std::string& text);

/// What a file of this name is to hold: `text`, gzipped where the name ends in ".gz".
std::string packed_by_name(const std::filesystem::path& file, std::string text);

}  // namespace moelab
