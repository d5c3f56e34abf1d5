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
      : nobody_(experts), order_(capacity, nobody_), place_(experts + 1, kAbsent) {
    order_.push_back(kEnd);
  }
  void look_up(std::span<const std::uint16_t> lookups) {
    std::uint64_t* const order = order_.data();
    std::uint32_t* const places = place_.data();
    std::uint64_t misses = misses_;
    for (const std::uint16_t expert : lookups) {
      // Found or missing: nobody can predict it, so it is no branch. The first leaves, or nobody.
      const std::uint64_t missing = places[expert] == kAbsent ? ~std::uint64_t{0} : 0;
      const std::uint64_t leaver = (order[0] & kExpert & missing) | (nobody_ & ~missing);
      std::size_t place = places[expert] & ~missing;
      const std::uint64_t counted = ((order[place] & ~missing) | (expert & missing)) + kOnce;
      places[leaver] = kAbsent;
      misses -= missing;
      for (; order[place + 1] <= (counted | kExpert); ++place) {
        order[place] = order[place + 1];
        places[order[place] & kExpert] = static_cast<std::uint32_t>(place);
      }
      order[place] = counted;
      places[expert] = static_cast<std::uint32_t>(place);
    }
    misses_ = misses;
  }
  std::uint64_t misses() const { return misses_; }

 private:
  // An entry is an expert with its count above it. Empty places hold nobody (expert number `experts`), with
  // the count 0: they are filled first.
  static constexpr std::uint64_t kOnce = 1 << 16;
  static constexpr std::uint64_t kExpert = kOnce - 1;
  static constexpr std::uint64_t kEnd = ~std::uint64_t{0};  // behind the last one
  static constexpr std::uint32_t kAbsent = 0xffffffff;

  std::uint64_t nobody_;
  std::vector<std::uint64_t> order_;
  std::vector<std::uint32_t> place_;  // of an expert in the order
  std::uint64_t misses_ = 0;
};

}  // namespace moelab
