// A comparison of policies for programs, as JSON.
#pragma once

#include <string>

#include "sim/sweep/policy_comparison.hpp"

namespace moelab {

/// All in SI units, each seed's values too. "budgets" has an object for each block, with "trace" or "law"
/// where one was asked for. With several blocks "overall" has, by rank, each policy's mean rank, in how many
/// it is the best ("best_in"), and in how many more it cannot be told from the best ("level_in"). Bytes that
/// are no UTF-8 are replaced.
std::string compare_json(const PolicyComparison& comparison);

}  // namespace moelab
