#include "models/units.hpp"

#include <array>
#include <charconv>
#include <limits>
#include <span>
#include <system_error>

#include "models/unit_names.hpp"

namespace moelab {
namespace {

/// A value in this unit is value * multiplier / divisor in the base unit. One of the two is always 1 and both
/// are exact, so that "900 us" is the double nearest to 900e-6.
struct Unit {
  std::string_view name;
  double multiplier;
  double divisor = 1;
  // to_string takes the first unit of the table in which the value is at least this much.
  double least_shown = std::numeric_limits<double>::infinity();
};

constexpr std::array time_units = {Unit{"h", 3600, 1, 2}, Unit{"min", 60, 1, 2}, Unit{"s", 1, 1, 1},
                                   Unit{"ms", 1, 1e3, 1}, Unit{"us", 1, 1e6, 1}, Unit{"ns", 1, 1e9, 0}};
constexpr std::array byte_units = {Unit{"TB", 1e12, 1, 1}, Unit{"GB", 1e9, 1, 1}, Unit{"MB", 1e6, 1, 1},
                                   Unit{"kB", 1e3, 1, 1},  Unit{"B", 1, 1, 0},    Unit{"KiB", 0x1p10},
                                   Unit{"MiB", 0x1p20},    Unit{"GiB", 0x1p30},   Unit{"TiB", 0x1p40}};
constexpr std::array byte_rate_units = {
    Unit{"TB/s", 1e12, 1, 1}, Unit{"GB/s", 1e9, 1, 1}, Unit{"MB/s", 1e6, 1, 1}, Unit{"kB/s", 1e3, 1, 1},
    Unit{"B/s", 1, 1, 0},     Unit{"KiB/s", 0x1p10},   Unit{"MiB/s", 0x1p20},   Unit{"GiB/s", 0x1p30},
    Unit{"TiB/s", 0x1p40},    Unit{"Mbit/s", 125e3},   Unit{"Gbit/s", 125e6}};
constexpr std::array flop_units = {Unit{"PFLOP", 1e15, 1, 1}, Unit{"TFLOP", 1e12, 1, 1},
                                   Unit{"GFLOP", 1e9, 1, 1},  Unit{"MFLOP", 1e6, 1, 1},
                                   Unit{"kFLOP", 1e3, 1, 1},  Unit{"FLOP", 1, 1, 0}};
constexpr std::array flop_rate_units = {Unit{"PFLOP/s", 1e15, 1, 1}, Unit{"TFLOP/s", 1e12, 1, 1},
                                        Unit{"GFLOP/s", 1e9, 1, 1},  Unit{"MFLOP/s", 1e6, 1, 1},
                                        Unit{"kFLOP/s", 1e3, 1, 1},  Unit{"FLOP/s", 1, 1, 0}};

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool parse_with(std::span<const Unit> units, std::string_view text, double& out) {
  text = trimmed(text);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  const std::string_view name = trimmed(text.substr(static_cast<std::size_t>(end - text.data())));
  for (const Unit& unit : units) {
    if (unit.name != name) continue;
    double value = number * unit.multiplier / unit.divisor;
    if (!std::isfinite(value)) return false;
    // What a double is too coarse for is not nothing.
    if (value == 0 && number != 0) value = std::copysign(std::numeric_limits<double>::denorm_min(), number);
    out = value;
    return true;
  }
  return false;
}

/// Four significant digits, trailing zeros left out.
std::string four_digits(double value) {
  std::array<char, 32> buffer{};
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::general, 4);
  return {buffer.data(), result.ptr};
}

/// The double that four_digits() shows.
double rounded(double value) {
  const std::string digits = four_digits(value);
  double result = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), result);
  return result;
}

std::string show_with(std::span<const Unit> units, std::string_view base_unit, double value) {
  for (const Unit& unit : units) {
    if (value == 0 || !std::isfinite(value)) break;
    // Rounding first shows 999.96 us as 1 ms rather than as 1000 us.
    const double in_unit = rounded(value / unit.multiplier * unit.divisor);
    if (std::abs(in_unit) < unit.least_shown) continue;
    return four_digits(in_unit) + " " + std::string(unit.name);
  }
  return four_digits(value == 0 ? 0 : value) + " " + std::string(base_unit);  // no "-0"
}

