// Checked reading of scalars. Numbers are read here, whole scalar and decimal, as yaml-cpp takes 010 for 8.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "models/physical_bounds.hpp"
#include "models/yaml_tree.hpp"

namespace moelab::yaml {
namespace {

constexpr std::int64_t lowest_integer = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t highest_integer = std::numeric_limits<std::int64_t>::max();

std::string show(double value) {
  return shortest_text(value);
}
template <class Dimension>
std::string show(Quantity<Dimension> value) {
  return to_string(value);
}

double plain(double value) {
  return value;
}
template <class Dimension>
double plain(Quantity<Dimension> value) {
  return value.value();
}

template <class T>
std::string described(const Range<T>& range) {
  const bool has_low = std::isfinite(plain(range.low));
  const bool has_high = std::isfinite(plain(range.high));
  if (has_low && has_high && !range.low_open && !range.high_open) {
    return " from " + show(range.low) + " to " + show(range.high);
  }
  std::string text;
  if (has_low) text = (range.low_open ? " more than " : " at least ") + show(range.low);
  if (has_low && has_high) text += " and";
  if (has_high) text += (range.high_open ? " less than " : " at most ") + show(range.high);
  return text;
}

std::string described(std::int64_t low, std::int64_t high) {
  if (low != lowest_integer && high != highest_integer) {
    return " from " + std::to_string(low) + " to " + std::to_string(high);
  }
  if (low != lowest_integer) return " at least " + std::to_string(low);
  return high != highest_integer ? " at most " + std::to_string(high) : "";
}

}  // namespace

template <class T>
AskedKey asked_as(const Range<T>& range) {
  return {.form = kForm<T>,
          .bounds = described(range),
          .range = {plain(range.low), plain(range.high), range.low_open, range.high_open}};
}

AskedKey asked_as(std::int64_t low, std::int64_t high) {
  AskedKey asked{.form = AskedKey::Form::integer, .bounds = described(low, high)};
  if (low != lowest_integer) asked.range.low = static_cast<double>(low);
  if (high != highest_integer) asked.range.high = static_cast<double>(high);
  return asked;
}

namespace {

template <class T>
bool contains(const Range<T>& range, T value) {
  return (range.low_open ? value > range.low : value >= range.low) &&
         (range.high_open ? value < range.high : value <= range.high);
}

/// JSON's own grammar of numbers begins like this: no sign but '-', no leading zeros, no ".5", no "inf".
bool starts_as_number(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.empty() || !is_digit(text[0])) return false;
  return text[0] != '0' || text.size() == 1 || !is_digit(text[1]);
}

/// Reads the whole text as a number.
template <class T>
std::errc parse_whole(std::string_view text, T& out) {
  if (!starts_as_number(text)) return std::errc::invalid_argument;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return end == text.data() + text.size() ? error : std::errc::invalid_argument;
}

bool is_plain_scalar(const NodeRef& ref) {
  return ref.node->kind == TreeNode::Kind::scalar && !ref.node->quoted;
}

void fail_type(const NodeRef& ref, std::string_view what, std::string_view expected) {
  std::string found = ref.found(what);
  if (ref.node->kind == TreeNode::Kind::scalar)
    found += ref.node->quoted ? " is a text" : " is not understood";
  ref.fail(found + "; expected " + std::string(expected));
}

void fail_range(const NodeRef& ref, std::string_view what, std::string_view expected) {
  ref.fail(ref.found(what) + " is out of range; expected a value" + std::string(expected));
}

/// Whether the value is in the key's own range and is one that a machine can have; adds a problem if not.
template <class T>
bool passes(const NodeRef& ref, std::string_view what, const Range<T>& range, T value) {
  if (!contains(range, value)) {
    fail_range(ref, what, described(range));
    return false;
  }
  const std::string beyond = beyond_physical(value);
  if (!beyond.empty()) ref.fail(ref.found(what) + beyond);
  return beyond.empty();
}

}  // namespace

