#include "sim/serving/lone_chain.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace moelab {

void LoneChain::add(engine::ResourceId resource, double seconds, Cause cause) {
  if (!(seconds <= engine::kLongest)) throw engine::TooLong(seconds);
  if (engine_.is_free(resource)) seconds = 0;
  const double end = outcome_.seconds + seconds, took = end - std::exchange(outcome_.seconds, end);
  ++outcome_.operations;
  parts_.push_back({cause, took});
  const auto used = outcome_.busy.begin() + static_cast<std::ptrdiff_t>(outcome_.lanes);
  const auto busy = std::find_if(outcome_.busy.begin(), used,
                                 [resource](const auto& lane) { return lane.resource == resource; });
  if (busy != used) {
    busy->seconds += took;
    return;
  }
  if (outcome_.lanes == engine::Outcome::kMostLanes) throw std::logic_error("a chain of too many resources");
  outcome_.busy[outcome_.lanes++] = {resource, took};
}

// From the last one back, as critical_path() goes.
std::array<double, kCauses> LoneChain::run() {
  std::array<double, kCauses> by_cause{};
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part)
    by_cause[static_cast<std::size_t>(part->cause)] += part->seconds;
  engine_.skip(outcome_);
  outcome_.seconds = 0;
  outcome_.operations = outcome_.lanes = 0;
  parts_.clear();
  return by_cause;
}

}  // namespace moelab
