#include "cli/plain_output.hpp"

#include <string>

namespace moelab::cli {

PlainOutput::PlainOutput(std::ostream& stream) : stream_(stream), below_(stream.rdbuf(this)) {}

PlainOutput::~PlainOutput() {
  stream_.rdbuf(below_);
}

PlainOutput::int_type PlainOutput::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof())) return traits_type::not_eof(character);
  const char c = traits_type::to_char_type(character);
  return xsputn(&c, 1) == 1 ? character : traits_type::eof();
}

std::streamsize PlainOutput::xsputn(const char* text, std::streamsize size) {
  std::string plain(text, static_cast<std::size_t>(size));
  for (char& c : plain) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 && c != '\n' && c != '\t') c = '?';
    if (after_c2_ && byte >= 0x80 && byte < 0xa0) c = '\xbf';
    after_c2_ = byte == 0xc2;
  }
  return below_->sputn(plain.data(), size);
}

int PlainOutput::sync() {
  return below_->pubsync();
}

}  // namespace moelab::cli
