// An LFU cache, counted; rules in cache_curves.hpp. LFU that forgets is no stack algorithm: what a cache
// holds depends on when its experts left, and that on its capacity. So each capacity is simulated.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moelab {

/// Experts in the order in which they would leave. One that is looked up moves behind all with its new count
/// or less: a few places on the average, since the counts of those looked up often lie far apart.
class CacheLfu {
 public:
  CacheLfu(std::uint32_t experts, std::uint32_t capacity)
      : order_(capacity, experts), place_(experts + 1, kAbsent) {}
  void look_up(std::span<const std::uint16_t> lookups) {
    for (const std::uint16_t expert : lookups) {
      std::uint32_t place = place_[expert];
      std::uint64_t counted = kOnce | expert;
      if (place == kAbsent) {
        place = 0;
        place_[order_[0] & kExpert] = kAbsent;
        ++misses_;
      } else {
        counted = order_[place] + kOnce;
      }
      move_back(place, counted);
    }
  }
  std::uint64_t misses() const { return misses_; }

 private:
  // An entry is an expert with its count above it. Empty places hold nobody (expert number `experts`), with
  // the count 0: they are filled first.
  static constexpr std::uint64_t kOnce = 1 << 16;
  static constexpr std::uint64_t kExpert = kOnce - 1;
  static constexpr std::uint32_t kAbsent = 0xffffffff;

  void move_back(std::uint32_t place, std::uint64_t counted) {
    const std::uint64_t last_equal = counted | kExpert;
    for (; place + 1 < order_.size() && order_[place + 1] <= last_equal; ++place) {
      order_[place] = order_[place + 1];
      place_[order_[place] & kExpert] = place;
    }
    order_[place] = counted;
    place_[counted & kExpert] = place;
  }

  std::vector<std::uint64_t> order_;
  std::vector<std::uint32_t> place_;  // of an expert in the order
  std::uint64_t misses_ = 0;
};

}  // namespace moelab
