// What `moelab compare` prints.
#pragma once

#include <string>

#include "sim/sweep/cache_comparison.hpp"

namespace moelab::cli {

/// The answer in a sentence or two for each budget, then a table of each.
std::string compare_table(const CacheComparison& comparison);
/// A line for each budget, policy and seed that was run, in SI units.
std::string compare_csv(const CacheComparison& comparison);

}  // namespace moelab::cli
