// What time it is, as files record it.
#pragma once

#include <string>

namespace moelab {

/// "2026-11-30T12:00:00Z".
std::string utc_now();

}  // namespace moelab
