// The requests of a load curve's runs, a line each.
#include <algorithm>
#include <sstream>

#include "cli/commands.hpp"
#include "cli/load_report.hpp"
#include "models/json.hpp"
#include "models/lower_case.hpp"
#include "sim/results/request_file.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Calls `add` with the record of each request: its system, the rate of its run, and what the run has of it.
template <class Add>
void each_load_record(const LoadReport& r, const Add& add) {
  for (const LoadPoint& point : r.points)
    for (const LoadSample& sample : point.samples) {
      std::istringstream lines(sample.records);
      for (std::string line; std::getline(lines, line);) {
        const Json of_run = Json::parse(line);
        Json record = {{"system", of_run["system"]}, {"rate_per_s", point.rate}};
        for (const auto& [key, value] : of_run.items()) record[key] = value;
        add(record);
      }
    }
}

/// Those that every request has, and then, in the order in which they come up, those of some systems.
std::vector<std::string> record_columns(const LoadReport& r) {
  std::vector<std::string> columns{"system", "rate_per_s"};
  std::string header = requests_csv({});
  header.pop_back();  // the end of the line
  for (const std::string& column : parts_between_commas(header))
    if (column != columns.front()) columns.push_back(column);
  each_load_record(r, [&](const Json& record) {
    for (const auto& [key, value] : record.items())
      if (std::ranges::find(columns, key) == columns.end()) columns.push_back(key);
  });
  return columns;
}

std::string records_csv(const LoadReport& r) {
  const std::vector<std::string> columns = record_columns(r);
  std::string text;
  for (const std::string& column : columns) text += (text.empty() ? "" : ",") + column;
  text += "\n";
  each_load_record(r, [&](const Json& record) {
    const char* comma = "";
    for (const std::string& column : columns) {
      text += comma + (record.contains(column) ? csv_cell_of(record[column]) : "");
      comma = ",";
    }
    text += "\n";
  });
  return text;
}

}  // namespace

std::string load_records(const LoadReport& r, const std::string& path) {
  if (lower_case(path).ends_with(".csv")) return records_csv(r);
  std::string text;
  each_load_record(r, [&](const Json& record) { text += record.dump() + "\n"; });
  return text;
}

}  // namespace moelab::cli
