#include "models/stored_weights.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "models/input_error.hpp"
#include "models/yaml_reader.hpp"

namespace moelab {
namespace {

constexpr std::string_view kGguf = "gguf-";
constexpr int kSuperBlock = 256;  // weights of a row that K and most IQ types take at once
constexpr int kBlock = 32;        // of the others

/// How llama.cpp's quantize mixes types for one file type. Empty: as `base`.
struct Mixture {
  std::string_view name;    // "q4_k_m"
  std::string_view base;    // what is not named here
  std::string_view down;    // of ffn_down, in `down_layers`
  std::string_view value;   // of attn_v, in `value_layers`
  std::string_view output;  // of attn_output
  std::string_view head;    // of output.weight
  std::string_view embedding = {};
  enum class Layers { none, all, more_bits, eighth, rest_of_sixteenth };
  Layers down_layers = Layers::none;
  Layers value_layers = Layers::none;
  std::string_view key = {};         // of attn_k; ik_llama.cpp: of attn_v too, of models with experts
  std::string_view outer_gate = {};  // of ffn_gate and ffn_up in the first eighth of layers and the last
};

using Layers = Mixture::Layers;
// llama.cpp, src/llama-quant.cpp, llama_tensor_get_type, without an importance matrix.
constexpr std::array kMixtures{
    Mixture{"bf16", "bf16", {}, {}, {}, "bf16"}, Mixture{"f16", "fp16", {}, {}, {}, "fp16"},
    Mixture{"q8_0", "q8_0", {}, {}, {}, "q8_0"}, Mixture{"q6_k", "q6_k", {}, {}, {}, "q6_k"},
    Mixture{"q5_k_m", "q5_k", "q6_k", "q6_k", {}, "q6_k", {}, Layers::more_bits, Layers::more_bits},
    Mixture{"q5_k_s", "q5_k", {}, {}, {}, "q6_k"}, Mixture{"q5_1", "q5_1", {}, {}, {}, "q6_k"},
    Mixture{"q5_0", "q5_0", {}, {}, {}, "q6_k"},
    Mixture{"q4_k_m", "q4_k", "q6_k", "q6_k", {}, "q6_k", {}, Layers::more_bits, Layers::more_bits},
    Mixture{"q4_k_s", "q4_k", "q5_k", "q5_k", {}, "q6_k", {}, Layers::eighth, Layers::eighth},
    Mixture{"q4_1", "q4_1", {}, {}, {}, "q6_k"}, Mixture{"q4_0", "q4_0", {}, {}, {}, "q6_k"},
    Mixture{"iq4_nl", "iq4_nl", "q5_k", "q5_k", {}, "q6_k", {}, Layers::eighth, Layers::all},
    Mixture{"iq4_xs", "iq4_xs", "q5_k", "q5_k", {}, "q6_k", {}, Layers::eighth, Layers::all},
    Mixture{"q3_k_l", "q3_k", "q5_k", "q5_k", "q5_k", "q6_k", {}, Layers::all, Layers::all},
    Mixture{"q3_k_m", "q3_k", "q4_k", "q4_k", "q4_k", "q6_k", {}, Layers::rest_of_sixteenth, Layers::all},
    Mixture{"q3_k_s", "q3_k", {}, {}, {}, "q6_k"},
    Mixture{"iq3_m", "iq3_s", "q4_k", "q4_k", "q4_k", "q6_k", {}, Layers::eighth, Layers::all},
    Mixture{"iq3_s", "iq3_s", {}, "q4_k", {}, "q6_k", {}, Layers::none, Layers::all},
    Mixture{"iq3_xs",
            "iq3_xxs",
            "iq3_s",
            "q4_k",
            "iq3_s",
            "q6_k",
            "iq3_s",
            Layers::all,
            Layers::all,
            {},
            "iq3_s"},
    Mixture{"iq3_xxs", "iq3_xxs", "q4_k", "q4_k", "iq3_s", "q6_k", "iq3_s", Layers::eighth, Layers::all},
    Mixture{"q2_k", "q2_k", "q3_k", "q4_k", "q3_k", "q6_k", {}, Layers::all, Layers::all},
    Mixture{"q2_k_s", "q2_k", "q4_k", "q4_k", {}, "q6_k", {}, Layers::eighth, Layers::all},
    Mixture{"iq2_m", "iq2_s", "iq3_s", "q4_k", "iq3_s", "q5_k", "iq3_s", Layers::eighth, Layers::all},
    Mixture{"iq2_s", "iq2_xs", "iq3_s", "q4_k", "iq3_s", "q5_k", "iq3_s", Layers::eighth, Layers::all},
    Mixture{"iq2_xs", "iq2_xs", "q2_k", "q4_k", {}, "q5_k", "q2_k", Layers::eighth, Layers::all},
    Mixture{"iq2_xxs", "iq2_xxs", "q2_k", "q4_k", {}, "q5_k", "q2_k", Layers::eighth, Layers::all},
    Mixture{"iq1_m", "iq1_m", "q2_k", "q4_k", "iq2_xxs", "q5_k", "q2_k", Layers::eighth, Layers::all},
    Mixture{"iq1_s", "iq1_s", "q2_k", "q4_k", "iq2_xxs", "q5_k", "q2_k", Layers::eighth, Layers::all},
    Mixture{"tq2_0", "tq2_0", {}, {}, {}, "q6_k", "q4_k"},
    Mixture{"tq1_0", "tq1_0", {}, {}, {}, "q6_k", "q4_k"},
    // ik_llama.cpp, src/llama-quantize.cpp, of models with four experts or more and with an importance
    // matrix.
    // Left out: queries of iq2_ks and iq2_kt, and shared experts of iq2_kt, which have some two bits more.
    Mixture{"iq6_k", "iq6_k", {}, "q8_0", {}, "iq6_k", {}, Layers::none, Layers::all, "q8_0"},
    Mixture{"q6_0", "q6_0", {}, "q8_0", {}, "q6_k", {}, Layers::none, Layers::all, "q8_0"},
    Mixture{"iq5_k", "iq5_k", {}, "q8_0", {}, "q6_k", {}, Layers::none, Layers::all, "q8_0"},
    Mixture{"iq5_ks", "iq5_ks", {}, "q8_0", "q5_k", "q6_k", {}, Layers::none, Layers::all, "q8_0"},
    Mixture{"iq4_k", "iq4_k", {}, "q8_0", "q5_k", "q6_k", {}, Layers::none, Layers::all, "q8_0"},
    Mixture{"iq4_ks", "iq4_ks", {}, "q8_0", "q5_k", "q6_k", {}, Layers::none, Layers::all, "q8_0"},
    Mixture{"iq4_kss", "iq4_kss", {}, "q8_0", "q5_k", "q6_k", {}, Layers::none, Layers::all, "q8_0"},
    Mixture{"iq4_kt", "iq4_kt", {}, "q8_0", {}, "q6_k", {}, Layers::none, Layers::all, "q8_0"},
    Mixture{"iq3_k", "iq3_k", {}, "q8_0", "q5_k", "q5_k", {}, Layers::none, Layers::all, "q8_0"},
    Mixture{"iq3_ks", "iq3_ks", {}, "q8_0", "q5_k", "q5_k", {}, Layers::none, Layers::all, "q8_0"},
    Mixture{"iq3_kt", "iq3_kt", {}, "q8_0", "q5_k", "q5_k", "iq3_s", Layers::none, Layers::all, "q8_0"},
    Mixture{"iq2_kl", "iq2_kl", {}, "q8_0", "iq4_ks", "q5_k", {}, Layers::none, Layers::all, "q8_0"},
    Mixture{"iq2_k", "iq2_k", {}, "q8_0", "q5_k", "q5_k", {}, Layers::none, Layers::all, "q8_0"},
    Mixture{"iq2_ks", "iq2_ks", "q2_k", "iq4_k", "q5_k", "q5_k", {}, Layers::eighth, Layers::all, "q4_k"},
    Mixture{"iq2_kt", "iq2_kt", "iq3_k", "iq4_k", "q5_k", "q5_k", {}, Layers::eighth, Layers::all, "q4_k"},
    Mixture{"iq1_kt", "iq1_kt", {}, "q8_0", {}, "q5_k", {}, Layers::none, Layers::all, "q8_0"},
    Mixture{"mxfp4", "q8_0", {}, {}, {}, "q8_0"},  // experts apart
};

/// Formats of linear layers whose files leave the rest in 16 bits.
constexpr std::array<std::string_view, 15> kLinearOnly{
    "fp8",       "int8",     "gptq-int4", "awq",     "gptq-int8",  "awq-int8", "nvfp4",     "mxfp8",
    "int4-g128", "int4-g32", "bnb-int8",  "bnb-nf4", "bnb-nf4-dq", "bnb-fp4",  "bnb-fp4-dq"};
/// Formats of whole models.
constexpr std::array<std::string_view, 7> kWhole{"bf16",     "fp16",     "fp32",   "mlx-4bit",
                                                 "mlx-6bit", "mlx-8bit", "q4f16_1"};

double bytes_of(std::string_view format) {
  return find_weight_format(format).bits / 8;
}

bool super_blocked(std::string_view format) {
  return format.ends_with("_k") || format.starts_with("tq") ||
         (format.starts_with("iq") && format != "iq4_nl");
}

/// Bytes a weight of a matrix with rows of so many weights: types that do not divide them fall back.
double row_bytes(std::string_view format, std::int64_t row) {
  if (bytes_of(format) >= 2 || (super_blocked(format) ? row % kSuperBlock == 0 : row % kBlock == 0))
    return bytes_of(format) + find_weight_format(format).row_bytes / static_cast<double>(row);
  if (row % kBlock != 0) return bytes_of("fp16");
  if (format == "q4_k") return bytes_of("q5_0");
  if (format == "q5_k") return bytes_of("q5_1");
  if (format == "q6_k") return bytes_of("q8_0");
  return bytes_of("iq4_nl");
}

/// Whether a layer is among those; `n` layers, numbered from 0.
bool among(Layers layers, int i, int n) {
  switch (layers) {
    case Layers::none:
      return false;
    case Layers::all:
      return true;
    case Layers::more_bits:
      return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
    case Layers::eighth:
      return i < n / 8;
    case Layers::rest_of_sixteenth:
      return true;
  }
  return false;
}

std::string_view down_type(const Mixture& m, int i, int n) {
  if (m.down_layers == Layers::rest_of_sixteenth && i < n / 16) return "q5_k";
  return among(m.down_layers, i, n) ? m.down : m.base;
}

/// A weighted mean under construction.
struct Mean {
  double weights = 0, bytes = 0;
  void add(double count, double bytes_per_weight) {
    weights += count;
    bytes += count * bytes_per_weight;
  }
  double value() const { return weights > 0 ? bytes / weights : 2; }
};

/// Down-projections against the other matrices of a feed-forward part.
void add_feed_forward(const Mixture& m, int hidden, double width, int matrices, int i, int n, Mean& mean) {
  const double matrix = hidden * width;
  const bool outer = !m.outer_gate.empty() && (i < n / 8 || i >= 7 * n / 8);
  mean.add((matrices - 1) * matrix, row_bytes(outer ? m.outer_gate : m.base, hidden));
  mean.add(matrix, row_bytes(down_type(m, i, n), std::llround(width)));
}

void add_attention(const Mixture& m, const Architecture& a, const Layer& layer, int i, int n, Mean& mean) {
  const Attention& t = layer.attention;
  const double all = attention_weights(a, layer);
  double apart = 0;
  if (t.kind == Attention::Kind::kv_heads) {
    // llama.cpp gives models of eight experts larger keys and values: they are small there.
    const bool eight = layer.feed_forward.experts == 8 && bytes_of(m.base) < 1;
    const double keys = 1.0 * a.hidden * t.kv_heads * t.head_dim;
    const double values = 1.0 * a.hidden * t.kv_heads * t.value_dim;
    const double output = 1.0 * a.hidden * t.heads * t.value_dim;
    mean.add(values,
             eight ? bytes_of("q8_0") : row_bytes(among(m.value_layers, i, n) ? m.value : m.base, a.hidden));
    mean.add(keys, eight ? bytes_of("q8_0") : row_bytes(m.key.empty() ? m.base : m.key, a.hidden));
    const std::string_view out = m.output.empty() ? m.base : m.output;
    mean.add(output, row_bytes(eight && bytes_of(out) < bytes_of("q5_k") ? "q5_k" : out,
                               std::int64_t{t.heads} * t.value_dim));
    apart = keys + values + output;
  } else if (t.kind == Attention::Kind::mla) {
    // The key half of the up-projection is stored transposed, in rows of nope_dim.
    const int nope = t.head_dim - t.rope_dim;
    const double keys = 1.0 * t.kv_lora_rank * t.heads * nope;
    mean.add(keys, row_bytes(m.base, nope));
    apart = keys;
  } else if (t.kind == Attention::Kind::mamba2) {
    const std::int64_t values = std::int64_t{t.linear_value_heads} * t.value_dim;
    apart = 1.0 * a.hidden * static_cast<double>(values);
    mean.add(apart, row_bytes(m.base, values));  // the output's rows are of values
  }
  mean.add(all - apart, row_bytes(m.base, a.hidden));
}

StoredWeights gguf(const Architecture& a, const Mixture& m) {
  std::array<Mean, kWeightParts> parts;
  const auto part = [&](WeightPart p) -> Mean& { return parts[static_cast<std::size_t>(p)]; };
  const int n = static_cast<int>(a.layers.size());
  for (int i = 0; i < n; ++i) {
    const Layer& layer = a.layers[static_cast<std::size_t>(i)];
    const FeedForward& ff = layer.feed_forward;
    add_attention(m, a, layer, i, n, part(WeightPart::attention));
    if (ff.kind == FeedForward::Kind::none) continue;
    if (ff.kind == FeedForward::Kind::dense) {
      add_feed_forward(m, a.hidden, ff.width, ff.matrices, i, n, part(WeightPart::dense));
      continue;
    }
    if (ff.shared_width > 0)
      add_feed_forward(m, a.hidden, ff.shared_width, ff.matrices, i, n, part(WeightPart::shared));
    add_feed_forward(m, a.hidden, ff.width, ff.matrices, i, n, part(WeightPart::experts));
  }
  StoredWeights stored;
  stored.name = std::string(kGguf) + std::string(m.name);
  for (std::size_t p = 0; p < kWeightParts; ++p) stored.bytes[p] = parts[p].value();
  if (m.name == "mxfp4") stored.set(WeightPart::experts, bytes_of("mxfp4"));
  stored.set(WeightPart::router, bytes_of("fp32"));
  stored.set(WeightPart::embedding, row_bytes(m.embedding.empty() ? m.base : m.embedding, a.hidden));
  stored.set(WeightPart::head,
             a.hidden % kSuperBlock == 0 ? bytes_of(m.head) : std::max(bytes_of(m.head), bytes_of("q8_0")));
  return stored;
}

/// Other names of mixtures: short ones, and Unsloth's "dynamic" ones, which choose types by layer; their
/// files weigh within some 6 % of the mixture that stands for them here.
std::string_view mixture_named(std::string_view type) {
  constexpr std::array<std::array<std::string_view, 2>, 9> others{{{"q5_k", "q5_k_m"},
                                                                   {"q4_k", "q4_k_m"},
                                                                   {"q3_k", "q3_k_m"},
                                                                   {"q8_k_xl", "q8_0"},
                                                                   {"q6_k_xl", "q6_k"},
                                                                   {"q5_k_xl", "q5_k_m"},
                                                                   {"q4_k_xl", "q4_k_m"},
                                                                   {"q3_k_xl", "q3_k_m"},
                                                                   {"q2_k_xl", "q2_k"}}};
  if (type.starts_with("ud-")) type.remove_prefix(3);
  for (const auto& [other, mixture] : others)
    if (type == other) return mixture;
  return type;
}

/// Null: there is none of that name.
const Mixture* find_mixture(std::string_view type) {
  const std::string_view wanted = mixture_named(type);
  const auto mixture =
      std::find_if(kMixtures.begin(), kMixtures.end(), [&](const Mixture& m) { return m.name == wanted; });
  return mixture == kMixtures.end() ? nullptr : &*mixture;
}

StoredWeights mxfp4_experts() {
  StoredWeights stored;
  stored.name = "mxfp4";
  stored.set(WeightPart::experts, bytes_of("mxfp4"));
  return stored;
}

std::optional<StoredWeights> find_stored(const Architecture& model, std::string_view name) {
  if (name == "mxfp4") return mxfp4_experts();
  if (std::find(kWhole.begin(), kWhole.end(), name) != kWhole.end()) {
    StoredWeights stored = StoredWeights::uniform(std::string(name), bytes_of(name));
    if (bytes_of(name) < 2) stored.set(WeightPart::router, 2);
    return stored;
  }
  if (std::find(kLinearOnly.begin(), kLinearOnly.end(), name) != kLinearOnly.end()) {
    StoredWeights stored = StoredWeights::uniform(std::string(name), bytes_of(name));
    for (const WeightPart part : {WeightPart::router, WeightPart::embedding, WeightPart::head})
      stored.set(part, 2);
    return stored;
  }
  if (!name.starts_with(kGguf)) return std::nullopt;
  const Mixture* const mixture = find_mixture(name.substr(kGguf.size()));
  if (mixture == nullptr) return std::nullopt;
  StoredWeights stored = gguf(model, *mixture);
  stored.name = std::string(name);
  return stored;
}

std::string unknown_stored(std::string_view name) {
  return "unknown weight format '" + std::string(name) + "'" + suggestion(name, stored_names()) +
         "; `moelab formats` lists them";
}

/// One part's format: any of the table, or what a GGUF mixture gives that part of this model.
double part_bytes(const Architecture& model, WeightPart part, const std::string& format) {
  if (!format.starts_with(kGguf)) return bytes_of(format);
  return stored_as(model, format).of(part);
}

void read_part(const YamlMap& map, const Architecture& model, WeightPart part, StoredWeights& stored,
               std::string& text) {
  const std::string key(to_string(part));
  if (!map.has(key)) return;
  const std::string format = map.text(key);
  try {
    stored.set(part, part_bytes(model, part, format));
  } catch (const InputError& error) {
    map.fail(key, error.problems().front().what);
  }
  text += key + " " + format + ", ";
}

}  // namespace

std::vector<std::string> cache_formats() {
  return {"bf16", "fp16", "fp8", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"};
}

std::optional<double> cache_bytes(std::string_view format) {
  const std::vector<std::string> known = cache_formats();
  if (std::find(known.begin(), known.end(), format) == known.end()) return std::nullopt;
  return bytes_of(format);
}

StoredWeights stored_as(const Architecture& model, std::string_view name) {
  if (const std::optional<StoredWeights> stored = find_stored(model, name)) return *stored;
  throw InputError("", unknown_stored(name));
}

Bytes largest_expert_tensor(const Architecture& model) {
  if (!model.is_moe()) return Bytes(0);
  const FeedForward& ff = model.moe();
  double bytes = model.stored.of(WeightPart::experts);
  const std::string_view name = model.stored.name;
  const Mixture* const mixture = name.starts_with(kGguf) ? find_mixture(name.substr(kGguf.size())) : nullptr;
  const int n = static_cast<int>(model.layers.size());
  if (mixture != nullptr && mixture->name != "mxfp4")
    for (const int i : model.moe_layers())
      bytes = std::max(bytes, row_bytes(down_type(*mixture, i, n), ff.width));
  return Bytes(bytes * ff.experts * expert_tensor_weights(model, ff));
}

bool is_of_ik_llama(std::string_view name) {
  if (!name.starts_with(kGguf)) return false;
  const Mixture* const mixture = find_mixture(name.substr(kGguf.size()));
  return mixture != nullptr && find_weight_format(mixture->base).of_ik_llama;
}

std::vector<std::string> stored_names() {
  std::vector<std::string> names(kWhole.begin(), kWhole.end());
  names.insert(names.end(), kLinearOnly.begin(), kLinearOnly.end());
  names.emplace_back("mxfp4");
  for (const Mixture& m : kMixtures) names.push_back(std::string(kGguf) + std::string(m.name));
  return names;
}

std::string title_with_weights(const Architecture& model, std::uint32_t gpus, bool experts_divided) {
  if (model.stored == StoredWeights()) return model.title;
  Bytes bytes = total_bytes(model);
  std::string where;
  if (gpus > 1 && experts_divided) {
    bytes += (gpus - 1) * non_expert_bytes(model);
    where = " on " + std::to_string(gpus) + " GPUs together";
  } else if (gpus > 1) {
    where = " on each of " + std::to_string(gpus) + " GPUs";
  }
  return model.title + " (" + model.stored.name + ": " + to_string(bytes) + where + ")";
}

StoredWeights read_stored(const YamlMap& map, std::string_view key, const Architecture& model) {
  if (!map.has(key)) return model.stored;
  const YamlNode node = map.node(key);
  if (!node.is_map()) {
    const std::string name = map.text(key);
    const std::optional<StoredWeights> stored = find_stored(model, name);
    if (!stored && !name.empty()) map.fail(key, unknown_stored(name));
    return stored ? *stored : model.stored;
  }
  const YamlMap parts = map.map(key);
  StoredWeights stored = model.stored;
  if (parts.has("all")) {
    const std::string name = parts.text("all");
    if (const std::optional<StoredWeights> all = find_stored(model, name))
      stored = *all;
    else
      parts.fail("all", unknown_stored(name));
  }
  const std::string rest = stored.name;
  std::string text;
  for (std::size_t p = 0; p < kWeightParts; ++p)
    read_part(parts, model, static_cast<WeightPart>(p), stored, text);
  if (!text.empty()) stored.group = 0;  // of the parts' own formats
  if (parts.has("kv")) {
    const std::string format = parts.text("kv");
    if (const std::optional<double> bytes = cache_bytes(format))
      stored.kv = *bytes;
    else
      parts.fail("kv", "unknown format of a KV cache '" + format + "'" + suggestion(format, cache_formats()));
    text += "kv " + format + ", ";
  }
  stored.group = static_cast<int>(parts.integer("group", 0, kMostGroup, stored.group));
  parts.done();
  stored.name = text + (text.empty() ? rest : "else " + rest);
  return stored;
}

}  // namespace moelab
