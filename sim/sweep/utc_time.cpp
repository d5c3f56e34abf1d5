#include "sim/sweep/utc_time.hpp"

#include <ctime>

namespace moelab {

std::string utc_now(std::int64_t seconds_later) {
  const std::time_t now = std::time(nullptr) + static_cast<std::time_t>(seconds_later);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace moelab
