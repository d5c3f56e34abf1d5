// XML that is well formed by construction, and how much room its texts take.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace moelab::plot {

/// Rounded to hundredths without superfluous zeros: "12.5", "-0.07", "0". Expects |value| < 1e13.
std::string coordinate_text(double value);

/// At most `digits` significant digits, in any locale: "0.8125", "1.5e+09".
std::string number_text(double value, int digits);

/// Safe between tags and in quoted attributes. Bytes that are no UTF-8 and characters that XML 1.0 forbids
/// become U+FFFD; line ends and tabs become spaces.
std::string escaped(std::string_view text);

/// Estimated width in pixels of a text in Helvetica or a font much like it, on the safe side.
double text_width(std::string_view text, double font_size);

/// The text, or its beginning and "…" where it is wider than `width` pixels.
std::string shortened(std::string_view text, double font_size, double width);

/// The words in lines that are no wider than `width` pixels; a longer word is shortened. Empty for no words.
std::vector<std::string> wrapped(std::string_view text, double font_size, double width);

/// Writes elements; closes what was opened in the right order.
class Xml {
 public:
  Xml& open(std::string_view tag);
  Xml& set(std::string_view attribute, std::string_view value);
  Xml& set(std::string_view attribute, const char* value) { return set(attribute, std::string_view(value)); }
  Xml& set(std::string_view attribute, double value) { return set(attribute, coordinate_text(value)); }
  /// Text within the element opened last.
  Xml& text(std::string_view content);
  Xml& close();
  /// An element that holds nothing but text.
  Xml& leaf(std::string_view tag, std::string_view content) { return open(tag).text(content).close(); }
  /// The document; all elements are closed.
  std::string take();

 private:
  void end_start_tag();

  std::string out_ = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  std::vector<std::string> open_{};
  bool in_start_tag_ = false;
};

}  // namespace moelab::plot
