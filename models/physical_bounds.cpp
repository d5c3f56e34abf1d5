#include "models/physical_bounds.hpp"

#include <cmath>
#include <string_view>

namespace moelab {
namespace {

struct BoundsOfKind {
  PhysicalBounds bounds;
  std::string_view shown, too_small, too_large;
};

// Light goes 0.3 mm in 1 ps, within one core; 1e9 s are 32 years, longer than a machine is kept.
constexpr BoundsOfKind kTimes{{1e-12, 1e9},
                              "0.001 ns to 1e9 s",
                              "is less than any machine can tell apart",
                              "is longer than any machine is kept"};
// A cluster of 100,000 GPUs of 288 GB has 2.9e16 B of memory, and all SSDs of one of today 1e18 B.
constexpr BoundsOfKind kSizes{
    {1, 1e18}, "1 B to 1e6 TB", "is less than a byte", "is more than any machine has"};
// The memory on the largest chip (a wafer) gives 2.1e16 B/s, a modem of 1962 gave 37 B/s.
constexpr BoundsOfKind kByteRates{
    {1, 1e18}, "1 B/s to 1e6 TB/s", "is less than any machine has", "is more than any machine has"};
// Training the largest models of today takes some 1e26 FLOP.
constexpr BoundsOfKind kWorks{
    {1, 1e30}, "1 FLOP to 1e15 PFLOP", "is less than one operation", "is more than anything takes"};
// 100,000 GPUs of 1e16 FLOP/s; the first machines with floating point made some 10 FLOP/s.
constexpr BoundsOfKind kFlopRates{
    {1, 1e21}, "1 FLOP/s to 1e6 PFLOP/s", "is less than any machine has", "is more than any machine has"};
// A share of 1e-12 is one byte of a TB; 1e18 is above all counts of bytes, tokens and operations a second.
constexpr BoundsOfKind kNumbers{{1e-12, 1e18},
                                "1e-12 to 1e18",
                                "is nearer to 0 than anything it could stand for",
                                "is more than anything it could count"};

const BoundsOfKind& of_kind(Seconds) {
  return kTimes;
}
const BoundsOfKind& of_kind(Bytes) {
  return kSizes;
}
const BoundsOfKind& of_kind(BytesPerSecond) {
  return kByteRates;
}
const BoundsOfKind& of_kind(Flops) {
  return kWorks;
}
const BoundsOfKind& of_kind(FlopsPerSecond) {
  return kFlopRates;
}
const BoundsOfKind& of_kind(double) {
  return kNumbers;
}

double base_value(double value) {
  return value;
}
template <class Dimension>
double base_value(Quantity<Dimension> value) {
  return value.value();
}

}  // namespace

template <class Q>
PhysicalBounds physical_bounds(Q q) {
  return of_kind(q).bounds;
}

template <class Q>
std::string beyond_physical(Q value) {
  const BoundsOfKind& kind = of_kind(value);
  const double size = std::abs(base_value(value));
  if (size == 0 || (size >= kind.bounds.least && size <= kind.bounds.most)) return "";
  const bool is_small = size < kind.bounds.least;
  const std::string_view verdict = is_small           ? kind.too_small
                                   : std::isnan(size) ? "is no number"
                                                      : kind.too_large;
  return " " + std::string(verdict) + "; expected " + std::string(kind.shown);
}

template PhysicalBounds physical_bounds(Seconds);
template PhysicalBounds physical_bounds(Bytes);
template PhysicalBounds physical_bounds(BytesPerSecond);
template PhysicalBounds physical_bounds(Flops);
template PhysicalBounds physical_bounds(FlopsPerSecond);
template PhysicalBounds physical_bounds(double);
template std::string beyond_physical(Seconds);
template std::string beyond_physical(Bytes);
template std::string beyond_physical(BytesPerSecond);
template std::string beyond_physical(Flops);
template std::string beyond_physical(FlopsPerSecond);
template std::string beyond_physical(double);

}  // namespace moelab
