// What tells one measurement of a case from another: codec=lz4, bytes=65536, threads=2.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace moelab {

/// Names with numbers or texts, in the order in which they were given.
class BenchParameters {
 public:
  using Value = std::variant<std::uint64_t, std::string>;

  BenchParameters() = default;
  BenchParameters(std::initializer_list<std::pair<std::string, Value>> values) : values_(values) {}

  const std::vector<std::pair<std::string, Value>>& all() const { return values_; }
  /// Throw std::out_of_range where there is no such name, std::bad_variant_access where it is of the other
  /// kind.
  std::uint64_t number(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  /// Whether all of `others` are here, with the same values.
  bool include(const BenchParameters& others) const;
  bool operator==(const BenchParameters&) const = default;

 private:
  const Value* find(std::string_view name) const;
  std::vector<std::pair<std::string, Value>> values_;
};

/// "codec=lz4 bytes=65536 threads=2".
std::string to_string(const BenchParameters& parameters);

}  // namespace moelab
