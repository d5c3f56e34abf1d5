#include "models/hf_quantization_plan.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace moelab::hf {
namespace {

constexpr std::size_t kMostWork = 30'000'000;  // steps of matching; real files take up to a third
constexpr double kPlain = 2;                   // bytes a weight

double part_weights(const Architecture& a, WeightPart part) {
  switch (part) {
    case WeightPart::embedding:
      return (a.embedding_copies - 1) * embedding_weights(a);
    case WeightPart::head:
      return embedding_weights(a);
    case WeightPart::experts:
      return routed_weights(a);
    case WeightPart::attention:
    case WeightPart::dense:
    case WeightPart::shared:
    case WeightPart::router:
      break;
  }
  // Norms behind the last layer and what the formulas leave out count as attention (non_expert_bytes()).
  double weights = part == WeightPart::attention ? a.hidden + a.extra_weights : 0;
  for (const Layer& layer : a.layers) {
    if (part == WeightPart::attention) weights += attention_weights(a, layer);
    if (part == WeightPart::router) weights += gate_weights(a, layer);
    if (part == dense_part(layer)) weights += feed_forward_dense_weights(a, layer);
  }
  return weights;
}

/// What one part's layers are in.
struct Converted {
  double weights = 0;  // of layers in a format
  double bytes = 0;    // of them
  std::vector<std::string> formats;

  void add(const LinearLayer& layer, const LinearFormat* format) {
    const std::string name = format ? format->name : "bf16";
    if (std::find(formats.begin(), formats.end(), name) == formats.end()) formats.push_back(name);
    if (!format) return;
    weights += layer.weights();
    bytes += layer.count * format->bytes(layer.rows, layer.columns);
  }
  bool plain() const { return weights == 0; }
  std::string text() const {
    std::string all;
    for (const std::string& format : formats) all += (all.empty() ? "" : "/") + format;
    return all;
  }
};
using ConvertedParts = std::array<Converted, kWeightParts>;

bool fits_any(const NameList& list, const LinearLayer& layer) {
  return std::any_of(layer.names.begin(), layer.names.end(),
                     [&](const std::string& name) { return list.find(name) != NameList::npos; });
}

/// Null: it stays as it is.
const LinearFormat* format_of(const QuantizationPlan& plan, const LinearLayer& layer) {
  if (fits_any(plan.kept, layer) || (plan.kept_linear && layer.linear)) return nullptr;
  for (const QuantizationRule& rule : plan.rules)
    if (fits_any(rule.names, layer)) return &rule.format;
  for (const QuantizationRule& rule : plan.rules)
    if (rule.all_linear && layer.linear) return &rule.format;
  return nullptr;
}

std::size_t work_of(const QuantizationPlan& plan) {
  std::size_t work = plan.kept.work();
  for (const QuantizationRule& rule : plan.rules) work += rule.names.work();
  return work;
}

ConvertedParts convert(const QuantizationPlan& plan, const Architecture& a, const HfConfig& config) {
  bool each_expert = plan.kept.tells_experts_apart();
  for (const QuantizationRule& rule : plan.rules)
    each_expert = each_expert || rule.names.tells_experts_apart();
  ConvertedParts parts;
  const std::string type = config.text({"model_type"});
  for_each_linear(a, {type, config.has_text_part(), each_expert}, [&](const LinearLayer& layer) {
    parts[static_cast<std::size_t>(layer.part)].add(layer, format_of(plan, layer));
    if (work_of(plan) <= kMostWork) return true;
    config.fail("'quantization_config' has too many patterns for a model of so many layers and experts");
    return false;
  });
  return parts;
}

/// "nvfp4" where linear layers are in one format and embedding and head are not, else part by part.
std::string name_of(const ConvertedParts& parts, const std::string& kv) {
  const auto part = [&](WeightPart p) -> const Converted& { return parts[static_cast<std::size_t>(p)]; };
  std::vector<std::string> linear;
  std::string text;
  for (const WeightPart p :
       {WeightPart::attention, WeightPart::dense, WeightPart::shared, WeightPart::experts})
    if (!part(p).formats.empty()) linear.push_back(part(p).text());
  const bool alike =
      !linear.empty() && linear.front().find('/') == std::string::npos &&
      std::all_of(linear.begin(), linear.end(), [&](const auto& t) { return t == linear.front(); });
  const std::string rest = alike ? linear.front() : "bf16";
  for (std::size_t p = 0; p < kWeightParts; ++p) {
    const auto which = static_cast<WeightPart>(p);
    const bool at_end = which == WeightPart::embedding || which == WeightPart::head;
    if (!parts[p].plain() && (at_end || parts[p].text() != rest))
      text += std::string(to_string(which)) + " " + parts[p].text() + ", ";
  }
  if (!kv.empty()) text += "kv " + kv + ", ";
  return text.empty() ? rest : text + "else " + rest;
}

/// Names of parts that are no linear layers of the text model: they may well be in a list that keeps them.
bool is_elsewhere(const std::string& entry) {
  constexpr std::array<std::string_view, 19> words{
      "gate", "router", "norm",    "conv", "embed", "visual", "vision", "image", "audio",  "projector",
      "mtp",  "nextn",  "eh_proj", "head", "A_log", "bias",   "dt_",    "mm_",   "indexer"};
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return entry.find(word) != std::string::npos; });
}

