#include "cli/report/document_check.hpp"

#include <sstream>

namespace moelab {

void DocumentCheck::fail(const std::string& at, const std::string& expected) {
  if (is_good()) problem_ = at + ": expected " + expected + "; '" + writer_ + "' writes it so";
}

const DocumentCheck::Json& DocumentCheck::part(const Json& object, const char* key) {
  static const Json none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

void DocumentCheck::form(const Json& document, const char* key, int known) {
  const Json& format = part(document, key);
  if (!format.is_number_integer() || format != known)
    fail(key, std::to_string(known) + ", the form that this program reads");
}

void DocumentCheck::text(const std::string& at, const Json& object, const char* key) {
  if (!part(object, key).is_string()) fail(at + key, "a text");
}

void DocumentCheck::text_or_null(const std::string& at, const Json& object, const char* key) {
  const Json& value = part(object, key);
  if (!value.is_string() && !value.is_null()) fail(at + key, "a text or null");
}

void DocumentCheck::number(const std::string& at, const Json& object, const char* key, double most,
                           bool may_be_null) {
  const Json& value = part(object, key);
  if (value.is_null() && may_be_null) return;
  std::ostringstream range;
  range << "a number from 0 to " << most << (may_be_null ? " or null" : "");
  if (!value.is_number()) return fail(at + key, range.str());
  const auto known = value.get<double>();
  if (!(known >= 0 && known <= most)) fail(at + key, range.str());
}

}  // namespace moelab
