// moelab metrics: what the figures of a result are.
#include <iostream>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/list_command.hpp"
#include "cli/metric_table.hpp"
#include "cli/wrapped_text.hpp"
#include "models/json.hpp"

namespace moelab::cli {
namespace {

void list_metrics(const ListOptions& options) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows{{"in JSON", "unit", "definition"}};
  for (const MetricRow& row : metric_table()) {
    all.push_back({{"path", row.path}, {"unit", row.unit}, {"definition", row.definition}});
    rows.push_back({std::string(row.path), std::string(row.unit), std::string(row.definition)});
  }
  std::cout << (options.format == "json" ? all.dump(2) + "\n" : wrapped_table(rows, output_width()));
}

}  // namespace

void add_metrics(CLI::App& program) {
  add_list(program, "metrics", "List the figures of a result: name in JSON, unit and definition",
           list_metrics);
}

}  // namespace moelab::cli
