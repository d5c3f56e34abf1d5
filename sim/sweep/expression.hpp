// Conditions over named values, as in a sweep's `where: budget < model.size`. Arithmetic (+ - * / and
// parentheses), comparison (< <= > >= == !=), `and`, `or`, `not`: nothing else, so that a file from anywhere
// can be evaluated.
//
//   condition  = conjunction {"or" conjunction}
//   conjunction= negation {"and" negation}
//   negation   = "not" negation | sum [("<" | "<=" | ">" | ">=" | "==" | "!=") sum]
//   sum        = product {("+" | "-") product}
//   product    = factor {("*" | "/") factor}
//   factor     = "-" factor | number [unit] | text in quotes | name | "(" condition ")"
//
// A name is letters, digits, '_', '-' behind the first letter and dots: "workload.batch", "moe-infinity". A
// minus between two names needs a blank before it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace moelab {

/// A number with what it counts, which does not mix: bytes and seconds cannot be compared.
struct Measure {
  enum class Unit : std::uint8_t { none, seconds, bytes, bytes_per_second, flops, flops_per_second };
  double value = 0;  // in base units
  Unit unit = Unit::none;
  bool operator==(const Measure&) const = default;
};

/// What a name stands for, or a part of a condition is.
using Value = std::variant<bool, Measure, std::string>;

/// A scalar of a configuration as a value: "16 GB" is bytes, "4" a number, "true" true, all else text.
Value value_of_text(std::string_view text);

/// What is wrong with a condition; the message has the place in it (from 1).
struct ConditionError : std::runtime_error {
  using runtime_error::runtime_error;
};

class Condition {
 public:
  struct Node;
  using Lookup = std::function<std::optional<Value>(const std::string& name)>;

  /// Throws ConditionError. At most 4,096 bytes, nested at most 64 deep.
  explicit Condition(std::string_view text);
  /// Whether it holds. Throws ConditionError for a name that `lookup` does not know (with the nearest of
  /// `known`), units that do not mix, and what is neither true nor false.
  bool holds(const Lookup& lookup, const std::vector<std::string>& known = {}) const;
  /// Names that it asks for, each once.
  std::vector<std::string> names() const;
  /// Names on the other side of an "==" or "!=" from `name`, where nothing else stands there: "model" of
  /// "olmoe-1b-7b" in "model == olmoe-1b-7b".
  std::vector<std::string> compared_with(const std::string& name) const;

 private:
  std::shared_ptr<const Node> root_;
};

}  // namespace moelab
