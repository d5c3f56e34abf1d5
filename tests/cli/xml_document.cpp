#include "tests/cli/xml_document.hpp"

#include <cctype>
#include <stdexcept>

namespace moelab::test {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Element document() {
    if (text_.starts_with("<?xml ")) at_ = text_.find("?>") + 2;
    skip_blanks();
    Element root = element();
    skip_blanks();
    if (at_ != text_.size()) fail("something behind the root");
    return root;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("offset " + std::to_string(at_) + ": " + what);
  }
  char peek() const {
    if (at_ >= text_.size()) fail("the document ends");
    return text_[at_];
  }
  void expect(std::string_view wanted) {
    if (text_.substr(at_, wanted.size()) != wanted) fail("expected " + std::string(wanted));
    at_ += wanted.size();
  }
  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  std::string name() {
    const std::size_t begin = at_;
    while (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '-' || peek() == ':') ++at_;
    if (at_ == begin) fail("expected a name");
    return std::string(text_.substr(begin, at_ - begin));
  }

  // One character of a text, entities resolved.
  std::string character() {
    if (peek() == '<') fail("'<' within a text");
    if (peek() == '&') {
      for (const auto& [entity, meaning] : {std::pair{"&amp;", "&"}, std::pair{"&lt;", "<"},
                                            std::pair{"&gt;", ">"}, std::pair{"&quot;", "\""}})
        if (text_.substr(at_).starts_with(entity)) {
          expect(entity);
          return meaning;
        }
      fail("'&' that begins no entity");
    }
    const auto lead = static_cast<unsigned char>(peek());
    if (lead < 0x20 && lead != '\n' && lead != '\t' && lead != '\r') fail("a control character");
    const std::size_t size = lead < 0x80   ? 1
                             : lead < 0xC2 ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
    if (size == 0) fail("no UTF-8");
    const std::string_view bytes = text_.substr(at_, size);
    for (std::size_t i = 1; i < size; ++i)
      if (i >= bytes.size() || (static_cast<unsigned char>(bytes[i]) & 0xC0) != 0x80) fail("no UTF-8");
    const bool overlong =
        (bytes.starts_with("\xE0") && bytes[1] < '\xA0') || (bytes.starts_with("\xF0") && bytes[1] < '\x90');
    const bool surrogate = bytes.starts_with("\xED") && bytes[1] >= '\xA0';
    const bool too_large = bytes.starts_with("\xF4") && bytes[1] >= '\x90';
    if (overlong || surrogate || too_large) fail("no UTF-8");
    if (bytes == "\xEF\xBF\xBE" || bytes == "\xEF\xBF\xBF") fail("no character");
    at_ += size;
    return std::string(bytes);
  }

  void attribute(Element& element) {
    const std::string key = name();
    expect("=\"");
    std::string value;
    while (peek() != '"') value += character();
    expect("\"");
    if (!element.attributes.emplace(key, value).second) fail("attribute given twice: " + key);
  }

  Element element() {
    Element made;
    expect("<");
    made.tag = name();
    while (peek() == ' ') {
      ++at_;
      attribute(made);
    }
    if (peek() == '/') {
      expect("/>");
      return made;
    }
    expect(">");
    while (text_.substr(at_, 2) != "</") {
      if (peek() == '<')
        made.children.push_back(element());
      else
        made.text += character();
    }
    expect("</" + made.tag + ">");
    return made;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<const Element*> Element::all(std::string_view wanted, std::string_view class_name) const {
  std::vector<const Element*> found;
  const auto own_class = attributes.find("class");
  if (tag == wanted &&
      (class_name.empty() || (own_class != attributes.end() && own_class->second == class_name)))
    found.push_back(this);
  for (const Element& child : children)
    for (const Element* element : child.all(wanted, class_name)) found.push_back(element);
  return found;
}

Element parse_xml(std::string_view document) {
  return Reader(document).document();
}

}  // namespace moelab::test
