// Reading a whole text file, with a limit so that a wrong path (a model's weights, /dev/zero) is an error and
// not a machine out of memory.
#pragma once

#include <cstddef>
#include <string>

namespace moelab {

inline constexpr std::size_t largest_text_file = std::size_t{64} << 20;  // bytes

/// The bytes of a file. Throws InputError when it cannot be opened or read, is a folder, or is larger than
/// `largest_text_file`.
std::string read_text_file(const std::string& path);

}  // namespace moelab
