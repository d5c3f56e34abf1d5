// What a document of results must hold, checked part by part: the first fault is kept, with where it stands.
#pragma once

#include <string>
#include <utility>

#include "models/json.hpp"

namespace moelab {

/// Walks through a document and keeps the first thing that is wrong in it. Places are written as
/// "systems[0].points[1].rate_per_s": `at` is what stands before a key, with its point.
class DocumentCheck {
 public:
  using Json = nlohmann::ordered_json;

  /// `writer`: the command that writes such documents, as the user calls it.
  explicit DocumentCheck(std::string writer) : writer_(std::move(writer)) {}

  bool is_good() const { return problem_.empty(); }
  /// "PLACE: expected WHAT; 'WRITER' writes it so", or "".
  const std::string& problem() const { return problem_; }
  void fail(const std::string& at, const std::string& expected);

  /// What an object has at a key; null where it has nothing.
  static const Json& part(const Json& object, const char* key);
  /// The whole number by which a document says which form it has.
  void form(const Json& document, const char* key, int known);
  void text(const std::string& at, const Json& object, const char* key);
  void text_or_null(const std::string& at, const Json& object, const char* key);
  /// A number from 0 to `most`, or null where there may be none.
  void number(const std::string& at, const Json& object, const char* key, double most, bool may_be_null);
  /// A list of objects that is not empty.
  template <typename Check>
  void each(const std::string& at, const Json& object, const char* key, const Check& check) {
    const Json& list = part(object, key);
    if (!list.is_array() || list.empty()) return fail(at + key, "a list that is not empty");
    for (std::size_t i = 0; i < list.size() && is_good(); ++i) {
      const std::string place = at + key + "[" + std::to_string(i) + "]";
      if (list[i].is_object())
        check(place + ".", list[i]);
      else
        fail(place, "an object");
    }
  }

 private:
  std::string writer_, problem_;
};

}  // namespace moelab
