// Capacities: what operations of several resources use together, and slow each other down at.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "sim/engine/graph.hpp"

namespace moelab::engine {

/// Of n concurrent users of a capacity each gets 1/slowdown[n - 1] of full speed, which is `bandwidth`
/// (amount a second); the last entry grows linearly beyond. A user whose own top speed is less, or that waits
/// for what is beyond, leaves the rest to the others (max-min).
struct CapacityLaw {
  std::vector<double> slowdown = {1};
  double bandwidth = 1;
  CapacityId beyond = kNoCapacity;  // what crosses this one crosses that one too (a disk's reads the memory)

  double of_users(std::size_t users) const {
    const std::size_t known = slowdown.size();
    if (users <= known) return slowdown[std::max<std::size_t>(users, 1) - 1];
    return slowdown.back() * static_cast<double>(users) / static_cast<double>(known);
  }
};

/// An operation in flight or just ended.
struct InFlight {
  double end;
  Graph* graph;
  OpIndex op;
};

/// A capacity whose users all progress equally fast, resolved exactly: the user with the least left when it
/// joins ends first, however the speed changes meanwhile. So users are kept by the progress at which they
/// end, and only the speed of progress changes.
class SharedCapacity {
 public:
  explicit SharedCapacity(const CapacityLaw& law) : law_(law) {}

  /// A user joins at `user.end` (now) with so many seconds of full speed to go.
  void join(const InFlight& user, double seconds) {
    if (users_.empty()) {
      progress_ = 0;
      since_ = user.end;
    }
    advance(user.end);
    const InFlight entry{progress_ + seconds, user.graph, user.op};
    const auto later = [&](const InFlight& other) { return other.end < entry.end; };
    users_.insert(std::find_if(users_.begin(), users_.end(), later), entry);
    set_stretch();
  }
  /// When the next user ends if nothing changes; never without users.
  double next_end() const {
    return users_.empty() ? std::numeric_limits<double>::infinity()
                          : since_ + std::max(users_.back().end - progress_, 0.0) * stretch_;
  }
  /// Takes out the next user, at its end.
  InFlight take_next(double now) {
    const InFlight next = users_.back();
    users_.pop_back();
    progress_ = next.end;
    since_ = now;
    set_stretch();
    return {now, next.graph, next.op};
  }
  void set_factor(double factor, double now) {
    if (factor == factor_) return;
    advance(now);
    factor_ = factor;
    set_stretch();
  }

 private:
  void advance(double now) {
    progress_ += (now - since_) / stretch_;
    since_ = now;
  }
  void set_stretch() { stretch_ = factor_ * law_.of_users(users_.size()); }

  CapacityLaw law_;
  std::vector<InFlight> users_;  // `end` in progress; the last to end first
  double progress_ = 0;          // seconds of full speed that each user has got since the first one joined
  double since_ = 0;             // when that was so
  double factor_ = 1;
  double stretch_ = 1;  // seconds that one of full speed takes
};

}  // namespace moelab::engine
