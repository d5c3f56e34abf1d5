// An LFU cache, counted; rules in cache_curves.hpp. With experts that must enter it is no stack algorithm,
// and one that forgets is none at all: what a cache holds depends on when its experts left, and that on its
// capacity. So each capacity is simulated.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moelab {

/// Experts in the order in which they would leave. One that is looked up moves behind all with its new count
/// or less: hardly ever a step in routing, since the counts of those that stay lie far apart.
/// forgets: an expert that leaves loses its count.
template <bool forgets>
class CacheLfu {
 public:
  CacheLfu(std::uint32_t experts, std::uint32_t capacity)
      : order_(capacity, experts), place_(experts + 1, 0), uses_(forgets ? 0 : experts, 0) {
    order_.push_back(~std::uint64_t{0});  // behind all
  }

  void look_up(std::span<const std::uint16_t> lookups) {
    std::uint64_t* const order = order_.data();
    std::uint32_t* const places = place_.data();
    std::uint64_t misses = misses_;
    for (const std::uint16_t expert : lookups) {
      std::size_t place = places[expert];
      const std::uint64_t entry = order[place];
      // Found or missing: the processor cannot predict it, so it is no branch. One that is missing takes the
      // first's place, where its own place points already.
      const std::uint64_t missing = (entry & kExpert) != expert;
      std::uint64_t counted = ((entry & (missing - 1)) | expert) + kOnce;
      if constexpr (!forgets) counted = (uses_[expert] += kOnce) | expert;
      misses += missing;
      for (; order[place + 1] <= (counted | kExpert); ++place) {
        order[place] = order[place + 1];
        places[order[place] & kExpert] = static_cast<std::uint32_t>(place);
        places[expert] = static_cast<std::uint32_t>(place + 1);
      }
      order[place] = counted;
    }
    misses_ = misses;
  }
  std::uint64_t misses() const { return misses_; }

 private:
  // An entry is an expert with its count above it. Empty places hold no expert (number `experts`) with the
  // count 0: they are filled first.
  static constexpr std::uint64_t kOnce = 1 << 16;
  static constexpr std::uint64_t kExpert = kOnce - 1;

  std::vector<std::uint64_t> order_;
  std::vector<std::uint32_t> place_;  // of an expert in the order; 0 also if it is not there
  std::vector<std::uint64_t> uses_;   // kOnce for each lookup of an expert so far; empty where it forgets
  std::uint64_t misses_ = 0;
};

}  // namespace moelab
