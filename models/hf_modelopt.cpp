// quantization_config of quant_method modelopt, and hf_quant_config.json of older exports:
// github.com/NVIDIA/Model-Optimizer, torch/export/convert_hf_config.py (both forms of the file) and
// quant_utils.py (scales: 32-bit floats, or those of NVFP4 and MX); vLLM's modelopt.py (which layers names
// fit).
#include <algorithm>
#include <cctype>

#include "models/hf_quantization_plan.hpp"

namespace moelab::hf {
namespace {

constexpr const char* kNoAlgorithm = "is not there, so that nothing says how weights are stored";

/// A layer's format by its algorithm. Each matrix has a scale of its inputs too, 32 bits, where those are
/// converted to a fixed range.
std::optional<LinearFormat> algorithm_format(const HfMap& map, const std::string& algorithm) {
  LinearFormat f;
  const auto group = [&](int usual) { return map.integer("group_size", 1, 1'000'000).value_or(usual); };
  const auto grouped = [&](const std::string& name, int usual) {
    return group(usual) == usual ? name : name + "-g" + std::to_string(group(usual));
  };
  if (algorithm == "FP8") {
    f = {.name = "fp8", .bits = 8, .matrix_bytes = 8};
  } else if (algorithm == "FP8_PER_CHANNEL_PER_TOKEN") {
    f = {.name = "fp8", .bits = 8, .scale_bits = 32};
  } else if (algorithm == "FP8_PB_WO") {
    f = {.name = "fp8", .bits = 8, .scale_bits = 32, .block_rows = 128, .block_columns = 128};
  } else if (algorithm == "NVFP4" || algorithm == "W4A16_NVFP4" || algorithm == "W4A8_NVFP4_FP8") {
    f = {.name = grouped("nvfp4", 16), .bits = 4, .scale_bits = 8};
    f.block_columns = group(16);
    f.matrix_bytes = algorithm == "W4A16_NVFP4" ? 4 : 8;  // weight_scale_2, input_scale
  } else if (algorithm == "MXFP8") {
    f = {.name = grouped("mxfp8", 32), .bits = 8, .scale_bits = 8};
    f.block_columns = group(32);
  } else if (algorithm == "W4A8_MXFP4_FP8") {
    f = {.name = grouped("mxfp4", 32), .bits = 4, .scale_bits = 8};
    f.block_columns = group(32);
  } else if (algorithm == "W8A8_SQ_PER_CHANNEL") {
    f = {.name = "int8", .bits = 8, .scale_bits = 32, .matrix_bytes = 4};
  } else if (algorithm.empty()) {
    if (!map.has("quant_algo")) map.fail("quant_algo", kNoAlgorithm);
    return {};
  } else {
    map.fail("quant_algo", "'" + shown_word(algorithm) +
                               "' is not covered (known: FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO, NVFP4, "
                               "W4A16_NVFP4, W4A8_NVFP4_FP8, MXFP8, W4A8_MXFP4_FP8, W8A8_SQ_PER_CHANNEL; of "
                               "a whole model MIXED_PRECISION too). Remove it and say 'weights: NAME' in the "
                               "model file");
    return {};
  }
  return f;
}

std::string algorithm_of(const HfMap& map) {
  std::string text = map.text("quant_algo");
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

constexpr std::size_t kMostFormats = 64;  // that layers of one model have

/// "quantized_layers": each layer, or part of a model, by its name.
void read_layers(const HfMap& map, QuantizationPlan& plan) {
  const std::optional<HfMap> layers = map.map("quantized_layers");
  if (!layers) {
    map.fail("quantized_layers", "is not there, which MIXED_PRECISION needs");
    return;
  }
  std::vector<std::pair<LinearFormat, std::vector<std::string>>> by_format;
  for (const auto& [name, layer] : layers->maps()) {
    const std::optional<LinearFormat> format = algorithm_format(layer, algorithm_of(layer));
    if (!format) return;
    const auto same = std::find_if(by_format.begin(), by_format.end(),
                                   [&](const auto& known) { return known.first == *format; });
    if (same != by_format.end()) {
      same->second.push_back(name);
    } else {
      by_format.push_back({*format, {name}});
    }
    if (by_format.size() > kMostFormats) {
      map.fail("quantized_layers", "has more than " + std::to_string(kMostFormats) + " formats");
      return;
    }
  }
  for (auto& [format, names] : by_format)
    if (std::optional<NameList> list =
            name_list(map, "quantized_layers", NameList::Rule::part, std::move(names)))
      plan.rules.push_back({*std::move(list), false, format});
}

}  // namespace

std::optional<QuantizationPlan> modelopt_plan(const HfMap& whole) {
  const std::optional<HfMap> nested = whole.map("quantization");
  const HfMap& map = nested ? *nested : whole;
  const char* const key = map.has("exclude_modules") ? "exclude_modules" : "ignore";
  std::optional<NameList> kept = name_list(map, key, NameList::Rule::part, map.texts(key));
  const std::string algorithm = algorithm_of(map);
  if (algorithm.empty() && !map.has("quant_algo")) map.fail("quant_algo", kNoAlgorithm);
  if (!kept || algorithm.empty()) return {};
  QuantizationPlan plan{*std::move(kept), key, false, {}};
  if (algorithm == "MIXED_PRECISION") {
    read_layers(map, plan);
  } else if (const std::optional<LinearFormat> format = algorithm_format(map, algorithm)) {
    plan.rules.push_back({NameList(NameList::Rule::part, {}), true, *format});
  }
  read_cache_format(map, plan);
  return plan;
}

}  // namespace moelab::hf
