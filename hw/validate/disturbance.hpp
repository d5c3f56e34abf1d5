// What else the machine did while runs were timed, and whether their times can be compared with anything.
#pragma once

#include <optional>
#include <string>

#include "hw/io/processor_time.hpp"

namespace moelab {

/// Of one timed run, or of several added.
struct Disturbance {
  double watched = 0;       // seconds of runs in which processors were watched
  double others = 0;        // seconds of processors that other programs took meanwhile
  double idle = 0;          // seconds of processors that had nothing to do
  double speed_change = 1;  // the largest factor, of either direction, between the CPU before and after a run

  void add(const Disturbance& run);
  /// Cores that other programs took, on average. Nothing where runs were too short for the system's clock of
  /// processors to tell, or where there is none.
  std::optional<double> others_cores() const;
  /// Why times of these runs are too noisy to say anything: a clause such as "other programs took 0.9 cores
  /// and left 0.0 idle". Empty where they are not.
  std::string too_noisy() const;
};

/// Of a run of so many seconds between two looks at the processors.
Disturbance disturbance_between(const std::optional<ProcessorTime>& begin,
                                const std::optional<ProcessorTime>& end, double seconds);

}  // namespace moelab
