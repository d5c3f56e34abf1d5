// Characters in text of others that a terminal or a page takes for a command.
#pragma once

#include <cstddef>
#include <string_view>

namespace moelab {

/// How many bytes of UTF-8 the control character at `at` has, 0 where there is none: C0, DEL, C1, and what
/// turns the direction of the text behind it (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069).
std::size_t control_character_at(std::string_view text, std::size_t at);

}  // namespace moelab
