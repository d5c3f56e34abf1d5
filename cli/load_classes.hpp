// Of `moelab load`: what the requests of each class meet.
#pragma once

#include "cli/load_report.hpp"
#include "sim/results/text_table.hpp"

namespace moelab::cli {

/// A row for each system, rate and class below its head: means over seeds of what was served a second, of
/// latencies and, with a level, of the share of the class's requests within the level's limits for it. The
/// head alone where the workload has no classes.
TextTable load_class_table(const LoadReport& report);

}  // namespace moelab::cli
