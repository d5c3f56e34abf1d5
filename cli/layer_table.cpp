#include "cli/layer_table.hpp"

#include <algorithm>
#include <cstdio>

#include "models/json.hpp"

namespace moelab::cli {
namespace {

std::string aligned(const std::string& text, const std::string& column) {
  const std::size_t width = std::max<std::size_t>(5, column.size());
  return std::string(width + 1 - std::min(width, text.size()), ' ') + text;
}

}  // namespace

std::string layer_cell(double value, const char* form, const std::string& column) {
  char text[32] = "-";
  if (std::isfinite(value)) std::snprintf(text, sizeof text, form, value);
  return aligned(text, column);
}

std::string layer_heading(const std::string& column) {
  return aligned(column, column);
}

nlohmann::ordered_json json_number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

nlohmann::ordered_json json_numbers(const std::vector<double>& values) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const double value : values) all.push_back(json_number(value));
  return all;
}

std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string one_line(std::string text) {
  const auto control = [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; };
  std::replace_if(text.begin(), text.end(), control, '?');
  return text;
}

}  // namespace moelab::cli
