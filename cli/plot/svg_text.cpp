#include "cli/plot/svg_text.hpp"

#include <array>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace moelab::plot {
namespace {

constexpr char32_t replacement = 0xFFFD;

// The code point at `text[at]`, which moves behind it; U+FFFD and one byte on where there is none. Rejects
// overlong forms and surrogates.
char32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at++]);
  if (lead < 0x80) return lead;
  const std::size_t more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  if (lead < 0xC2 || lead > 0xF4 || text.size() - at < more) return replacement;
  char32_t code = lead & (0x3Fu >> more);
  for (std::size_t i = 0; i < more; ++i) {
    const auto byte = static_cast<unsigned char>(text[at + i]);
    if ((byte & 0xC0) != 0x80) return replacement;
    code = code << 6 | (byte & 0x3F);
  }
  constexpr std::array<char32_t, 4> smallest{0, 0x80, 0x800, 0x10000};
  if (code < smallest[more] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return replacement;
  at += more;
  return code;
}

bool allowed_in_xml(char32_t code) {
  return code >= 0x20 && code != 0xFFFE && code != 0xFFFF;
}

// Widths of ' ' to '~' in thousandths of the font size, from the metrics of Helvetica (Arial has the same).
constexpr std::array<std::uint16_t, 95> helvetica{
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333,  278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667,  611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278,  556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500,  500, 334, 260, 334, 584};

double width_of(char32_t code) {
  if (code >= 0x20 && code < 0x7F) return helvetica[code - 0x20] / 1000.0;
  return code < 0x2E80 ? 0.7 : 1.0;  // from there on come scripts whose characters fill a square
}

}  // namespace

std::string coordinate_text(double value) {
  assert(std::abs(value) < 1e13);
  const long long hundredths = std::llround(value * 100);
  const long long rest = std::llabs(hundredths % 100);
  std::string text = hundredths < 0 ? "-" : "";
  text += std::to_string(std::llabs(hundredths / 100));
  if (rest == 0) return text;
  text += '.';
  text += static_cast<char>('0' + rest / 10);
  if (rest % 10 != 0) text += static_cast<char>('0' + rest % 10);
  return text;
}

std::string number_text(double value, int digits) {
  std::array<char, 64> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, digits).ptr;
  return {text.data(), end};
}

std::string escaped(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t code = next_code_point(text, at);
    if (code == '&') {
      out += "&amp;";
    } else if (code == '<') {
      out += "&lt;";
    } else if (code == '>') {
      out += "&gt;";
    } else if (code == '"') {
      out += "&quot;";
    } else if (code == '\n' || code == '\r' || code == '\t') {
      out += ' ';
    } else if (code == replacement || !allowed_in_xml(code)) {
      out += "\uFFFD";
    } else {
      out += text.substr(begin, at - begin);
    }
  }
  return out;
}

double text_width(std::string_view text, double font_size) {
  double ems = 0;
  for (std::size_t at = 0; at < text.size();) ems += width_of(next_code_point(text, at));
  return 1.12 * ems * font_size;  // the fonts that stand in for Helvetica run wider
}

std::string shortened(std::string_view text, double font_size, double width) {
  if (text_width(text, font_size) <= width) return std::string(text);
  const double room = width - text_width("…", font_size);
  std::size_t kept = 0;
  for (std::size_t at = 0; at < text.size();) {
    next_code_point(text, at);
    if (text_width(text.substr(0, at), font_size) > room) break;
    kept = at;
  }
  return std::string(text.substr(0, kept)) + "…";
}

std::vector<std::string> wrapped(std::string_view text, double font_size, double width) {
  constexpr std::string_view blanks = " \t\r\n";
  std::vector<std::string> lines;
  for (std::size_t at = text.find_first_not_of(blanks); at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(blanks, at), text.size());
    const std::string word = shortened(text.substr(at, end - at), font_size, width);
    if (!lines.empty() && text_width(lines.back() + ' ' + word, font_size) <= width) {
      lines.back() += ' ' + word;
    } else {
      lines.push_back(word);
    }
    at = text.find_first_not_of(blanks, end);
  }
  return lines;
}

Xml& Xml::open(std::string_view tag) {
  end_start_tag();
  out_ += '<';
  out_ += tag;
  open_.emplace_back(tag);
  in_start_tag_ = true;
  return *this;
}

Xml& Xml::set(std::string_view attribute, std::string_view value) {
  assert(in_start_tag_);
  out_ += ' ';
  out_ += attribute;
  out_ += "=\"" + escaped(value) + '"';
  return *this;
}

Xml& Xml::text(std::string_view content) {
  assert(!open_.empty());
  end_start_tag();
  out_ += escaped(content);
  return *this;
}

Xml& Xml::close() {
  assert(!open_.empty());
  if (in_start_tag_) {
    out_ += "/>";
  } else {
    out_ += "</" + open_.back() + '>';
  }
  in_start_tag_ = false;
  open_.pop_back();
  // Not within <text>, where a line end would be drawn as a space.
  if (open_.empty() || open_.back() != "text") out_ += '\n';
  return *this;
}

std::string Xml::take() {
  assert(open_.empty());
  return std::move(out_);
}

void Xml::end_start_tag() {
  if (in_start_tag_) out_ += '>';
  in_start_tag_ = false;
}

}  // namespace moelab::plot
