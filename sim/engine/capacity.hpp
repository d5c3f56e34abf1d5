// How much operations that share a capacity slow each other down, where the dispatcher knows it in advance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/engine/graph.hpp"

namespace moelab::engine {

struct Capacity {
  std::vector<double> slowdown;  // [n - 1]: of each of n users; grows linearly beyond the last
  std::vector<std::pair<ResourceId, double>> slowed_by;  // while that resource is busy: another factor

  /// What the users, the new one among them, are slowed down by each other.
  double of_users(std::size_t users) const {
    const std::size_t known = slowdown.size();
    return users <= known ? slowdown[users - 1]
                          : slowdown.back() * static_cast<double>(users) / static_cast<double>(known);
  }
  /// And by what is busy: `busy(resource)`.
  template <class Busy>
  double of_busy(Busy busy) const {
    double factor = 1;
    for (const auto& [resource, slower] : slowed_by)
      if (busy(resource)) factor *= slower;
    return factor;
  }
};

}  // namespace moelab::engine
