// What the caches share that keep every expert in one and the same state.
#pragma once

#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

#include "policies/cache/cache.hpp"
#include "policies/cache/experts_that_fit.hpp"

namespace moelab {

/// One pool of floor(capacity_bytes / bytes[kept_as]) places. A prefetched expert is kept as every other one:
/// in state kept_as.
class SinglePool : public CachePolicy {
 public:
  std::span<const State> states() const final { return states_; }
  double bytes_held() const final { return held_ * bytes_each_; }

 protected:
  explicit SinglePool(const CacheShape& shape)
      : kept_as_(shape.kept_as),
        bytes_each_(shape.bytes[index(shape.kept_as)]),
        places_(experts_that_fit(shape.capacity_bytes, bytes_each_, shape.objects)),
        states_(shape.objects, State::M) {
    assert(kept_as_ != State::M);
  }

  std::uint32_t places() const { return places_; }
  std::uint32_t held() const { return held_; }
  bool full() const { return held_ == places_; }
  bool holds(std::uint32_t object) const { return states_[object] != State::M; }
  void take(std::uint32_t object) {
    assert(!full() && !holds(object));
    states_[object] = kept_as_;
    ++held_;
  }
  void drop(std::uint32_t object) {
    assert(holds(object));
    states_[object] = State::M;
    --held_;
  }

 private:
  State kept_as_;
  double bytes_each_;
  std::uint32_t places_;
  std::uint32_t held_ = 0;
  std::vector<State> states_;
};

}  // namespace moelab
