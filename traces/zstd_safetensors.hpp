// Safetensors files that are compressed for transport. Private to safetensors*.cpp.
#pragma once

#include <string>

#include "traces/mapped_file.hpp"

namespace moelab {

/// What `compressed`, zstd frames, holds: decompressed into a temporary file without a name, mapped. No more
/// is written than the header of the safetensors file inside states, nor anything for which the folder of
/// temporary files has no room. Throws InputError about `file`.
MappedFile decompress_safetensors(const std::string& file, const MappedFile& compressed);

/// How messages name the bytes inside a compressed file, which have places of their own.
std::string decompressed_name(const std::string& file);

}  // namespace moelab
