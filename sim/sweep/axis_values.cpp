#include "sim/sweep/axis_values.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "models/yaml_text.hpp"
#include "sim/results/text_table.hpp"
#include "sim/sweep/expression.hpp"
#include "traces/random.hpp"

namespace moelab {
namespace {

constexpr std::int64_t kMostValues = 1'000'000;

/// A range's end: a number, and the unit behind it as written.
struct End {
  double value = 0;
  std::string unit;
  Measure measure;
};

struct Span {
  End from, to;
  std::int64_t points = 0;
  bool log = false, whole = false;
  std::uint64_t seed = 1;
};

bool read_end(const YamlMap& map, const char* key, End& end) {
  const std::string text = map.text(key);
  const Value value = value_of_text(text);
  const Measure* measure = std::get_if<Measure>(&value);
  if (measure == nullptr) {
    if (!text.empty())
      map.fail(key, "'" + text + "' for '" + key + "'; expected a number, with its unit if it has one");
    return false;
  }
  const std::size_t digits = text.find_first_not_of("+-.0123456789eE");
  // "1e3 GB" has its unit behind the blank; "5EB" is none of ours.
  std::size_t unit = digits == std::string::npos ? text.size() : digits;
  while (unit < text.size() && text[unit] == ' ') ++unit;
  end.unit = text.substr(unit);
  end.measure = *measure;
  const Value one =
      end.unit.empty() ? Value(Measure{1, Measure::Unit::none}) : value_of_text("1 " + end.unit);
  const Measure* scale = std::get_if<Measure>(&one);
  if (scale == nullptr || scale->unit != measure->unit) {
    map.fail(key, "'" + text + "' for '" + key + "'; expected a number, with its unit if it has one");
    return false;
  }
  end.value = measure->value / scale->value;
  return true;
}

/// What a step of a range is off by is not meant.
double rounded(double value) {
  return significant_digits(value, 12);
}

std::vector<AxisValue> written(const std::vector<double>& values, const Span& span) {
  std::vector<AxisValue> out;
  for (const double value : values) {
    const double number = span.whole ? std::round(value) : rounded(value);
    const bool small = std::abs(number) < 1e15 && number == std::trunc(number);
    std::string text = small ? std::to_string(static_cast<std::int64_t>(number)) : yaml::number(number);
    if (!span.from.unit.empty()) text += " " + span.from.unit;
    out.push_back({text, text});
  }
  return out;
}

std::vector<double> even(const Span& span) {
  std::vector<double> values;
  const double a = span.log ? std::log(span.from.value) : span.from.value;
  const double b = span.log ? std::log(span.to.value) : span.to.value;
  for (std::int64_t i = 0; i < span.points; ++i) {
    const double share = span.points == 1 ? 0 : static_cast<double>(i) / static_cast<double>(span.points - 1);
    const double at = a + (b - a) * share;
    values.push_back(i == 0                 ? span.from.value
                     : i == span.points - 1 ? span.to.value
                     : span.log             ? std::exp(at)
                                            : at);
  }
  return values;
}

std::vector<double> drawn(const Span& span) {
  std::vector<double> values;
  Random random(span.seed);
  const double a = span.log ? std::log(span.from.value) : span.from.value;
  const double b = span.log ? std::log(span.to.value) : span.to.value;
  for (std::int64_t i = 0; i < span.points; ++i) {
    const double share = static_cast<double>(random.next() >> 11) * 0x1p-53;
    values.push_back(span.log ? std::exp(a + (b - a) * share) : a + (b - a) * share);
  }
  return values;
}

std::vector<AxisValue> read_span(const YamlMap& map, const std::string& kind) {
  Span span;
  const bool from = read_end(map, "from", span.from),
             to = read_end(map, "to", span.to);  // each says what is wrong
  const bool good = from && to;
  span.points = map.integer("points", 1, kMostValues);
  span.log = kind == "logspace" || (kind == "random" && map.boolean("log", false));
  span.whole = map.boolean("whole", false);
  if (kind == "random")
    span.seed =
        static_cast<std::uint64_t>(map.integer("seed", 0, std::numeric_limits<std::int64_t>::max(), 1));
  map.done();
  if (!good) return {};
  if (span.from.unit != span.to.unit) {
    map.fail("to",
             "'from' is in '" + span.from.unit + "', 'to' in '" + span.to.unit + "'; expected the same unit");
    return {};
  }
  if (span.log && (span.from.value <= 0 || span.to.value <= 0)) {
    map.fail("from", "an even spread of logarithms has ends above 0");
    return {};
  }
  return written(kind == "random" ? drawn(span) : even(span), span);
}

std::vector<AxisValue> read_list(const YamlNode& node, const std::string& axis) {
  std::vector<AxisValue> values;
  for (const YamlNode& item : node.list("axis '" + axis + "'")) values.push_back(axis_value(item));
  if (values.empty()) node.fail("axis '" + axis + "' has no value; expected one at least");
  return values;
}

/// Whether YAML reads the bare text as a text, so that it needs no quotes ("16 GB", "zipmoe").
bool is_plain_text(const std::string& text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == ' ' ||
           c == '.' || c == '_' || c == '/' || c == '-' || c == '+';
  };
  if (text.empty() || text.front() == ' ' || text.back() == ' ' || text.front() == '-' || text == "null" ||
      !std::all_of(text.begin(), text.end(), plain))
    return false;
  const Value value = value_of_text(text);
  if (const Measure* measure = std::get_if<Measure>(&value)) return measure->unit != Measure::Unit::none;
  return std::holds_alternative<std::string>(value);
}

}  // namespace

AxisValue axis_value(const YamlNode& node) {
  const std::string json = node.json();
  if (!node.is_scalar() || node.is_null()) return {json, json};
  const std::string text = node.text("");
  return {json.starts_with('"') && is_plain_text(text) ? text : json, text};
}

std::vector<AxisValue> read_axis_values(const YamlNode& node, const std::string& axis) {
  if (node.is_list()) return read_list(node, axis);
  if (!node.is_map()) {
    node.fail("axis '" + axis + "': expected a list of values, or one of linspace, logspace and random");
    return {};
  }
  static const std::vector<std::string> kinds = {"list", "linspace", "logspace", "random"};
  const YamlMap map = node.map("axis '" + axis + "'");
  const std::vector<std::string> keys = map.keys();
  if (keys.size() != 1) {
    node.fail("axis '" + axis + "': expected one of list, linspace, logspace and random");
    return {};
  }
  std::vector<AxisValue> values;
  if (map.has("list"))
    values = read_list(map.node("list"), axis);
  else if (map.has("linspace") || map.has("logspace") || map.has("random"))
    values = read_span(map.map(keys[0]), keys[0]);
  else
    map.fail(keys[0], "unknown kind of values '" + keys[0] + "'" + suggestion(keys[0], kinds));
  return values;
}

}  // namespace moelab
