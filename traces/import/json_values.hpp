// The values of a JSON text that the caller asked for, without a tree of all of it: arrays of numbers come
// flat, with their shape.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace moelab {

/// A value at a path: a text, a number, or numbers in nested arrays of one shape.
struct JsonValue {
  bool is_text = false;
  std::string text;
  std::vector<std::uint64_t> shape;  // empty: a single number
  bool whole = true;                 // every number is a whole one, in `integers`
  std::vector<std::int64_t> integers;
  std::vector<double> numbers;  // all of them, where not every one is whole
  std::size_t size() const { return whole ? integers.size() : numbers.size(); }
  double number(std::size_t i) const { return whole ? static_cast<double>(integers[i]) : numbers[i]; }
};

/// By path: names joined by dots, places in arrays in brackets: "choices[0].routed_experts".
using JsonValues = std::map<std::string, JsonValue>;

/// The values whose path `wanted` accepts (asked once for each name met outside of wanted values; null counts
/// as absent). Throws InputError at `line` of `file`, with the column: not JSON, the same name twice in one
/// object on a wanted path, a wanted value that is an object or mixes kinds, arrays that are ragged.
JsonValues read_json_values(std::string_view text, const std::function<bool(std::string_view path)>& wanted,
                            const std::string& file, std::uint64_t line);

/// What a text that is no JSON is refused for, in 200 characters at most that a terminal can show: "syntax
/// error while parsing value - ...". Of one of nlohmann's exceptions.
std::string json_problem(const std::exception& error);

}  // namespace moelab
