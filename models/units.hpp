// Quantities with units. A value in a file carries its unit ("3.5 GB/s", "64 GiB", "900 us"), which means one
// thing everywhere: k, M, G, T are powers of 1000 and Ki, Mi, Gi, Ti powers of 1024. Inside, every quantity
// is in its base unit.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace moelab {

/// A number of base units of one dimension. Dimensions do not mix: adding Seconds to Bytes does not compile.
template <class Dimension>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}
  constexpr double value() const { return value_; }
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator+(Quantity other) const { return Quantity(value_ + other.value_); }
  constexpr Quantity operator-(Quantity other) const { return Quantity(value_ - other.value_); }
  constexpr Quantity operator*(double factor) const { return Quantity(value_ * factor); }
  constexpr Quantity operator/(double divisor) const { return Quantity(value_ / divisor); }
  constexpr double operator/(Quantity other) const { return value_ / other.value_; }
  constexpr Quantity& operator+=(Quantity other) { return *this = *this + other; }
  constexpr Quantity& operator-=(Quantity other) { return *this = *this - other; }

 private:
  double value_ = 0;
};
template <class Dimension>
constexpr Quantity<Dimension> operator*(double factor, Quantity<Dimension> q) {
  return q * factor;
}

struct SecondsDimension {};
struct BytesDimension {};
struct BytesPerSecondDimension {};
struct FlopsDimension {};
struct FlopsPerSecondDimension {};

using Seconds = Quantity<SecondsDimension>;                // s
using Bytes = Quantity<BytesDimension>;                    // B; exact as a double up to 2^53
using BytesPerSecond = Quantity<BytesPerSecondDimension>;  // B/s
using Flops = Quantity<FlopsDimension>;  // floating-point operations; a multiply-add counts two
using FlopsPerSecond = Quantity<FlopsPerSecondDimension>;  // FLOP/s

constexpr Seconds operator/(Bytes b, BytesPerSecond rate) {
  return Seconds(b.value() / rate.value());
}
constexpr Seconds operator/(Flops f, FlopsPerSecond rate) {
  return Seconds(f.value() / rate.value());
}
constexpr BytesPerSecond operator/(Bytes b, Seconds t) {
  return BytesPerSecond(b.value() / t.value());
}

/// Reads "900 us", "64GiB", "3.5 GB/s", "42.5 TFLOP/s", "0 s". Blanks between number and unit are optional, a
/// missing or foreign unit is an error. Accepted: s ms us ns min h | B kB MB GB TB KiB MiB GiB TiB | those
/// per s (also Mbit/s Gbit/s) | FLOP kFLOP ... PFLOP | FLOP/s ... PFLOP/s. Returns false, and in `expected` a
/// phrase such as "a time with a unit, such as '900 us'", when the text is not a finite quantity of this
/// dimension. Negative values are read; ranges are the caller's.
bool parse(std::string_view text, Seconds& out, std::string& expected);
bool parse(std::string_view text, Bytes& out, std::string& expected);
bool parse(std::string_view text, BytesPerSecond& out, std::string& expected);
bool parse(std::string_view text, Flops& out, std::string& expected);
bool parse(std::string_view text, FlopsPerSecond& out, std::string& expected);

/// Four significant digits with the unit a person would choose: "12.35 ms", "17.3 MB", "3.5 GB/s". Bytes use
/// powers of 1000.
std::string to_string(Seconds q);
std::string to_string(Bytes q);
std::string to_string(BytesPerSecond q);
std::string to_string(Flops q);
std::string to_string(FlopsPerSecond q);

/// The shortest text with a unit that parse() reads back as the same value. For finite values.
std::string to_exact_string(Seconds q);
std::string to_exact_string(Bytes q);
std::string to_exact_string(BytesPerSecond q);
std::string to_exact_string(Flops q);
std::string to_exact_string(FlopsPerSecond q);

/// The fewest digits that read back as the same number.
std::string shortest_text(double value);

}  // namespace moelab
