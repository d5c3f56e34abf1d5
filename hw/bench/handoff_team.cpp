#include "hw/bench/handoff_team.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "hw/bench/bench_team.hpp"

namespace moelab {

/// A number that one side sets and the other waits for.
class HandoffTeam::Signal {
 public:
  virtual ~Signal() = default;
  virtual void set(std::uint64_t value) = 0;
  virtual void wait_for(std::uint64_t value) = 0;
};

class HandoffTeam::ConditionSignal final : public Signal {
 public:
  void set(std::uint64_t value) override {
    {
      const std::lock_guard lock(mutex_);
      value_ = value;
    }
    changed_.notify_one();
  }
  void wait_for(std::uint64_t value) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return value_ == value; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t value_ = 0;
};

/// Spins for some microseconds; then it lets others have the core, in case it is the partner that waits for
/// it.
class HandoffTeam::SpinSignal final : public Signal {
 public:
  void set(std::uint64_t value) override { value_.store(value, std::memory_order_release); }
  void wait_for(std::uint64_t value) override {
    for (int spins = 0; value_.load(std::memory_order_acquire) != value; ++spins)
      if (spins >= kSpins) std::this_thread::yield();
  }

 private:
  static constexpr int kSpins = 10'000;
  alignas(64) std::atomic<std::uint64_t> value_{0};
};

/// A thread with its operations in and completions out.
struct HandoffTeam::Partner {
  explicit Partner(bool spin) : there(make_signal(spin)), back(make_signal(spin)) {}
  std::unique_ptr<Signal> there, back;
  double begun = 0;  // when it began with the latest operation
  std::uint64_t handled = 0;
  std::jthread thread;
};

std::unique_ptr<HandoffTeam::Signal> HandoffTeam::make_signal(bool spin) {
  if (spin) return std::make_unique<SpinSignal>();
  return std::make_unique<ConditionSignal>();
}

HandoffTeam::HandoffTeam(unsigned threads, bool spin) {
  try {
    for (unsigned i = 0; i < threads; ++i) {
      Partner& partner = partners_.emplace_back(spin);
      partner.thread = std::jthread([this, &partner] { work(partner); });
    }
  } catch (...) {
    close();  // those that there are wait, and would be waited for
    throw;
  }
}

HandoffTeam::~HandoffTeam() {
  close();
}

void HandoffTeam::close() {
  closed_ = true;
  for (Partner& partner : partners_) partner.there->set(handed_ + 1);
}

void HandoffTeam::work(Partner& partner) const {
  for (std::uint64_t next = 1;; ++next) {
    partner.there->wait_for(next);
    if (closed_) return;
    partner.begun = seconds_now();
    ++partner.handled;
    partner.back->set(next);
  }
}

double HandoffTeam::hand_over(double idle) {
  for (const double until = seconds_now() + idle; seconds_now() < until;) {
  }
  ++handed_;
  const double given = seconds_now();
  for (Partner& partner : partners_) partner.there->set(handed_);
  double sum = 0;
  for (Partner& partner : partners_) {
    partner.back->wait_for(handed_);
    sum += partner.begun - given;
  }
  return sum / static_cast<double>(partners_.size());
}

std::uint64_t HandoffTeam::handled() const {
  std::uint64_t sum = 0;
  for (const Partner& partner : partners_) sum += partner.handled;
  return sum;
}

}  // namespace moelab
