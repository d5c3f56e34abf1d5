// When requests come: points of a renewal process with a mean rate.
#pragma once

#include <cstdint>

#include "sim/scenario/workload_config.hpp"
#include "traces/random.hpp"

namespace moelab {

/// Gamma numbers of a shape, with mean 1, the same on every machine (Marsaglia and Tsang, "A simple method
/// for generating gamma variables", ACM TOMS 26(3), 2000; below shape 1 by its section 6).
class GammaGaps {
 public:
  /// `shape` above 0.
  explicit GammaGaps(double shape);
  double draw(Random& random) const;

 private:
  double shape_, d_, c_;
};

/// When the rate has gone so far that `expected` requests are expected to have come, in seconds: the integral
/// of the rate up to then. `over_s` of the ramp above 0.
double time_on_ramp(const ArrivalsConfig::Ramp& ramp, double expected);

/// Arrivals one after another: with gaps of mean 1 / rate that are exponential (a Poisson process), gamma
/// with shape `burstiness` (as in vLLM's benchmark: a squared coefficient of variation of 1 / burstiness), or
/// all the same. With a ramp, a unit of time of these gaps is one expected request of the rate that there is
/// then.
class ArrivalTimes {
 public:
  /// `rate`: requests a second, above 0. Of a ramp it is not read, and its time `over_s` is above 0.
  ArrivalTimes(const ArrivalsConfig& config, double rate, std::uint64_t seed);
  /// Of the next request, in seconds.
  double next();

 private:
  ArrivalsConfig config_;
  double rate_;
  Random random_;
  GammaGaps gamma_;
  double now_ = 0;
  std::uint64_t drawn_ = 0;
};

}  // namespace moelab
