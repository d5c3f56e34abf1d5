#include "sim/serving/arrival_times.hpp"

#include <algorithm>
#include <cmath>

#include "traces/law/normal.hpp"
#include "traces/portable_math.hpp"

namespace moelab {
namespace {

constexpr std::uint64_t kArrivalSeedOffset = 0x6a09e667f3bcc909;

/// Uniform in (0, 1].
double above_zero(Random& random) {
  return 1 - random.uniform();
}

}  // namespace

GammaGaps::GammaGaps(double shape)
    : shape_(shape), d_((shape < 1 ? shape + 1 : shape) - 1.0 / 3), c_(1 / std::sqrt(9 * d_)) {}

double GammaGaps::draw(Random& random) const {
  for (;;) {
    const double x = Normal::instance().draw(random), root = 1 + c_ * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (portable_log(above_zero(random)) >= 0.5 * x * x + d_ - d_ * v + d_ * portable_log(v)) continue;
    if (shape_ >= 1) return d_ * v / shape_;
    return d_ * v * portable_exp(portable_log(above_zero(random)) / shape_) / shape_;
  }
}

double time_on_ramp(const ArrivalsConfig::Ramp& ramp, double expected) {
  const double within = (ramp.from + ramp.to) / 2 * ramp.over_s;
  if (expected >= within) return ramp.over_s + (expected - within) / ramp.to;
  // from t + (to - from) / (2 over) t^2 = expected, in the form that cancels nothing.
  const double slope = (ramp.to - ramp.from) / ramp.over_s;
  return 2 * expected / (ramp.from + std::sqrt(std::max(0.0, ramp.from * ramp.from + 2 * slope * expected)));
}

ArrivalTimes::ArrivalTimes(const ArrivalsConfig& config, double rate, std::uint64_t seed)
    : config_(config),
      rate_(config.ramp ? 1 : rate),
      random_(seed + kArrivalSeedOffset),
      gamma_(config.burstiness) {}

double ArrivalTimes::next() {
  ++drawn_;
  switch (config_.process) {
    case ArrivalsConfig::Process::poisson:
      now_ -= portable_log(1 - random_.uniform()) / rate_;
      break;
    case ArrivalsConfig::Process::gamma:
      now_ += gamma_.draw(random_) / rate_;
      break;
    case ArrivalsConfig::Process::fixed:
      now_ = static_cast<double>(drawn_) / rate_;
      break;
  }
  return config_.ramp ? time_on_ramp(*config_.ramp, now_) : now_;
}

}  // namespace moelab
