#include "cli/plot/chart_scale.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "traces/portable_math.hpp"

namespace moelab::plot {
namespace {

constexpr int most_ticks = 8;
constexpr std::array<int, 3> mantissas{1, 2, 5};

// The double next to digits * 10^exponent. By way of text, since std::pow differs between C libraries.
double decimal(std::int64_t digits, int exponent) {
  const std::string text = std::to_string(digits) + "e" + std::to_string(exponent);
  double value = 0;
  [[maybe_unused]] const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  assert(result.ec == std::errc());
  return value;
}

// The exponent of value = d.ddd * 10^exponent, value not 0.
int decimal_exponent(double value) {
  std::array<char, 64> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific).ptr;
  const char* digits = std::find(text.data(), end, 'e') + 1;
  if (*digits == '+') ++digits;
  int exponent = 0;
  std::from_chars(digits, end, exponent);
  return exponent;
}

// A multiple of 3 at or below.
int thousands(int exponent) {
  return exponent >= 0 ? exponent / 3 * 3 : -((-exponent + 2) / 3 * 3);
}

// Numbers are written as multiples of 10^power, and `suffix` says so: a prefix of SI, or "e20".
struct NumberStyle {
  int power = 0;
  std::string suffix{};
  bool is_prefix() const { return !suffix.starts_with('e'); }
};

// A tick whose text does not say yet what its number is a multiple of.
struct StyledTick {
  Tick tick{};
  NumberStyle style{};
};

// For numbers up to `largest` in magnitude; `alone`: this number has none of its size beside it (log axes).
NumberStyle style_for(double largest, std::string_view unit, bool alone) {
  constexpr std::array<std::string_view, 13> prefixes{"a", "f", "p", "n", "µ", "m", "",
                                                      "k", "M", "G", "T", "P", "E"};
  const bool takes_small_prefixes = unit == "s" || unit == "J" || unit == "W";
  const int exponent = decimal_exponent(largest);
  const bool plain = exponent < 4 && exponent >= (!takes_small_prefixes ? -3 : alone ? 0 : -1);
  if (plain) return {};
  if (exponent > 20 || exponent < (takes_small_prefixes ? -18 : 0))
    return {exponent, "e" + std::to_string(exponent)};
  return {thousands(exponent), std::string(prefixes[static_cast<std::size_t>(thousands(exponent) / 3 + 6)])};
}

std::string decimal_text(std::int64_t digits, int exponent) {
  std::string text = std::to_string(digits < 0 ? -digits : digits);
  if (exponent >= 0) {
    text.append(static_cast<std::size_t>(exponent), '0');
  } else {
    const auto places = static_cast<std::size_t>(-exponent);
    if (text.size() <= places) text.insert(0, places + 1 - text.size(), '0');
    text.insert(text.size() - places, ".");
  }
  return digits < 0 ? "-" + text : text;
}

StyledTick tick_at(std::int64_t digits, int exponent, const NumberStyle& style) {
  if (digits == 0) return {{0, "0"}, {}};
  return {{decimal(digits, exponent), decimal_text(digits, exponent - style.power)}, style};
}

bool takes_prefixes(std::string_view unit) {
  constexpr std::array<std::string_view, 5> units{"s", "J", "W", "B", "B/s"};
  return std::find(units.begin(), units.end(), unit) != units.end();
}

// Numbers that are all of one size say their prefix once, in the axis's title ("ms"); others each, with the
// unit ("10 ms", "1 s"). Numbers without a unit, or with one that takes no prefix, end in it ("10k").
void name_ticks(std::vector<StyledTick> ticks, std::string_view unit, Scale& scale) {
  const StyledTick* first = nullptr;
  bool alike = true, prefixed = takes_prefixes(unit);
  for (const StyledTick& one : ticks) {
    if (one.tick.value == 0) continue;
    if (first == nullptr) first = &one;
    alike = alike && one.style.suffix == first->style.suffix;
    prefixed = prefixed && one.style.is_prefix();
  }
  if (prefixed && alike && first != nullptr) scale.prefix = first->style.suffix;
  for (StyledTick& one : ticks) {
    if (one.tick.value != 0 && !(prefixed && alike))
      one.tick.text += (prefixed ? " " : "") + one.style.suffix + (prefixed ? std::string(unit) : "");
    scale.ticks.push_back(std::move(one.tick));
  }
}

// Counted in steps; a value within a hundred-thousandth of a step from a multiple counts as that multiple.
std::int64_t steps_rounded(double value, double step, bool up) {
  const double steps = value / step;
  const double nearest = std::round(steps);
  if (std::abs(steps - nearest) < 1e-5) return static_cast<std::int64_t>(nearest);
  return static_cast<std::int64_t>(up ? std::ceil(steps) : std::floor(steps));
}

// Steps grow by at most 2.5, so the first that needs no more than 8 ticks needs at least 3.
std::vector<StyledTick> linear_ticks(AxisRange data, const Axis& axis, bool tight) {
  const int finest = decimal_exponent(data.high - data.low) - 2;
  for (int exponent = axis.integers ? std::max(finest, 0) : finest;; ++exponent) {
    for (const int mantissa : mantissas) {
      const double step = decimal(mantissa, exponent);
      const std::int64_t first = steps_rounded(data.low, step, tight);
      const std::int64_t last = steps_rounded(data.high, step, !tight);
      if (last - first >= most_ticks) continue;
      if (last < first) return {};  // no whole number between the ends
      const NumberStyle style =
          style_for(static_cast<double>(std::max({std::abs(first), std::abs(last), std::int64_t{1}})) * step,
                    axis.unit, false);
      std::vector<StyledTick> ticks;
      for (std::int64_t i = first; i <= last; ++i) ticks.push_back(tick_at(i * mantissa, exponent, style));
      return ticks;
    }
  }
}

// Some extent for data that have none: five percent each way.
AxisRange widened(AxisRange data) {
  const double magnitude = std::max(std::abs(data.low), std::abs(data.high));
  if (magnitude < 1e-290) return {data.low < 0 ? -1.0 : 0.0, 1};
  if (data.high - data.low >= 1e-6 * magnitude) return data;
  const double middle = data.low / 2 + data.high / 2;
  return {middle - 0.05 * magnitude, middle + 0.05 * magnitude};
}

Scale linear_scale(AxisRange data, const Axis& axis, bool tight) {
  if (!tight) data = widened(data);
  Scale scale{.kind = axis.scale, .low = data.low, .high = data.high};
  name_ticks(linear_ticks(data, axis, tight), axis.unit, scale);
  if (tight) return scale;
  scale.low = std::min(scale.low, scale.ticks.front().value);
  scale.high = std::max(scale.high, scale.ticks.back().value);
  return scale;
}

// The numbers 1, 2, 5, 10, 20, ... in order; 0 stands for 1, 3 for 10, -3 for 0.1.
struct Preferred {
  int exponent = 0;
  int mantissa = 1;
  explicit Preferred(int index)
      : exponent(index >= 0 ? index / 3 : -((2 - index) / 3)),
        mantissa(mantissas[static_cast<std::size_t>(index - 3 * exponent)]) {}
  double value() const { return decimal(mantissa, exponent); }
};

int preferred_at_or_below(double value) {
  int index = 3 * decimal_exponent(value) + 2;
  while (Preferred(index).value() > value) --index;
  return index;
}

int preferred_at_or_above(double value) {
  const int below = preferred_at_or_below(value);
  return Preferred(below).value() < value ? below + 1 : below;
}

// Multiples of this many decades are named, so that there are not too many.
int decade_stride(int first, int last) {
  for (int scale = 1;; scale *= 10)
    for (const int mantissa : mantissas) {
      const int stride = mantissa * scale;
      if ((last - first) / stride < most_ticks) return stride;
    }
}

std::vector<double> minor_marks(const Scale& scale) {
  std::vector<double> marks;
  for (int exponent = decimal_exponent(scale.low); exponent <= decimal_exponent(scale.high); ++exponent)
    for (int digit = 2; digit < 10; ++digit) {
      const double value = decimal(digit, exponent);
      if (value > scale.low && value < scale.high) marks.push_back(value);
    }
  return marks;
}

// Decades if three or more lie between the ends, else 1, 2, 5, 10, ... if three or more of them do, else
// equal steps: each of these has 8 or fewer where those before have less than 3.
Scale log_scale(AxisRange data, const Axis& axis, bool tight) {
  if (!tight && data.high <= 2.5 * data.low) return linear_scale(data, axis, false);
  Scale scale{.kind = ScaleKind::log, .low = data.low, .high = data.high};
  const int first = tight ? preferred_at_or_above(data.low) : preferred_at_or_below(data.low);
  const int last = tight ? preferred_at_or_below(data.high) : preferred_at_or_above(data.high);
  if (!tight) {
    scale.low = Preferred(first).value();
    scale.high = Preferred(last).value();
  }
  std::vector<StyledTick> ticks;
  const auto add = [&](int index) {
    const Preferred number(index);
    ticks.push_back(tick_at(number.mantissa, number.exponent, style_for(number.value(), axis.unit, true)));
  };
  const int first_decade = Preferred(first + 2).exponent;
  const int last_decade = Preferred(last).exponent;
  if (last_decade - first_decade >= 2) {
    const int stride = decade_stride(first_decade, last_decade);
    for (int decade = first_decade; decade <= last_decade; ++decade)
      if (decade % stride == 0) add(3 * decade);
    if (stride == 1) scale.minor = minor_marks(scale);
  } else if (last - first >= 2) {
    for (int index = first; index <= last; ++index) add(index);
    scale.minor = minor_marks(scale);
  } else {
    ticks = linear_ticks(data, axis, true);
  }
  name_ticks(std::move(ticks), axis.unit, scale);
  return scale;
}

}  // namespace

bool has_extent(const AxisRange& range) {
  const double extent = range.high - range.low;
  return extent > 1e-290 && extent > 1e-9 * std::max(std::abs(range.low), std::abs(range.high));
}

bool can_place(double value, ScaleKind kind) {
  const double magnitude = std::abs(value);
  return magnitude <= 1e300 && (kind == ScaleKind::linear || value >= 1e-280);
}

double Scale::position(double value) const {
  double at = 0;
  if (kind == ScaleKind::log) {
    at = (portable_log(value) - portable_log(low)) / (portable_log(high) - portable_log(low));
  } else {
    at = (value - low) / (high - low);
  }
  return std::clamp(at, -10.0, 11.0);
}

bool Scale::can_place(double value) const {
  return plot::can_place(value, kind);
}

bool Scale::shows(double value) const {
  return can_place(value) && value >= low && value <= high;
}

Scale make_scale(AxisRange data, const Axis& axis, bool tight) {
  assert(can_place(data.low, axis.scale) && can_place(data.high, axis.scale) && data.low <= data.high);
  return axis.scale == ScaleKind::log ? log_scale(data, axis, tight) : linear_scale(data, axis, tight);
}

}  // namespace moelab::plot
