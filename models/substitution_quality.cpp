#include "models/substitution_quality.hpp"

#include <algorithm>
#include <functional>

#include "models/config_store.hpp"
#include "models/yaml_reader.hpp"

namespace moelab {
namespace {

struct Row {
  std::string dataset;
  std::vector<double> accuracy;  // [alphas], percent
};
struct ModelRows {
  std::string model;
  std::vector<Row> rows;
};
struct Table {
  std::string source;
  std::vector<double> alphas;  // rising
  std::vector<ModelRows> models;
};

std::vector<double> read_numbers(const YamlMap& map, std::string_view key, Range<double> range) {
  std::vector<double> numbers;
  for (const YamlNode& node : map.list(key)) numbers.push_back(node.number("", range));
  return numbers;
}

ModelRows read_model(const YamlNode& node, std::size_t columns) {
  const YamlMap map = node.map("rows of a model");
  ModelRows model{map.text("model"), {}};
  const YamlMap accuracy = map.map("accuracy");
  for (const std::string& dataset : accuracy.keys()) {
    model.rows.push_back({dataset, read_numbers(accuracy, dataset, {0, 100})});
    if (model.rows.back().accuracy.size() != columns)
      accuracy.fail(dataset, "expected one accuracy for each of the " + std::to_string(columns) + " alphas");
  }
  accuracy.done();
  map.done();
  return model;
}

Table read_table() {
  const ConfigText file = find_config("quality", "smoe-substitution");
  Problems problems;
  const YamlDocument document = YamlDocument::from_text(file.name, file.text, problems);
  const YamlMap root = document.root();
  (void)root.text("name"), (void)root.text("title");
  Table table{root.text("source"), read_numbers(root, "alphas", {0, 1}), {}};
  if (table.alphas.empty() || std::adjacent_find(table.alphas.begin(), table.alphas.end(),
                                                 std::greater_equal<>()) != table.alphas.end())
    root.fail("alphas", "expected rising numbers, one at least");
  for (const YamlNode& node : root.list("models"))
    table.models.push_back(read_model(node, table.alphas.size()));
  root.done();
  problems.throw_if_any();
  return table;
}

}  // namespace

std::optional<ExpectedAccuracy> accuracy_after_substitution(std::string_view model, double alpha) {
  static const Table table = read_table();
  const std::vector<double>& alphas = table.alphas;
  const auto rows = std::find_if(table.models.begin(), table.models.end(),
                                 [&](const ModelRows& m) { return m.model == model; });
  if (rows == table.models.end() || !(alpha >= alphas.front() && alpha <= alphas.back())) return std::nullopt;
  const auto right =
      static_cast<std::size_t>(std::lower_bound(alphas.begin(), alphas.end(), alpha) - alphas.begin());
  const std::size_t left = right == 0 ? 0 : right - 1;
  const double part = right == left ? 0 : (alpha - alphas[left]) / (alphas[right] - alphas[left]);
  ExpectedAccuracy expected{table.source, {}};
  for (const Row& row : rows->rows)
    expected.datasets.push_back(
        {row.dataset, row.accuracy.front(), (1 - part) * row.accuracy[left] + part * row.accuracy[right]});
  return expected;
}

}  // namespace moelab