/// The first of the shortest texts that read back; the base unit, with factor 1, always does.
std::string exact_with(std::span<const Unit> units, double value) {
  std::string shortest;
  for (const Unit& unit : units) {
    if (value == 0 && (unit.multiplier != 1 || unit.divisor != 1)) continue;  // "0 s", not "0 h"
    std::array<char, 32> digits{};
    const double in_unit = value / unit.multiplier * unit.divisor;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), in_unit).ptr;
    const std::string text = std::string(digits.data(), end) + " " + std::string(unit.name);
    double back = 0;
    if (!parse_with(units, text, back) || back != value) continue;
    if (shortest.empty() || text.size() < shortest.size()) shortest = text;
  }
  return shortest;
}

/// " (did you mean '12 GB'?)" of "12gb": a unit that is one of these but for small and capital letters.
std::string spelled_right(std::span<const Unit> units, std::string_view text) {
  text = trimmed(text);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return "";
  const std::string_view digits = text.substr(0, static_cast<std::size_t>(end - text.data()));
  const std::string_view name = trimmed(text.substr(digits.size()));
  const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  for (const Unit& unit : units) {
    const bool same = std::equal(name.begin(), name.end(), unit.name.begin(), unit.name.end(),
                                 [&](char a, char b) { return small(a) == small(b); });
    const std::string right = std::string(digits) + " " + std::string(unit.name);
    if (same && name != unit.name && parse_with(units, right, number))
      return " (did you mean '" + right + "'?)";
  }
  return "";
}

template <class Q>
bool parse_as(std::span<const Unit> units, std::string_view phrase, std::string_view text, Q& out,
              std::string& expected) {
  double value = 0;
  if (!parse_with(units, text, value)) {
    expected = std::string(phrase) + spelled_right(units, text);
    return false;
  }
  out = Q(value);
  return true;
}

}  // namespace

bool parse(std::string_view text, Seconds& out, std::string& expected) {
  return parse_as(time_units, "a time with a unit, such as '900 us'", text, out, expected);
}
bool parse(std::string_view text, Bytes& out, std::string& expected) {
  return parse_as(byte_units, "a size with a unit, such as '64 GiB'", text, out, expected);
}
bool parse(std::string_view text, BytesPerSecond& out, std::string& expected) {
  return parse_as(byte_rate_units, "a rate with a unit, such as '3.5 GB/s'", text, out, expected);
}
bool parse(std::string_view text, Flops& out, std::string& expected) {
  return parse_as(flop_units, "a number of operations with a unit, such as '2 GFLOP'", text, out, expected);
}
bool parse(std::string_view text, FlopsPerSecond& out, std::string& expected) {
  return parse_as(flop_rate_units, "a compute rate with a unit, such as '42.5 TFLOP/s'", text, out, expected);
}

std::vector<std::string> unit_names() {
  std::vector<std::string> names;
  for (const std::span<const Unit> units :
       {std::span<const Unit>(time_units), std::span<const Unit>(byte_units),
        std::span<const Unit>(byte_rate_units), std::span<const Unit>(flop_units),
        std::span<const Unit>(flop_rate_units)})
    for (const Unit& unit : units) names.emplace_back(unit.name);
  return names;
}

std::string to_string(Seconds q) {
  return show_with(time_units, "s", q.value());
}
std::string to_string(Bytes q) {
  return show_with(byte_units, "B", q.value());
}
std::string to_string(BytesPerSecond q) {
  return show_with(byte_rate_units, "B/s", q.value());
}
std::string to_string(Flops q) {
  return show_with(flop_units, "FLOP", q.value());
}
std::string to_string(FlopsPerSecond q) {
  return show_with(flop_rate_units, "FLOP/s", q.value());
}

std::string to_exact_string(Seconds q) {
  return exact_with(time_units, q.value());
}
std::string to_exact_string(Bytes q) {
  return exact_with(byte_units, q.value());
}
std::string to_exact_string(BytesPerSecond q) {
  return exact_with(byte_rate_units, q.value());
}
std::string to_exact_string(Flops q) {
  return exact_with(flop_units, q.value());
}
std::string to_exact_string(FlopsPerSecond q) {
  return exact_with(flop_rate_units, q.value());
}

std::string shortest_text(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

}  // namespace moelab
