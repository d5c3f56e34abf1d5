// Which policies of a family are compared: by names with parameters ("lru-k:k=3"), or all.
#pragma once

#include <string>
#include <vector>

#include "sim/sweep/compared_family.hpp"
#include "sim/sweep/policy_comparison.hpp"

namespace moelab {

/// Those named, or all of the family, and the family's bound. `own`: the system's. Throws InputError, which
/// names the family's option, for what is no policy (with the nearest one), has no such parameter, or is
/// twice there.
std::vector<ComparedPolicy> policies_to_run(const ComparedFamily& family,
                                            const std::vector<std::string>& named, const PolicyChoice& own);

/// One of the family, "lru-k:k=3", with its own defaults. Throws InputError, without a place, for what is no
/// policy (with the nearest one) or has no such parameter.
ComparedPolicy read_policy(const ComparedFamily& family, const std::string& text);

}  // namespace moelab
