// Operations handed to threads that wait for them: what a hand-over takes, one way.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <thread>

namespace moelab {

/// Seconds that a thread has waited before an operation whose hand-over counts as one to a thread that sleeps
/// (cpu.dispatch). A core that has nothing to do for a while halts, and is dear to wake: most hand-overs of a
/// server that waits for storage are of this kind.
inline constexpr double kHandoffIdle = 300e-6;

class HandoffTeam {
 public:
  /// They wait on a condition variable, or with `spin` awake.
  HandoffTeam(unsigned threads, bool spin);
  ~HandoffTeam();
  HandoffTeam(const HandoffTeam&) = delete;
  HandoffTeam& operator=(const HandoffTeam&) = delete;

  /// Lets the threads wait for `idle` seconds more, awake itself, and hands an operation to each, all at a
  /// time. Returns the seconds until a thread has begun with it, in the mean of the threads; of the very
  /// first time they may be those that a thread takes to begin.
  double hand_over(double idle);
  /// Of each thread, the sum: operations that it has begun with.
  std::uint64_t handled() const;

 private:
  class Signal;
  class ConditionSignal;
  class SpinSignal;
  struct Partner;

  static std::unique_ptr<Signal> make_signal(bool spin);
  void work(Partner& partner) const;
  void close();

  std::deque<Partner> partners_;
  std::uint64_t handed_ = 0;  // to each
  bool closed_ = false;       // read by a thread after the signal that follows it
};

}  // namespace moelab
