// A comparison of policies for programs, as JSON.
#pragma once

#include <string>

#include "sim/sweep/cache_comparison.hpp"

namespace moelab {

/// All in SI units, each seed's values too. Bytes that are no UTF-8 are replaced.
std::string compare_json(const CacheComparison& comparison);

}  // namespace moelab
