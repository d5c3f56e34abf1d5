// What time it is, as files record it.
#pragma once

#include <cstdint>
#include <string>

namespace moelab {

/// "2026-11-30T12:00:00Z", so many seconds from now.
std::string utc_now(std::int64_t seconds_later = 0);

}  // namespace moelab