double harmless(Range<double> range) {
  const double middle = range.low / 2 + range.high / 2;
  for (const double value : {1.0, range.low, range.low + 1, middle, range.high, range.high - 1}) {
    if (std::isfinite(value) && contains(range, value)) return value;
  }
  return 0;
}

std::int64_t harmless(std::int64_t low, std::int64_t high) {
  return std::max(low, std::min<std::int64_t>(1, high));
}

std::optional<std::string> read_text(const NodeRef& ref, std::string_view what) {
  if (ref.node->kind == TreeNode::Kind::scalar) return ref.node->text;
  fail_type(ref, what, "a text");
  return std::nullopt;
}

std::optional<double> read_number(const NodeRef& ref, std::string_view what, Range<double> range) {
  double value = 0;
  const bool is_number = is_plain_scalar(ref) && parse_whole(ref.node->text, value) == std::errc();
  // What is nearer to 0 than anything it could stand for is 0, where that may stand there: the tail of a
  // distribution, a sum that should have been 0.
  if (is_number && contains(range, 0.0) && std::abs(value) < physical_bounds(value).least) value = 0;
  if (!is_number) {
    fail_type(ref, what, "a number" + described(range));
  } else if (passes(ref, what, range, value)) {
    return value;
  }
  return std::nullopt;
}

std::optional<std::int64_t> read_integer(const NodeRef& ref, std::string_view what, std::int64_t low,
                                         std::int64_t high) {
  std::int64_t value = 0;
  const std::errc error =
      is_plain_scalar(ref) ? parse_whole(ref.node->text, value) : std::errc::invalid_argument;
  if (error == std::errc::invalid_argument) {
    fail_type(ref, what, "a whole number in decimal digits" + described(low, high));
  } else if (error != std::errc() || value < low || value > high) {
    fail_range(ref, what, described(low, high));
  } else {
    return value;
  }
  return std::nullopt;
}

std::optional<bool> read_boolean(const NodeRef& ref, std::string_view what) {
  if (is_plain_scalar(ref) && (ref.node->text == "true" || ref.node->text == "false")) {
    return ref.node->text == "true";
  }
  fail_type(ref, what, "true or false");
  return std::nullopt;
}

template <class Q>
std::optional<Q> read_quantity(const NodeRef& ref, std::string_view what, Range<Q> range) {
  Q value;
  std::string expected;
  const TreeNode& node = *ref.node;
  // Quotes are fine here: JSON has no other way to write a quantity.
  if (parse(node.kind == TreeNode::Kind::scalar ? node.text : "", value, expected)) {
    if (passes(ref, what, range, value)) return value;
    return std::nullopt;
  }
  double bare = 0;
  const bool is_scalar = node.kind == TreeNode::Kind::scalar;
  const bool is_bare = is_scalar && parse_whole(node.text, bare) == std::errc();
  const std::string_view verdict = is_bare ? " has no unit" : is_scalar ? " is not understood" : "";
  ref.fail(ref.found(what) + std::string(verdict) + "; expected " + expected);
  return std::nullopt;
}

template AskedKey asked_as(const Range<double>&);
template AskedKey asked_as(const Range<Seconds>&);
template AskedKey asked_as(const Range<Bytes>&);
template AskedKey asked_as(const Range<BytesPerSecond>&);
template AskedKey asked_as(const Range<Flops>&);
template AskedKey asked_as(const Range<FlopsPerSecond>&);

template std::optional<Seconds> read_quantity(const NodeRef&, std::string_view, Range<Seconds>);
template std::optional<Bytes> read_quantity(const NodeRef&, std::string_view, Range<Bytes>);
template std::optional<BytesPerSecond> read_quantity(const NodeRef&, std::string_view, Range<BytesPerSecond>);
template std::optional<Flops> read_quantity(const NodeRef&, std::string_view, Range<Flops>);
template std::optional<FlopsPerSecond> read_quantity(const NodeRef&, std::string_view, Range<FlopsPerSecond>);

}  // namespace moelab::yaml