std::string unused_entries(const QuantizationPlan& plan) {
  std::string text;
  int more = 0;
  for (std::size_t i = 0; i < plan.kept.entries().size(); ++i) {
    if (plan.kept.used(i) || is_elsewhere(plan.kept.entries()[i])) continue;
    if (++more <= 3) text += (more > 1 ? ", '" : "'") + shown_word(plan.kept.entries()[i]) + "'";
  }
  if (more == 0) return "";
  return "; of its list '" + plan.kept_key + "' " + text +
         (more > 3   ? " and others fit"
          : more > 1 ? " fit"
                     : " fits") +
         " no layer here";
}

std::string mixed_parts(const ConvertedParts& parts) {
  std::string text;
  for (std::size_t p = 0; p < kWeightParts; ++p)
    if (!parts[p].plain() && parts[p].formats.size() > 1)
      text += "; " + std::string(to_string(static_cast<WeightPart>(p))) + " has layers in " +
              parts[p].text() + ", of which bytes are the mean";
  return text;
}

}  // namespace

std::optional<NameList> name_list(const HfMap& map, std::string_view key, NameList::Rule rule,
                                  std::vector<std::string> entries) {
  try {
    return NameList(rule, std::move(entries));
  } catch (const InputError& error) {
    map.fail(key, "has a pattern that is not understood: " + error.problems().front().what +
                      ". Remove quantization_config and say 'weights: NAME' in the model file");
    return {};
  }
}

StoredWeights stored_by(const QuantizationPlan& plan, const Architecture& a, const HfConfig& config,
                        std::string& note) {
  if (a.has_encoder()) {
    config.fail("'quantization_config' of an encoder-decoder model is not covered");
    return {};
  }
  const ConvertedParts parts = convert(plan, a, config);
  if (std::all_of(parts.begin(), parts.end(), [](const Converted& part) { return part.plain(); })) {
    config.fail(
        "'quantization_config' converts none of this model's linear layers: its names are of another "
        "model, or it keeps all of them");
    return {};
  }
  StoredWeights stored;
  for (std::size_t p = 0; p < kWeightParts; ++p) {
    const Converted& part = parts[p];
    const double weights = part_weights(a, static_cast<WeightPart>(p));
    if (part.plain() || weights <= 0) continue;
    stored.bytes[p] = (part.bytes + (weights - part.weights) * kPlain) / weights;
  }
  stored.kv = plan.kv;
  stored.name = name_of(parts, plan.kv_name);
  note += mixed_parts(parts) + unused_entries(plan);
  return stored;
}

void read_cache_format(const HfMap& map, QuantizationPlan& plan) {
  const auto set = [&](const char* name, double bytes) {
    plan.kv_name = name;
    plan.kv = bytes;
  };
  for (const char* key : {"kv_cache_scheme", "kv_cache_quant_algo"}) {
    if (!map.has(key)) continue;
    if (map.is_text(key)) {
      const std::string algorithm = map.text(key);
      if (algorithm == "FP8") {
        set("fp8", 1);
      } else if (algorithm == "INT8") {
        set("int8", 1);
      } else if (algorithm == "NVFP4") {
        set("nvfp4", 4.5 / 8);
      } else {
        map.fail(key, "'" + shown_word(algorithm) + "' is not covered (known: FP8, INT8, NVFP4)");
      }
    } else if (const std::optional<HfMap> scheme = map.map(key)) {
      const int bits = scheme->integer("num_bits", 1, 16).value_or(8);
      const std::string type = scheme->text("type");
      if (bits == 8) {
        set(type == "int" ? "int8" : "fp8", 1);
      } else if (bits == 4 && type == "float" && scheme->integer("group_size", 1, 1024).value_or(16) == 16) {
        set("nvfp4", 4.5 / 8);
      } else {
        map.fail(key, "of " + std::to_string(bits) + " bits is not covered (known: 8 bits, NVFP4)");
      }
    }
    return;
  }
}

}  // namespace moelab::hf
