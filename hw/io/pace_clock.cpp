#include "hw/io/pace_clock.hpp"

#include <sys/prctl.h>

#include <thread>

namespace moelab {

namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/// The system may let a thread sleep 50 us longer than it asked for, to save wake-ups; not this one.
void sleep_exactly() {
  thread_local const int done = ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  static_cast<void>(done);  // where it is refused, sleeps are longer: kSpin is there for that
}

}  // namespace

PaceClock::Time SteadyPaceClock::now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

void SteadyPaceClock::wait_until(Time time) {
  const Time ahead = time - now();
  if (ahead > kSpin) {
    sleep_exactly();
    std::this_thread::sleep_for(ahead - kSpin);
  }
  while (now() < time) relax();
}

}  // namespace moelab
