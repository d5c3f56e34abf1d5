#include "models/hf_quantization.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "models/hf_quantization_plan.hpp"
#include "models/stored_weights.hpp"

namespace moelab::hf {
namespace {

constexpr std::string_view kKey = "quantization_config";
constexpr const char* kKnownMethods =
    "(known: fp8, gptq and awq of 4 bits, gptq of 8 bits, mxfp4, compressed-tensors, modelopt, "
    "bitsandbytes). "
    "Remove it and say 'weights: NAME' in the model file";

StoredWeights mxfp4_experts_alone() {
  StoredWeights stored;
  stored.name = "experts mxfp4, else bf16";
  stored.set(WeightPart::experts, find_weight_format("mxfp4").bits / 8);
  return stored;
}

/// The side of FP8's blocks: of [rows, columns] the larger, which slices of either kind do not cut. 0: one
/// scale a matrix.
int fp8_block(const HfMap& map) {
  const std::vector<int> sides = map.integers("weight_block_size", 1, kMostGroup);
  return sides.empty() ? 0 : *std::ranges::max_element(sides);
}

/// GPTQ or AWQ in groups of what `group_size` says, 128 where it says nothing; -1: one scale a channel. A
/// group has a 16-bit scale and a zero of `bits`, which take no more than a thousandth where there is one a
/// channel.
StoredWeights in_groups(const HfMap& map, const Architecture& a, const std::string& name, int bits) {
  constexpr int kUsual = 128;
  StoredWeights stored = stored_as(a, name);
  const int group = map.integer("group_size", -1, kMostGroup).value_or(kUsual);
  if (group == 0) map.fail("group_size", "must be above 0, or -1 for one scale a channel");
  if (group == kUsual || group == 0) return stored;
  stored.name += group < 0 ? "-channel" : "-g" + std::to_string(group);
  stored.group = std::max(1, group);
  const double bytes = (bits + (group < 0 ? 0.0 : (16.0 + bits) / group)) / 8;
  for (std::size_t p = 0; p < kWeightParts; ++p)
    if (const auto part = static_cast<WeightPart>(p); stored.quantised(part)) stored.set(part, bytes);
  return stored;
}

/// Methods whose names alone say which layers they convert.
std::optional<StoredWeights> stored_by_name(const HfMap& map, const std::string& method,
                                            const Architecture& a, const HfConfig& config) {
  const int bits = method == "gptq" || method == "awq" ? map.integer("bits", 0, 64).value_or(4) : 0;
  if (method == "fp8" || method == "fbgemm_fp8") {
    StoredWeights stored = stored_as(a, "fp8");
    stored.group = fp8_block(map);
    return stored;
  }
  if (method == "gptq" && (bits == 4 || bits == 8))
    return in_groups(map, a, "gptq-int" + std::to_string(bits), bits);
  if (method == "awq" && bits == 4) return in_groups(map, a, "awq", bits);
  if (method == "mxfp4") return mxfp4_experts_alone();
  config.fail("quantization_config.quant_method '" + shown_word(method) + "'" +
              (bits > 0 ? " of " + std::to_string(bits) + " bits" : "") + " is not covered " + kKnownMethods);
  return {};
}

bool is_modelopt(const HfMap& map, const std::string& method) {
  return method.starts_with("modelopt") ||
         (method.empty() && (map.has("quant_algo") || map.has("quantization")));
}

/// hf_quant_config.json as a whole, if it is there.
StoredWeights read_beside(const HfConfig* beside, const Architecture& a, const HfConfig& config,
                          std::string& note) {
  if (beside == nullptr) return {};
  const std::optional<HfMap> nested = beside->map("quantization");
  if (!nested) {
    beside->fail("no key 'quantization' is there");
    beside->throw_if_any();
    return {};
  }
  if (!nested->has("quant_algo")) return {};  // of a cache alone, or of nothing
  const std::optional<QuantizationPlan> plan = modelopt_plan(*nested);
  beside->throw_if_any();
  return plan ? stored_by(*plan, a, config, note) : StoredWeights{};
}

}  // namespace

StoredWeights read_quantization(const HfConfig& config, const HfConfig* beside, const Architecture& a,
                                std::string& note) {
  const std::optional<HfMap> map = config.map(kKey);
  if (!map) return read_beside(beside, a, config, note);
  const std::string method = map->text("quant_method");
  std::optional<QuantizationPlan> plan;
  if (method == "compressed-tensors") {
    plan = compressed_tensors_plan(*map);
  } else if (is_modelopt(*map, method)) {
    plan = modelopt_plan(*map);
  } else if (method == "bitsandbytes") {
    plan = bitsandbytes_plan(*map, config.text({"model_type"}));
  } else if (method.empty()) {
    config.fail("quantization_config has no quant_method, so that nothing says how weights are stored " +
                std::string(kKnownMethods));
  } else {
    return stored_by_name(*map, method, a, config).value_or(StoredWeights{});
  }
  config.throw_if_any();
  return plan ? stored_by(*plan, a, config, note) : StoredWeights{};
}

}  // namespace moelab::hf
