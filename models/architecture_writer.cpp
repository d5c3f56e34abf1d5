#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "models/architecture.hpp"
#include "models/input_error.hpp"
#include "models/yaml_text.hpp"

namespace moelab {
namespace {

using yaml::number;
using Fields = std::vector<std::pair<std::string, std::string>>;

void add(Fields& fields, const std::string& key, int value, int fallback = 0) {
  if (value != fallback) fields.emplace_back(key, std::to_string(value));
}

void add(Fields& fields, const std::string& key, bool value) {
  if (value) fields.emplace_back(key, "true");
}

std::string flow(const Fields& fields) {
  std::string text = "{";
  for (const auto& [key, value] : fields) text += (text.size() > 1 ? ", " : "") + key + ": " + value;
  return text + "}";
}

Fields attention_fields(const Attention& t) {
  Fields f;
  switch (t.kind) {
    case Attention::Kind::kv_heads:
      f = {{"kind", "kv_heads"}, {"heads", std::to_string(t.heads)}};
      f.emplace_back("kv_heads", std::to_string(t.kv_heads));
      f.emplace_back("head_dim", std::to_string(t.head_dim));
      add(f, "value_dim", t.value_dim, t.head_dim);
      if (t.qk_norm || t.qk_norm_full) f.emplace_back("qk_norm", t.qk_norm_full ? "all_heads" : "per_head");
      add(f, "output_gate", t.output_gate);
      add(f, "sinks", t.sinks);
      break;
    case Attention::Kind::mla:
      f = {{"kind", "mla"}, {"heads", std::to_string(t.heads)}};
      f.emplace_back("nope_dim", std::to_string(t.head_dim - t.rope_dim));
      f.emplace_back("rope_dim", std::to_string(t.rope_dim));
      f.emplace_back("value_dim", std::to_string(t.value_dim));
      f.emplace_back("kv_lora_rank", std::to_string(t.kv_lora_rank));
      add(f, "q_lora_rank", t.q_lora_rank);
      break;
    case Attention::Kind::linear:
      f = {{"kind", "linear"}, {"key_heads", std::to_string(t.linear_key_heads)}};
      f.emplace_back("value_heads", std::to_string(t.linear_value_heads));
      f.emplace_back("head_dim", std::to_string(t.head_dim));
      add(f, "value_dim", t.value_dim, t.head_dim);
      f.emplace_back("conv_kernel", std::to_string(t.conv_kernel));
      return f;
    case Attention::Kind::mamba2:
      f = {{"kind", "mamba2"}, {"heads", std::to_string(t.linear_value_heads)}};
      f.emplace_back("head_dim", std::to_string(t.value_dim));
      add(f, "groups", t.linear_key_heads, 1);
      f.emplace_back("state", std::to_string(t.head_dim));
      f.emplace_back("conv_kernel", std::to_string(t.conv_kernel));
      if (!t.conv_bias) f.emplace_back("conv_bias", "false");
      break;
    case Attention::Kind::none:
      return {{"kind", "none"}};
  }
  add(f, "bias", t.bias);
  add(f, "output_bias", t.output_bias);
  add(f, "window", t.window);
  return f;
}

Fields moe_fields(const FeedForward& ff) {
  Fields f{{"experts", std::to_string(ff.experts)},
           {"top_k", std::to_string(ff.top_k)},
           {"width", std::to_string(ff.width)}};
  add(f, "matrices", ff.matrices, 3);
  add(f, "shared_width", ff.shared_width);
  add(f, "shared_gate", ff.shared_gate);
  add(f, "bias", ff.bias);
  add(f, "gate_bias", ff.gate_bias);
  return f;
}

Fields dense_fields(const FeedForward& ff) {
  Fields f{{"width", std::to_string(ff.width)}};
  add(f, "matrices", ff.matrices, 3);
  add(f, "bias", ff.bias);
  return f;
}

// The shortest period of the layers' attention (a last, cut-off repetition counts): their number less the
// longest proper border, found with the failure function of Knuth, Morris and Pratt.
std::size_t attention_period(const std::vector<Layer>& layers) {
  std::vector<std::size_t> border(layers.size(), 0);
  for (std::size_t i = 1; i < layers.size(); ++i) {
    std::size_t length = border[i - 1];
    while (length > 0 && !(layers[i].attention == layers[length].attention)) length = border[length - 1];
    border[i] = layers[i].attention == layers[length].attention ? length + 1 : 0;
  }
  return layers.size() - border.back();
}

std::string attention_text(const std::vector<Layer>& layers, const std::string& indent) {
  const std::size_t period = attention_period(layers);
  if (period == 1) return indent + "attention: " + flow(attention_fields(layers[0].attention)) + "\n";
  std::string text = indent + "attention:\n";
  for (std::size_t i = 0; i < period;) {
    std::size_t end = i + 1;
    while (end < period && layers[end].attention == layers[i].attention) ++end;
    Fields fields = attention_fields(layers[i].attention);
    if (end - i > 1) fields.insert(fields.begin(), {"repeat", std::to_string(end - i)});
    text += indent + "  - " + flow(fields) + "\n";
    i = end;
  }
  return text;
}

// dense_first, moe_every and dense_layers of one stack: the largest stride that meets every MoE layer, then
// the layers it meets that are dense.
std::string dense_text(const std::vector<Layer>& layers, const std::string& indent, bool some_have_experts) {
  int stride = 0;
  int first = static_cast<int>(layers.size());
  const auto is_moe = [&](int i) {
    return layers[static_cast<std::size_t>(i)].feed_forward.kind == FeedForward::Kind::moe;
  };
  const int count = static_cast<int>(layers.size());
  for (int i = count - 1; i >= 0; --i) {
    if (!is_moe(i)) continue;
    stride = std::gcd(stride, i + 1);
    first = i;
  }
  if (stride == 0) return some_have_experts ? indent + "dense_first: " + std::to_string(count) + "\n" : "";
  std::string dense;
  for (int i = first; i < count; ++i) {
    if ((i + 1) % stride == 0 && !is_moe(i)) dense += (dense.empty() ? "" : ", ") + std::to_string(i);
  }
  std::string text;
  if (first + 1 != stride) text += indent + "dense_first: " + std::to_string(first) + "\n";
  if (stride != 1) text += indent + "moe_every: " + std::to_string(stride) + "\n";
  if (!dense.empty()) text += indent + "dense_layers: [" + dense + "]\n";
  return text;
}

// A block of `blocks`: attention, and by its name what feed-forward part there is.
std::string block_text(const Layer& layer) {
  Fields fields = attention_fields(layer.attention);
  if (layer.has_feed_forward())
    fields.emplace_back("feed_forward", layer.feed_forward.kind == FeedForward::Kind::moe ? "moe" : "dense");
  return flow(fields);
}

// A letter a layer, for stacks of which some layers have one part alone.
std::string pattern_text(const std::vector<Layer>& layers, const std::string& indent) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::vector<std::string> blocks;
  std::string pattern;
  for (const Layer& layer : layers) {
    const std::string text = block_text(layer);
    const auto at = static_cast<std::size_t>(std::find(blocks.begin(), blocks.end(), text) - blocks.begin());
    if (at == letters.size())
      throw InputError(
          "", "a model file cannot say more than 52 kinds of layers, some of them of one part alone");
    if (at == blocks.size()) blocks.push_back(text);
    pattern += letters[at];
  }
  std::string text = indent + "pattern: " + yaml::quoted(pattern) + "\n" + indent + "blocks:\n";
  for (std::size_t i = 0; i < blocks.size(); ++i)
    text += indent + "  " + letters[i] + ": " + blocks[i] + "\n";
  return text;
}

std::string stack_text(const std::vector<Layer>& layers, const std::string& indent, bool some_have_experts) {
  const bool whole = std::all_of(layers.begin(), layers.end(),
                                 [](const Layer& l) { return l.has_mixer() && l.has_feed_forward(); });
  if (!whole)
    return indent + "layers: " + std::to_string(layers.size()) + "\n" + pattern_text(layers, indent);
  return indent + "layers: " + std::to_string(layers.size()) + "\n" +
         dense_text(layers, indent, some_have_experts) + attention_text(layers, indent);
}

std::vector<Layer> stack(const Architecture& a, Stack which) {
  std::vector<Layer> layers;
  std::copy_if(a.layers.begin(), a.layers.end(), std::back_inserter(layers),
               [&](const Layer& layer) { return layer.stack == which; });
  return layers;
}

// The feed-forward part of all dense layers, or null where there is none.
const FeedForward* dense_part(const Architecture& a) {
  const FeedForward* dense = nullptr;
  for (const Layer& layer : a.layers) {
    const FeedForward& ff = layer.feed_forward;
    if (ff.kind != FeedForward::Kind::dense) continue;
    if (dense && !(*dense == ff)) {
      throw InputError(a.name, "a model file cannot say dense layers of different shapes");
    }
    dense = &ff;
  }
  return dense;
}

void check_stacks(const Architecture& a, const std::vector<Layer>& encoder,
                  const std::vector<Layer>& decoder) {
  std::vector<Layer> ordered = encoder;
  ordered.insert(ordered.end(), decoder.begin(), decoder.end());
  if (decoder.empty() || ordered != a.layers) {
    throw InputError(a.name, "a model file needs decoder layers, with encoder layers before them");
  }
  for (const Layer& layer : a.layers) {
    if (layer.cross_attention != (layer.stack == Stack::decoder && !encoder.empty())) {
      throw InputError(a.name, "a model file cannot say cross-attention in some decoder layers only");
    }
  }
}

/// Nothing for BF16; one key for a file whose parts are all alike.
std::string stored_text(const StoredWeights& stored) {
  if (stored == StoredWeights()) return "";
  if (stored == StoredWeights::plain(stored.bytes.front()))
    return "bytes_per_weight: " + number(stored.bytes.front()) + "\n";
  std::string parts = "name: " + yaml::quoted(stored.name);
  for (std::size_t p = 0; p < kWeightParts; ++p)
    parts += ", " + std::string(to_string(static_cast<WeightPart>(p))) + ": " + number(stored.bytes[p]);
  if (stored.kv != StoredWeights().kv) parts += ", kv: " + number(stored.kv);
  if (stored.group > 0) parts += ", group: " + std::to_string(stored.group);
  return "bytes_per_weight: {" + parts + "}\n";
}

std::string published_text(const Architecture& a) {
  std::string text;
  if (a.published_weights) text += "  weights: " + number(*a.published_weights) + "\n";
  if (a.published_active_weights) text += "  active_weights: " + number(*a.published_active_weights) + "\n";
  if (!a.published_source.empty()) text += "  source: " + yaml::quoted(a.published_source) + "\n";
  return text.empty() ? text : "published:\n" + text;
}

}  // namespace

