// quantization_config of quant_method compressed-tensors, as llm-compressor writes it and vLLM reads it:
// github.com/vllm-project/compressed-tensors, quantization/quant_args.py (what the keys mean and imply),
// compressors/*/base.py (which tensors a format has), utils/match.py (which layers names fit).
#include <algorithm>
#include <array>
#include <charconv>

#include "models/hf_quantization_plan.hpp"
#include "models/weight_format.hpp"

namespace moelab::hf {
namespace {

using Text = std::string;

/// "weights" of one of the "config_groups", checked as QuantizationArgs checks it.
struct WeightArguments {
  int bits = 8;
  bool floats = false;
  bool symmetric = true;
  Text strategy;  // tensor, channel, group (or tensor_group), block
  int group = 0;
  int block_rows = 0, block_columns = 0;
  bool by_activation = false;  // each input has the number of its group
  double scale_bits = 0;       // 0: the format's own
};

/// "128x128", as older files write [128, 128].
bool read_block_text(const Text& text, int& rows, int& columns) {
  const std::size_t x = text.find('x');
  if (x == Text::npos) return false;
  const auto number = [](const char* from, const char* to, int& value) {
    const auto [end, error] = std::from_chars(from, to, value);
    return error == std::errc() && end == to && value > 0 && value <= kMostGroup;
  };
  return number(text.data(), text.data() + x, rows) &&
         number(text.data() + x + 1, text.data() + text.size(), columns);
}

bool read_block(const HfMap& map, WeightArguments& w) {
  constexpr std::string_view key = "block_structure";
  if (map.is_text(key)) {
    if (read_block_text(map.text(key), w.block_rows, w.block_columns)) return true;
    map.fail(key, "must be [rows, columns]");
    return false;
  }
  const std::vector<int> sizes = map.integers(key, 1, kMostGroup);
  if (sizes.size() == 2) {
    w.block_rows = sizes[0];
    w.block_columns = sizes[1];
    return true;
  }
  map.fail(key, "must be [rows, columns] for the strategy 'block'");
  return false;
}

double scale_bits_named(const HfMap& map) {
  const Text type = map.text("scale_dtype");
  if (type.empty() || type == "None") return 0;
  for (const auto& [word, bits] :
       {std::pair{"float8", 8}, std::pair{"int8", 8}, std::pair{"float16", 16}, std::pair{"float32", 32}})
    if (type.find(word) != Text::npos) return bits;
  map.fail("scale_dtype",
           "'" + shown_word(type) + "' is not covered (known: float8, uint8, float16, bfloat16, float32)");
  return 0;
}

void read_activation_order(const HfMap& map, WeightArguments& w) {
  constexpr std::string_view key = "actorder";
  if (map.is_text(key)) {
    const Text order = map.text(key);
    w.by_activation = order == "group" || order == "dynamic";
    if (!w.by_activation && order != "weight" && order != "static")
      map.fail(key, "'" + shown_word(order) + "' is not covered (known: group, weight, dynamic, static)");
  } else {
    w.by_activation = map.boolean(key, false);
  }
}

bool read_strategy(const HfMap& map, WeightArguments& w) {
  const std::optional<int> group = map.integer("group_size", -1, kMostGroup);
  w.strategy = map.text("strategy");
  if (w.strategy.empty()) w.strategy = !group ? "tensor" : *group > 0 ? "group" : "channel";
  if (w.strategy == "tensor" || w.strategy == "channel") return true;
  if (w.strategy == "block") return read_block(map, w);
  if (w.strategy != "group" && w.strategy != "tensor_group") {
    map.fail("strategy",
             "'" + shown_word(w.strategy) +
                 "' is not covered for weights (known: tensor, channel, group, tensor_group, block)");
    return false;
  }
  w.group = group.value_or(0);
  if (w.group > 0) return true;
  map.fail("group_size", "must be above 0 for the strategy '" + w.strategy + "'");
  return false;
}

std::optional<WeightArguments> read_weights(const HfMap& map) {
  WeightArguments w;
  const Text type = map.text("type");
  w.floats = type == "float";
  if (!type.empty() && type != "int" && type != "float") {
    map.fail("type", "'" + shown_word(type) + "' is not covered (known: int, float)");
    return {};
  }
  const std::optional<int> bits = map.integer("num_bits", 1, 64);
  w.bits = bits.value_or(8);
  if (w.floats ? w.bits != 4 && w.bits != 8 : w.bits > 8) {
    map.fail("num_bits", "must be " + Text(w.floats ? "4 or 8 for type float" : "1 to 8 for type int") +
                             ", not " + std::to_string(w.bits));
    return {};
  }
  w.symmetric = map.boolean("symmetric", true);
  w.scale_bits = scale_bits_named(map);
  read_activation_order(map, w);
  if (!read_strategy(map, w)) return {};
  return w;
}

/// The format where no key says one: the first of the compressors that takes such weights.
Text implied_format(const WeightArguments& w, bool activations) {
  if (w.floats && w.bits == 4) return w.group == 32 ? "mxfp4-pack-quantized" : "nvfp4-pack-quantized";
  if (w.floats) return w.group == 32 && w.scale_bits == 8 ? "mxfp8-quantized" : "float-quantized";
  return activations ? "int-quantized" : "pack-quantized";
}

void set_scales(const WeightArguments& w, double bits, LinearFormat& f) {
  f.scale_bits = w.scale_bits > 0 ? w.scale_bits : bits;
  if (w.strategy == "tensor") {
    f.block_rows = 0;
  } else if (w.strategy == "block") {
    f.block_rows = w.block_rows;
    f.block_columns = w.block_columns;
  } else if (w.group > 0) {
    f.block_columns = w.group;
  }
  if (w.by_activation) f.column_bits = 32;  // weight_g_idx
}

Text group_suffix(const WeightArguments& w, int usual) {
  return w.group > 0 && w.group != usual ? "-g" + std::to_string(w.group) : "";
}

/// What a format's compressor stores of a layer. Scales have the model's type, 16 bits, but where said.
std::optional<LinearFormat> format_named(const HfMap& group, const Text& format, const WeightArguments& w,
                                         bool activations) {
  LinearFormat f;
  f.bits = w.bits;
  const Text integers = "int" + std::to_string(w.bits) + group_suffix(w, 0);
  if (format == "pack-quantized" && !w.floats) {
    f.name = integers;
    f.bits = 32.0 / (32 / w.bits);  // as many as go whole into each of 32 bits
    set_scales(w, 16, f);
    if (!w.symmetric) f.scale_bits += f.bits;  // zero points are packed like weights
    f.matrix_bytes = 16;                       // weight_shape
  } else if ((format == "int-quantized" || format == "naive-quantized") && !w.floats) {
    f.name = integers;
    f.bits = 8;  // each in a byte, however few bits it has
    set_scales(w, 16, f);
    if (!w.symmetric) f.scale_bits += 8;
  } else if ((format == "float-quantized" || format == "naive-quantized") && w.floats && w.bits == 8) {
    f.name = "fp8" + group_suffix(w, 0);
    set_scales(w, 16, f);
  } else if (format == "nvfp4-pack-quantized" && w.floats && w.bits == 4 && w.group > 0) {
    f.name = "nvfp4" + group_suffix(w, 16);
    set_scales(w, 8, f);
    f.matrix_bytes = activations ? 8 : 4;  // weight_global_scale, input_global_scale
  } else if (format == "mxfp4-pack-quantized" && w.floats && w.bits == 4 && w.group > 0) {
    f.name = "mxfp4" + group_suffix(w, 32);
    set_scales(w, 8, f);
  } else if (format == "mxfp8-quantized" && w.floats && w.bits == 8 && w.group > 0) {
    f.name = "mxfp8" + group_suffix(w, 32);
    set_scales(w, 8, f);
  } else {
    group.fail("format", "'" + shown_word(format) + "' for " + (w.floats ? "floats" : "integers") + " of " +
                             std::to_string(w.bits) +
                             " bits is not covered (known: pack-quantized, int-quantized, float-quantized, "
                             "naive-quantized, nvfp4-pack-quantized, mxfp4-pack-quantized, mxfp8-quantized)");
    return {};
  }
  return f;
}

bool names_linear(const std::vector<Text>& entries) {
  return std::find(entries.begin(), entries.end(), "Linear") != entries.end();
}

std::optional<QuantizationRule> read_group(const HfMap& group, const Text& whole_format) {
  const std::vector<Text> targets = group.texts("targets");
  std::optional<NameList> names = name_list(group, "targets", NameList::Rule::exact, targets);
  const std::optional<HfMap> weights = group.map("weights");
  if (!names || !weights) return {};  // without weights a group is of activations alone
  if (targets.empty()) {
    group.fail("targets", "names no layers: a list was expected, such as [\"Linear\"]");
    return {};
  }
  const std::optional<WeightArguments> arguments = read_weights(*weights);
  if (!arguments) return {};
  const bool activations = group.has("input_activations");
  Text format = group.text("format");
  if (format.empty()) format = whole_format;
  if (format.empty() || format == "mixed-precision") format = implied_format(*arguments, activations);
  const std::optional<LinearFormat> made = format_named(group, format, *arguments, activations);
  if (!made) return {};
  return QuantizationRule{*std::move(names), names_linear(targets), *made};
}

}  // namespace

std::optional<QuantizationPlan> compressed_tensors_plan(const HfMap& map) {
  if (const std::optional<HfMap> sparsity = map.map("sparsity_config")) {
    const Text format = sparsity->text("format");
    if (!format.empty() && format != "dense")
      sparsity->fail("format", "'" + shown_word(format) + "': sparse weights are not covered");
  }
  const std::vector<Text> ignored = map.texts("ignore");
  std::optional<NameList> kept = name_list(map, "ignore", NameList::Rule::exact, ignored);
  const std::optional<HfMap> groups = map.map("config_groups");
  if (!groups) map.fail("config_groups", "is not there, so that nothing says how weights are stored");
  if (!kept || !groups) return {};
  QuantizationPlan plan{*std::move(kept), "ignore", names_linear(ignored), {}};
  const Text format = map.text("format");
  for (const auto& [name, group] : groups->maps())
    if (std::optional<QuantizationRule> rule = read_group(group, format))
      plan.rules.push_back(*std::move(rule));
  read_cache_format(map, plan);
  return plan;
}

}  // namespace moelab::hf
