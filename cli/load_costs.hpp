// Of `moelab load`: what a token takes of machine and mains at each rate.
#pragma once

#include <span>
#include <string>

#include "cli/load_report.hpp"

namespace moelab::cli {

/// A row for each system and rate of which something is known, means over seeds, and what the columns are;
/// nothing where there is none.
void add_load_costs(const LoadReport& load, TextReport& report);

/// "; 0.39 kWh (estimate) and 0.88 USD a million output tokens", means over runs; "" where neither is known
/// of each.
std::string cost_text(std::span<const LoadSample> samples);

}  // namespace moelab::cli
