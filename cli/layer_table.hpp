// A table with a row for each layer and one for their mean, and what else prints figures of layers.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/plot/svg_chart.hpp"

namespace moelab::cli {

/// A column: a figure of a layer, NaN where it is not known.
template <class Layer>
struct LayerColumn {
  std::string name;
  const char* form;  // of printf, for a double
  std::function<double(const Layer&)> of;
};

/// Mean of a figure over the layers for which it is known; NaN: none.
template <class Layer, class Figure>
double mean_over_layers(const std::vector<Layer>& layers, const Figure& figure) {
  double sum = 0, known = 0;
  for (const Layer& layer : layers)
    if (const double value = figure(layer); std::isfinite(value)) sum += value, ++known;
  return known > 0 ? sum / known : std::numeric_limits<double>::quiet_NaN();
}

/// The figure over the layers' numbers.
template <class Layer, class Figure>
plot::Series over_layers(const std::vector<Layer>& layers, const std::string& name, const Figure& figure) {
  plot::Series series;
  series.name = name;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    series.x.push_back(static_cast<double>(l));
    series.y.push_back(figure(layers[l]));
  }
  return series;
}

/// How often each expert of each layer is used, in multiples of the mean; white where a layer is not used.
template <class Layer>
plot::Panel popularity_panel(const std::vector<Layer>& layers) {
  plot::HeatMap map{.rows = layers.size(), .columns = layers.front().uses.size()};
  for (const Layer& layer : layers) {
    double all = 0;
    for (const auto uses : layer.uses) all += static_cast<double>(uses);
    for (const auto uses : layer.uses)
      map.values.push_back(static_cast<double>(uses) * static_cast<double>(map.columns) / all);
  }
  map.colour = {.label = "uses, times the mean"};
  return {.title = "Popularity",
          .x = {.label = "expert", .integers = true},
          .y = {.label = "MoE layer", .integers = true},
          .heat_map = map};
}

/// The value, or "-", right-aligned under a column's name.
std::string layer_cell(double value, const char* form, const std::string& column);
/// The column's name, as wide as its cells.
std::string layer_heading(const std::string& column);

/// The whole table. `amount` is the name of the column beside the layer's number, and what stands in it.
template <class Layer, class Amount>
std::string layer_table(const std::vector<Layer>& layers, const std::string& amount, const Amount& amount_of,
                        const std::vector<LayerColumn<Layer>>& columns) {
  constexpr std::size_t kAmountWidth = 12;
  const auto padded = [](const std::string& text, std::size_t width) {
    return std::string(width - std::min(width, text.size()), ' ') + text;
  };
  std::string text = "layer" + padded(amount, kAmountWidth);
  for (const auto& column : columns) text += layer_heading(column.name);
  text += "\n";
  for (std::size_t l = 0; l < layers.size(); ++l) {
    text += padded(std::to_string(l), 5) + padded(std::to_string(amount_of(layers[l])), kAmountWidth);
    for (const auto& column : columns) text += layer_cell(column.of(layers[l]), column.form, column.name);
    text += "\n";
  }
  text += " mean" + std::string(kAmountWidth, ' ');
  for (const auto& column : columns)
    text += layer_cell(mean_over_layers(layers, column.of), column.form, column.name);
  return text + "\n";
}

/// null where it is not known.
nlohmann::ordered_json json_number(double value);
nlohmann::ordered_json json_numbers(const std::vector<double>& values);
/// With bytes that are no UTF-8 replaced.
std::string json_text(const nlohmann::ordered_json& json);

/// A text from a file, for a line on a terminal: control characters as '?'.
std::string one_line(std::string text);

}  // namespace moelab::cli
