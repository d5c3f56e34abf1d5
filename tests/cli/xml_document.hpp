// A reader of XML that accepts nothing but well-formed documents, written for the tests of what we write.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace moelab::test {

struct Element {
  std::string tag{};
  std::map<std::string, std::string> attributes{};
  std::string text{};  // of its own, not of the elements within
  std::vector<Element> children{};

  /// An attribute as a number; throws std::out_of_range or std::invalid_argument where there is none.
  double number(const std::string& name) const { return std::stod(attributes.at(name)); }
  /// Itself and everything within that has the tag and, unless it is empty, the class.
  std::vector<const Element*> all(std::string_view tag, std::string_view class_name = "") const;
};

/// The root of the document. Throws std::runtime_error, with the offset, if it is not well formed: elements
/// that do not nest, attributes without quotes or given twice, '<' or '&' that stand for themselves, bytes
/// that are no UTF-8, characters that XML 1.0 forbids, anything but one root.
Element parse_xml(std::string_view document);

}  // namespace moelab::test
