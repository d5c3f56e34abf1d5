// Records of many machines as one table.
#pragma once

#include <span>
#include <string>

#include "hw/validate/machine_record.hpp"
#include "sim/results/text_report.hpp"

namespace moelab {

/// For each machine (processor, cores, memory, kernel and what there is more of it) a heading and a table
/// with a row for each group of its records: machines by name, rows by scenario, storage, day, codec and
/// threads. Ends with what the columns mean. Not empty.
std::string machine_records_report(std::span<const MachineRecord> records, const TextForm& form);

}  // namespace moelab
