#include "hw/bench/bench_team.hpp"

#include <atomic>
#include <barrier>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace moelab {

namespace {

class Team {
 public:
  Team(std::size_t timed, std::size_t threads, std::size_t operations)
      : operations_(operations), left_(timed), start_(static_cast<std::ptrdiff_t>(threads)) {}

  double timed(const BenchWork& work) {
    start_.arrive_and_wait();
    double seconds = 0;
    guard([&] {
      const double begin = seconds_now();
      for (std::size_t i = 0; i < operations_ && !failed_.load(std::memory_order_relaxed); ++i) work();
      seconds = seconds_now() - begin;
    });
    left_.fetch_sub(1);
    go_on(work);
    return seconds;
  }

  void beside(const BenchWork& work) {
    start_.arrive_and_wait();
    go_on(work);
  }

  /// A thread that could not be had: no other thread is to wait for it, or for anything.
  void abandon() {
    failed_.store(true);
    start_.arrive_and_drop();
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void go_on(const BenchWork& work) {
    guard([&] {
      while (left_.load() > 0 && !failed_.load()) work();
    });
  }

  template <class Part>
  void guard(const Part& part) {
    try {
      part();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      failed_.store(true);
    }
  }

  const std::size_t operations_;
  std::atomic<std::size_t> left_;  // timed threads that are not through
  std::atomic<bool> failed_{false};
  std::barrier<> start_;
  std::mutex mutex_;  // of what follows
  std::exception_ptr error_;
};

}  // namespace

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double team_seconds(std::span<const BenchWork> timed, std::span<const BenchWork> beside,
                    std::size_t operations) {
  Team team(timed.size(), timed.size() + beside.size(), operations);
  std::vector<double> seconds(timed.size());
  if (timed.size() == 1 && beside.empty()) {
    seconds[0] = team.timed(timed[0]);
  } else {
    std::vector<std::jthread> threads;
    try {
      for (std::size_t i = 0; i < timed.size(); ++i)
        threads.emplace_back([&, i] { seconds[i] = team.timed(timed[i]); });
      for (const BenchWork& work : beside) threads.emplace_back([&] { team.beside(work); });
    } catch (...) {
      for (std::size_t i = threads.size(); i < timed.size() + beside.size(); ++i) team.abandon();
      throw;
    }
  }
  team.rethrow();
  double sum = 0;
  for (const double one : seconds) sum += one;
  return sum / static_cast<double>(timed.size());
}

}  // namespace moelab
