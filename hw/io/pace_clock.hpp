// The clock of a paced reader; tests bring one of their own.
#pragma once

#include <chrono>

namespace moelab {

class PaceClock {
 public:
  using Time = std::chrono::nanoseconds;  // since whenever, never falling
  virtual ~PaceClock() = default;
  virtual Time now() = 0;
  /// Returns at `time`, or at once if that is past.
  virtual void wait_until(Time time) = 0;
};

/// The machine's steady clock. Waiting sleeps until shortly before and spins for the rest, because a sleep
/// ends when the system gets round to it.
class SteadyPaceClock final : public PaceClock {
 public:
  static constexpr Time kSpin = std::chrono::microseconds(50);
  Time now() override;
  void wait_until(Time time) override;
};

}  // namespace moelab
