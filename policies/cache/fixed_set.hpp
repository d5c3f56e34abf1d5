// What the caches share whose set of experts is chosen once and never changes.
#pragma once

#include <cassert>
#include <span>

#include "policies/cache/single_pool.hpp"

namespace moelab {

/// Holds its experts from the start, before anything is used, and no others ever. Its maker loads them first:
/// CachePolicyEntry::preloads.
class FixedSet : public SinglePool {
 public:
  /// `objects`: distinct, best first; the first ones of them are held, as many as fit.
  FixedSet(const CacheShape& shape, std::span<const std::uint32_t> objects) : SinglePool(shape) {
    for (const std::uint32_t object : objects) {
      if (full()) break;
      take(object);
    }
  }
  void use(const ExpertUse&) final {}
  bool insert(std::uint32_t object) final { return holds(object); }
};

}  // namespace moelab
