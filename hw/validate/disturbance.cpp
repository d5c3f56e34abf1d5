#include "hw/validate/disturbance.hpp"

#include <algorithm>

#include "sim/results/text_table.hpp"

namespace moelab {

namespace {

// Choices, no measurements: what a point is marked by.
constexpr double kShortest = 0.2;      // seconds: twenty ticks of the processors' clock
constexpr double kOthersCores = 0.1;   // other programs take more: their share of a run's time is an error
constexpr double kSpareCores = 1;      // with a core idle on average, what others took was in nothing's way
constexpr double kSpeedChange = 1.25;  // between two bursts of probes around a run

}  // namespace

void Disturbance::add(const Disturbance& run) {
  watched += run.watched;
  others += run.others;
  idle += run.idle;
  speed_change = std::max(speed_change, run.speed_change);
}

std::optional<double> Disturbance::others_cores() const {
  if (watched < kShortest) return {};
  return others / watched;
}

std::string Disturbance::too_noisy() const {
  std::string why;
  if (const std::optional<double> cores = others_cores();
      cores && *cores > kOthersCores && idle / watched < kSpareCores)
    why = "other programs took " + fixed(*cores, 1) + " cores and left " + fixed(idle / watched, 1) + " idle";
  if (speed_change > kSpeedChange)
    why += (why.empty() ? "" : ", and ") + std::string("the CPU's speed changed by a factor of ") +
           fixed(speed_change, 2) + " during a run";
  return why;
}

Disturbance disturbance_between(const std::optional<ProcessorTime>& begin,
                                const std::optional<ProcessorTime>& end, double seconds) {
  Disturbance found;
  if (!begin || !end) return found;
  found.watched = seconds;
  // The two clocks tick at different moments: a run alone may seem to have taken more than there was.
  found.others = std::max(0.0, (end->busy - begin->busy) - (end->own - begin->own));
  found.idle = std::max(0.0, end->idle - begin->idle);
  return found;
}

}  // namespace moelab
