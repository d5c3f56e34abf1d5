#include "hw/bench/bench_parameters.hpp"

#include <algorithm>
#include <stdexcept>

namespace moelab {

const BenchParameters::Value* BenchParameters::find(std::string_view name) const {
  const auto found = std::ranges::find(values_, name, [](const auto& value) { return value.first; });
  return found == values_.end() ? nullptr : &found->second;
}

std::uint64_t BenchParameters::number(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr) throw std::out_of_range("no parameter " + std::string(name));
  return std::get<std::uint64_t>(*value);
}

const std::string& BenchParameters::text(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr) throw std::out_of_range("no parameter " + std::string(name));
  return std::get<std::string>(*value);
}

bool BenchParameters::include(const BenchParameters& others) const {
  return std::ranges::all_of(others.values_, [&](const auto& other) {
    const Value* value = find(other.first);
    return value != nullptr && *value == other.second;
  });
}

std::string to_string(const BenchParameters& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters.all()) {
    text += (text.empty() ? "" : " ") + name + "=";
    const auto* number = std::get_if<std::uint64_t>(&value);
    text += number != nullptr ? std::to_string(*number) : std::get<std::string>(value);
  }
  return text;
}

}  // namespace moelab
