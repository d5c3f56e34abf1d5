// What `moelab compare` prints.
#pragma once

#include <string>

#include "sim/results/text_report.hpp"
#include "sim/sweep/policy_comparison.hpp"

namespace moelab::cli {

/// What a block's routing is called: its trace, "law NAME", or "" where it is the scenario's own.
std::string routing_name(const ComparedBlock& block);
/// Whether hits say anything of the block's policies: caches, or others under which they differ.
bool hits_differ(const PolicyComparison& comparison, const ComparedBlock& block);

/// The answer in a sentence or two for each block, then a table of each; of several also which policy is the
/// best over all.
std::string compare_table(const PolicyComparison& comparison, TextForm form = {});
/// A line for each block, policy and seed that was run, in SI units.
std::string compare_csv(const PolicyComparison& comparison);

}  // namespace moelab::cli
