// quantization_config of quant_method bitsandbytes. Which layers: transformers, integrations/bitsandbytes.py
// and BitsAndBytesConfig. What is stored: bitsandbytes, functional.py (quantize_4bit, QuantState) and
// nn/modules.py.
#include "models/hf_quantization_plan.hpp"

namespace moelab::hf {
namespace {

/// Four bits, of 64 weights one after another the largest in 32 bits; "double quantisation" has that in 8
/// bits, with 32 for 256 of them. A matrix also keeps the 16 values that its weights stand for, and the 256
/// of its scales (32 bits each). Its size and type as JSON, some 100 bytes, are left out.
LinearFormat four_bits(const std::string& type, bool doubly) {
  LinearFormat f{.name = "bnb-" + type + (doubly ? "-dq" : ""), .bits = 4, .scale_bits = doubly ? 8.0 : 32.0};
  f.flat_block = 64;
  f.nested_block = doubly ? 256 : 0;
  f.matrix_bytes = doubly ? 16 * 4 + 256 * 4 : 16 * 4;
  return f;
}

}  // namespace

std::optional<QuantizationPlan> bitsandbytes_plan(const HfMap& map, std::string_view model_type) {
  const bool four = map.boolean("load_in_4bit", false), eight = map.boolean("load_in_8bit", false);
  std::vector<std::string> skipped = map.texts("llm_int8_skip_modules");
  if (!map.has("llm_int8_skip_modules")) skipped = {"lm_head"};  // the output's layer, where nothing is said
  // Granite's experts are one parameter, no linear layer, and so are not converted.
  if (model_type == "granitemoehybrid") skipped.emplace_back("block_sparse_moe");
  std::optional<NameList> kept =
      name_list(map, "llm_int8_skip_modules", NameList::Rule::part, std::move(skipped));
  if (four == eight) {
    map.fail(four ? "load_in_8bit" : "load_in_4bit",
             "and the other one are " + std::string(four ? "both" : "not") +
                 " true: one of load_in_4bit and load_in_8bit was expected");
    return {};
  }
  if (!kept) return {};
  QuantizationPlan plan{*std::move(kept), "llm_int8_skip_modules", false, {}};
  QuantizationRule rule{NameList(NameList::Rule::part, {}), true, {}};
  if (eight) {
    if (map.boolean("llm_int8_has_fp16_weight", false))
      map.fail("llm_int8_has_fp16_weight", "is true, which keeps weights in 16 bits: that is not covered");
    rule.format = {.name = "bnb-int8", .bits = 8, .scale_bits = 32};  // a scale (SCB) an output
  } else {
    std::string type = map.text("bnb_4bit_quant_type");
    if (type.empty()) type = "fp4";
    if (type != "nf4" && type != "fp4") {
      map.fail("bnb_4bit_quant_type", "'" + shown_word(type) + "' is not covered (known: nf4, fp4)");
      return {};
    }
    rule.format = four_bits(type, map.boolean("bnb_4bit_use_double_quant", false));
  }
  plan.rules.push_back(std::move(rule));
  return plan;
}

}  // namespace moelab::hf
