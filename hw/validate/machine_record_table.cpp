#include "hw/validate/machine_record_table.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "sim/results/text_table.hpp"

namespace moelab {
namespace {

using Cells = std::vector<std::string>;

std::string in_percent(double ratio) {
  return fixed(ratio * 100, 1) + " %";
}
std::string leaning(double bias) {
  return (bias >= 0 ? "+" : "") + in_percent(bias);
}

/// What tells machines apart here.
std::string heading_of(const RecordMachine& m) {
  std::string text = m.processor.empty() ? "A processor without a name" : m.processor;
  text += ": " + std::to_string(m.cores) + (m.cores == 1 ? " core" : " cores");
  if (m.memory) text += ", " + to_string(*m.memory);
  for (const std::string& part : {m.kernel, m.gpu, m.driver.empty() ? "" : "driver " + m.driver})
    if (!part.empty()) text += ", " + part;
  if (!m.governor.empty()) text += ", governor " + m.governor;
  return text;
}

std::string storage_cell(const MachineRecord& record) {
  const RecordWork& work = record.work;
  switch (work.storage) {
    case RecordStorage::paced:
      return "paced, " + to_string(work.pace->rate) + ", " + to_string(work.pace->latency);
    case RecordStorage::disk:
      return "disk" + (record.machine.filesystem.empty() ? "" : " (" + record.machine.filesystem + ")");
    case RecordStorage::stand_in:
      return "GPU played by the CPU";
    case RecordStorage::gpu:
      break;
  }
  return "GPU";
}

std::string error_cell(const RecordGroup& group, const std::optional<ErrorSummary>& error) {
  if (error) return in_percent(error->median) + " of " + std::to_string(error->count);
  return group.too_noisy == group.points ? "too noisy" : "-";
}

/// The kinds of operations that are most off in the median, three at most.
std::string operations_cell(const RecordGroup& group) {
  constexpr std::size_t kNamed = 3;
  std::vector<RecordOperation> sorted = group.operations;
  std::stable_sort(sorted.begin(), sorted.end(), [](const RecordOperation& a, const RecordOperation& b) {
    return std::abs(a.error.bias) > std::abs(b.error.bias);
  });
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, sorted.size()); ++i)
    text +=
        (i > 0 ? ", " : "") + std::string(to_string(sorted[i].kind)) + " " + leaning(sorted[i].error.bias);
  return text;
}

/// What else the machine did, and what that leaves of the row; empty where it was left alone.
std::string disturbed_cell(const MachineRecord& record, const RecordGroup& group) {
  std::string text;
  const auto add = [&](const std::string& clause) { text += (text.empty() ? "" : "; ") + clause; };
  if (!record.same_work) add("NOT THE SAME WORK");
  if (group.too_noisy > 0)
    add(std::to_string(group.too_noisy) + " of " + std::to_string(group.points) + " points too noisy");
  if (!record.work.own_profile) add("profile of another machine");
  return text;
}

std::string others_cell(const RecordLoad& load) {
  if (!load.others_mean) return "-";
  return fixed(*load.others_mean, 2) + " (" + fixed(*load.others_most, 2) + ")";
}

Cells row_of(const MachineRecord& record, const RecordGroup& group) {
  const RecordWork& work = record.work;
  const Ordering& order = group.ordering;
  return {work.scenario,
          storage_cell(record),
          group.codec.empty() ? "-" : group.codec,
          group.threads == 0 ? "-" : std::to_string(group.threads),
          error_cell(group, group.layers),
          group.layers ? leaning(group.layers->bias) : "-",
          error_cell(group, group.tpot),
          order.clear == 0 ? "-" : std::to_string(order.agreeing) + " of " + std::to_string(order.clear),
          operations_cell(group),
          others_cell(record.load),
          disturbed_cell(record, group),
          record.date,
          record.program.moelab + ", " + record.program.compiler};
}

auto key_of(const MachineRecord& record) {
  return std::tuple(record.work.scenario, record.work.storage, record.date);
}

using ByMachine = std::map<std::string, std::vector<const MachineRecord*>>;

ByMachine by_machine(std::span<const MachineRecord> records) {
  ByMachine all;
  for (const MachineRecord& record : records) all[heading_of(record.machine)].push_back(&record);
  for (auto& [heading, of_machine] : all)
    std::stable_sort(of_machine.begin(), of_machine.end(),
                     [](const MachineRecord* a, const MachineRecord* b) { return key_of(*a) < key_of(*b); });
  return all;
}

/// In the order of the file, which is that of codecs and threads.
TextTable table_of(const std::vector<const MachineRecord*>& records) {
  TextTable table{{{"scenario", "storage", "codec", "L", "layers off by", "bias", "TPOT off by", "order",
                    "operations most off", "others' cores (most)", "disturbed", "day", "moelab, compiler"}},
                  4};
  for (const MachineRecord* record : records)
    for (const RecordGroup& group : record->groups) table.rows.push_back(row_of(*record, group));
  return table;
}

constexpr const char* kLegend =
    "Off by: median of |predicted - measured| / measured, of so many layers of runs and of so many points "
    "(a system at a budget); bias: median with its sign, above 0 where the prediction is too slow; L: "
    "threads that decompress; order: pairs of systems predicted in the order in which they were measured, "
    "of those whose measured ranges are apart; operations most off: their bias; others' cores: what other "
    "programs took during runs, in the mean of points and at most. Points that were too noisy are in no "
    "error.\n";

}  // namespace

std::string machine_records_report(std::span<const MachineRecord> records, const TextForm& form) {
  TextReport report(form);
  for (const auto& [heading, of_machine] : by_machine(records)) {
    report.add_lines(heading + "\n");
    report.add_table(table_of(of_machine));
  }
  report.add_lines(kLegend);
  return report.text();
}

}  // namespace moelab
