// Reading a whole text file, with a limit so that a wrong path (a model's weights, a log) is an error and
// not a machine out of memory.
#pragma once

#include <cstddef>
#include <string>

namespace moelab {

inline constexpr std::size_t largest_text_file = std::size_t{64} << 20;  // bytes

/// Throws InputError for what is there and is no regular file: a folder, and what could block or never end
/// when it is read (a pipe, a device).
void check_regular_file(const std::string& path);

/// The bytes of a file. Throws InputError when it cannot be opened or read, is no regular file, or is larger
/// than `largest_text_file`.
std::string read_text_file(const std::string& path);

}  // namespace moelab
