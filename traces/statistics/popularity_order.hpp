// Experts by falling number of uses, kept in order as uses come.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace moelab {

/// Equal numbers: the smaller id first. A use moves an expert past those that it overtakes, mostly none: at
/// worst as many as there are.
class PopularityOrder {
 public:
  explicit PopularityOrder(std::uint32_t experts) : uses_(experts), place_(experts), order_(experts) {
    std::iota(order_.begin(), order_.end(), 0u);
    place_ = order_;
  }
  /// How many experts come before this one.
  std::uint32_t place_of(std::uint32_t expert) const { return place_[expert]; }
  void use(std::uint32_t expert) {
    const std::uint64_t uses = ++uses_[expert];
    std::uint32_t place = place_[expert];
    for (; place > 0; --place) {
      const std::uint32_t before = order_[place - 1];
      if (uses_[before] > uses || (uses_[before] == uses && before < expert)) break;
      order_[place] = before;
      place_[before] = place;
    }
    order_[place] = expert;
    place_[expert] = place;
  }

 private:
  std::vector<std::uint64_t> uses_;
  std::vector<std::uint32_t> place_;  // by expert
  std::vector<std::uint32_t> order_;  // experts
};

}  // namespace moelab
