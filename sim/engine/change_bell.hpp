// Tells processes that wait for something of the cluster to change that it has: they need not look again and
// again, which costs the more the longer they wait.
#pragma once

#include <algorithm>
#include <cmath>
#include <coroutine>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/engine/engine.hpp"

namespace moelab {

class ChangeBell {
 public:
  explicit ChangeBell(engine::Engine& engine) : engine_(engine) {}
  ChangeBell(const ChangeBell&) = delete;
  ChangeBell& operator=(const ChangeBell&) = delete;

  /// Something has changed, now: wakes at this instant, in the order in which they came, all that wait.
  void ring() {
    ++rung_;
    for (const std::coroutine_handle<> handle : std::exchange(waiting_, {}))
      engine_.until(engine_.now()).await_suspend(handle);
  }
  /// How often it has rung.
  std::uint64_t rung() const { return rung_; }

  struct Awaiter {
    ChangeBell& bell;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) const { bell.waiting_.push_back(handle); }
    void await_resume() const {}
  };
  /// co_await bell.next(): until it rings again; for ever where it does not.
  Awaiter next() { return {*this}; }

 private:
  engine::Engine& engine_;
  std::uint64_t rung_ = 0;
  std::vector<std::coroutine_handle<>> waiting_;
};

/// The looks of one process at the cluster, every `step` seconds, of which those are left out before which
/// nothing has changed. It finds at each look what it would find if it looked each time, but where a change
/// comes at the very instant of a look: which is first is then not said.
class SteppedLooks {
 public:
  SteppedLooks(ChangeBell& bell, double step) : bell_(bell), step_(step) {}

  /// Whether something has changed since the last look.
  bool has_changed() { return std::exchange(seen_, bell_.rung()) != bell_.rung(); }
  /// When the next look is, seconds: the first of `last` + step, `last` + 2 steps, ... that is not before
  /// `now`.
  double next_after(double last, double now) const {
    // One by one, as looks come: their sums' roundings are theirs. Many are counted at once.
    constexpr double kOneByOne = 1e5;
    if ((now - last) / step_ > kOneByOne)
      return std::max(now, last + std::ceil((now - last) / step_) * step_);
    double at = last + step_;
    while (at < now) {
      const double next = at + step_;
      if (!(next > at)) return now;  // a step that time is too coarse for
      at = next;
    }
    return at;
  }

 private:
  ChangeBell& bell_;
  double step_;
  std::uint64_t seen_ = ~std::uint64_t{0};
};

}  // namespace moelab
