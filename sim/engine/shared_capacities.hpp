// All shared capacities: whose user ends next.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/engine/moment_heap.hpp"
#include "sim/engine/shared_capacity.hpp"

namespace moelab::engine {

class SharedCapacities {
 public:
  void add(const CapacityLaw& law) {
    capacities_.emplace_back(law);
    ends_.add();
  }
  void join(const InFlight& user) {
    const CapacityId capacity = user.graph->capacity(user.op);
    capacities_[capacity].join(user, user.graph->shared_seconds(user.op));
    renew(capacity);
  }
  void set_factor(CapacityId capacity, double factor, double now) {
    capacities_[capacity].set_factor(factor, now);
    renew(capacity);
  }
  double next_end() const { return ends_.next(); }
  /// Takes out the next user, at its end.
  InFlight take_next(double now) {
    const std::uint32_t capacity = ends_.first();
    const InFlight user = capacities_[capacity].take_next(now);
    renew(capacity);
    return user;
  }

 private:
  void renew(std::uint32_t capacity) { ends_.set(capacity, capacities_[capacity].next_end()); }

  std::vector<SharedCapacity> capacities_;  // by CapacityId
  MomentHeap ends_;
};

}  // namespace moelab::engine
