#include "cli/plain_output.hpp"

#include <string>
#include <string_view>
#include <utility>

namespace moelab::cli {

PlainOutput::PlainOutput(std::ostream& stream) : stream_(stream), below_(stream.rdbuf(this)) {}

PlainOutput::~PlainOutput() {
  if (after_c2_) below_->sputc('\xc2');
  stream_.rdbuf(below_);
}

PlainOutput::int_type PlainOutput::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof())) return traits_type::not_eof(character);
  const char c = traits_type::to_char_type(character);
  return xsputn(&c, 1) == 1 ? character : traits_type::eof();
}

std::streamsize PlainOutput::xsputn(const char* text, std::streamsize size) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string plain;
  plain.reserve(static_cast<std::size_t>(size));
  for (const char c : std::string_view(text, static_cast<std::size_t>(size))) {
    const auto byte = static_cast<unsigned char>(c);
    const bool second = std::exchange(after_c2_, byte == 0xc2);
    if (second && byte >= 0x80 && byte < 0xa0) {
      plain += {'\\', 'u', '0', '0', kDigits[byte >> 4], kDigits[byte & 15]};
      continue;
    }
    if (second) plain += '\xc2';
    if (byte == 0x7f) {
      plain += "\\u007f";
      continue;
    }
    if (after_c2_) continue;
    plain += byte < 0x20 && c != '\n' && c != '\t' ? '?' : c;
  }
  const auto whole = static_cast<std::streamsize>(plain.size());
  return below_->sputn(plain.data(), whole) == whole ? size : 0;
}

int PlainOutput::sync() {
  return below_->pubsync();
}

}  // namespace moelab::cli
