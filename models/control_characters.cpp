#include "models/control_characters.hpp"

namespace moelab {

std::size_t control_character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t ahead) -> unsigned {
    return at + ahead < text.size() ? static_cast<unsigned char>(text[at + ahead]) : 0;
  };
  const unsigned first = byte(0), second = byte(1), third = byte(2);
  if (first < 0x20 || first == 0x7f) return 1;
  if (first == 0xc2 && second >= 0x80 && second < 0xa0) return 2;
  if (first == 0xd8 && second == 0x9c) return 2;
  if (first != 0xe2) return 0;
  const bool mark = second == 0x80 && (third == 0x8e || third == 0x8f);
  const bool embedding = second == 0x80 && third >= 0xaa && third <= 0xae;
  const bool isolate = second == 0x81 && third >= 0xa6 && third <= 0xa9;
  return mark || embedding || isolate ? 3 : 0;
}

}  // namespace moelab
