// Handing things from thread to thread: who waits stays awake for a while, then sleeps.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace moelab {

/// Any number of threads give, one takes.
template <class T>
class HandOff {
 public:
  using Clock = std::chrono::steady_clock;

  void give(T item) {
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(std::move(item));
      news_.store(true, std::memory_order_release);
    }
    given_.notify_one();
  }
  /// Nothing more will be given.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      news_.store(true, std::memory_order_release);
    }
    given_.notify_one();
  }

  /// Moves what was given into `into`, in its order. Waits until there is something, until `deadline` (max():
  /// for ever) or until it is closed: for `spin` awake, which costs a core, then asleep, which costs the time
  /// it takes to be woken. False once it is closed and nothing is left.
  bool take(std::vector<T>& into, Clock::duration spin, Clock::time_point deadline) {
    into.clear();
    if (spin.count() > 0) stay_awake(std::min(deadline, Clock::now() + spin));
    std::unique_lock lock(mutex_);
    const auto is_over = [this] { return !items_.empty() || closed_; };
    if (deadline == Clock::time_point::max())
      given_.wait(lock, is_over);
    else
      given_.wait_until(lock, deadline, is_over);
    into.swap(items_);
    news_.store(closed_, std::memory_order_relaxed);
    return !into.empty() || !closed_;
  }

 private:
  void stay_awake(Clock::time_point until) const {
    while (!news_.load(std::memory_order_acquire) && Clock::now() < until) relax();
  }
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
  }

  std::mutex mutex_;
  std::condition_variable given_;
  std::vector<T> items_;
  bool closed_ = false;
  std::atomic<bool> news_ = false;  // what stay_awake() looks at without the mutex
};

}  // namespace moelab
