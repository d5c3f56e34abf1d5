// An operation handed to a thread that waits for it, by condition variable and by spinning: the time from
// handing over until the thread has begun with it.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "hw/bench/bench_team.hpp"
#include "hw/bench/bench_workspace.hpp"

namespace moelab {

namespace {

/// A number that one side sets and the other waits for.
class Signal {
 public:
  virtual ~Signal() = default;
  virtual void set(std::uint64_t value) = 0;
  virtual void wait_for(std::uint64_t value) = 0;
};

class ConditionSignal final : public Signal {
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
class SpinSignal final : public Signal {
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

std::unique_ptr<Signal> make_signal(bool spin) {
  if (spin) return std::make_unique<SpinSignal>();
  return std::make_unique<ConditionSignal>();
}

/// A worker with its operations in and completions out.
struct Partner {
  explicit Partner(bool spin) : there(make_signal(spin)), back(make_signal(spin)) {}
  std::unique_ptr<Signal> there, back;
  double begun = 0;  // when it began with the latest operation
  std::uint64_t handled = 0;
};

struct Kind {
  bool spin;
  unsigned threads;
  double idle;  // seconds that workers have waited before each operation
};

// A core that has nothing to do for a while halts, and is dear to wake: most hand-offs of a server that waits
// for storage are of this kind.
constexpr double kIdle = 300e-6;
constexpr Kind kKinds[] = {{false, 1, 0},     {false, 2, 0}, {false, 1, kIdle},
                           {false, 2, kIdle}, {true, 1, 0},  {true, 2, 0}};

/// Hands `operations` to each partner, all at a time, and waits for all of them each time. Returns the sum
/// over the operations of the time until a partner has begun, in the mean of the partners.
double hand_over(std::vector<Partner>& partners, std::uint64_t operations, double idle) {
  std::vector<std::jthread> threads;
  for (Partner& partner : partners) {
    threads.emplace_back([&partner, operations] {
      for (std::uint64_t i = 1; i <= operations; ++i) {
        partner.there->wait_for(i);
        partner.begun = seconds_now();
        ++partner.handled;
        partner.back->set(i);
      }
    });
  }
  double sum = 0;
  for (std::uint64_t i = 1; i <= operations; ++i) {
    for (const double until = seconds_now() + idle; seconds_now() < until;) {
    }
    const double given = seconds_now();
    for (Partner& partner : partners) partner.there->set(i);
    for (Partner& partner : partners) {
      partner.back->wait_for(i);
      if (i > 1) sum += partner.begun - given;  // the first may have waited for its thread to begin
    }
  }
  return sum / static_cast<double>(partners.size());
}

class HandoffCase final : public BenchCase {
 public:
  explicit HandoffCase(BenchWorkspace& workspace) : workspace_(workspace) {}

  std::vector<BenchPoint> points() const override {
    std::vector<BenchPoint> points;
    for (const auto& [spin, threads, idle] : kKinds) {
      BenchPoint point{{{"kind", spin ? "spin" : "condition_variable"},
                        {"threads", std::uint64_t{threads}},
                        {"idle_us", static_cast<std::uint64_t>(idle * 1e6 + 0.5)}}};
      if (spin && threads >= workspace_.cores())
        point.skip = "spinning threads and the one that hands over need " + std::to_string(threads + 1) +
                     " cores, there are " + std::to_string(workspace_.cores());
      points.push_back(std::move(point));
    }
    return points;
  }

  std::string check(std::size_t point) override {
    std::vector<Partner> partners = partners_of(point);
    hand_over(partners, 100, kKinds[point].idle);
    for (const Partner& partner : partners)
      if (partner.handled != 100) return "operations were lost";
    return {};
  }

  double run(std::size_t point, std::size_t operations) override {
    std::vector<Partner> partners = partners_of(point);
    return hand_over(partners, operations + 1, kKinds[point].idle);
  }

 private:
  static std::vector<Partner> partners_of(std::size_t point) {
    std::vector<Partner> partners;
    for (unsigned i = 0; i < kKinds[point].threads; ++i) partners.emplace_back(kKinds[point].spin);
    return partners;
  }

  BenchWorkspace& workspace_;
};

}  // namespace

BenchRow handoff_case() {
  return {.name = "handoff",
          .help = "An operation handed to a waiting thread, until it begins",
          .parameters =
              "kind (condition_variable, spin), threads (handed to at a time), idle_us (that "
              "they have waited: cores with nothing to do are dear to wake)",
          .make = [](BenchWorkspace& workspace) -> std::unique_ptr<BenchCase> {
            return std::make_unique<HandoffCase>(workspace);
          }};
}

}  // namespace moelab