std::string architecture_to_yaml(const Architecture& a) {
  const std::vector<Layer> encoder = stack(a, Stack::encoder);
  const std::vector<Layer> decoder = stack(a, Stack::decoder);
  check_stacks(a, encoder, decoder);
  std::string text = "name: " + yaml::quoted(a.name) + "\ntitle: " + yaml::quoted(a.title) + "\n";
  if (!a.source.empty()) text += "source: " + yaml::quoted(a.source) + "\n";
  text += "hidden: " + std::to_string(a.hidden) + "\nvocab: " + std::to_string(a.vocab) + "\n";
  if (a.embedding_copies != 2) text += "embedding_copies: " + std::to_string(a.embedding_copies) + "\n";
  text += stored_text(a.stored);
  if (a.extra_weights != 0) text += "extra_weights: " + number(a.extra_weights) + "\n";
  text += stack_text(decoder, "", a.is_moe());
  if (a.is_moe()) text += "moe: " + flow(moe_fields(a.moe())) + "\n";
  if (const FeedForward* dense = dense_part(a)) text += "dense: " + flow(dense_fields(*dense)) + "\n";
  if (!encoder.empty()) text += "encoder:\n" + stack_text(encoder, "  ", a.is_moe());
  return text + published_text(a);
}

}  // namespace moelab
