#include "models/hf_import.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "models/hf_config.hpp"
#include "models/hf_hybrids.hpp"
#include "models/hf_layers.hpp"
#include "models/hf_quantization.hpp"
#include "models/model_import.hpp"
#include "models/text_file.hpp"

namespace moelab {
namespace {

using namespace hf;

// kv_heads as in src/transformers/models/*/configuration_*.py of huggingface/transformers.
constexpr std::array kFamilies{
    Family{.model_type = "llama"},
    Family{.model_type = "mistral", .kv_heads = 8},
    Family{.model_type = "qwen2", .qkv_bias = true, .kv_heads = 32},
    Family{.model_type = "qwen3", .qk_norm = true, .kv_heads = 32},
    Family{.model_type = "mixtral", .kv_heads = 8},
    Family{.model_type = "qwen2_moe", .qkv_bias = true, .shared_gate = true, .kv_heads = 16},
    Family{.model_type = "qwen3_moe", .qk_norm = true, .kv_heads = 4},
    Family{
        .model_type = "qwen3_next", .qk_norm = true, .output_gate = true, .shared_gate = true, .kv_heads = 2},
    Family{.model_type = "qwen3_5_moe",
           .qk_norm = true,
           .output_gate = true,
           .shared_gate = true,
           .kv_heads = 2},
    Family{.model_type = "qwen3_5_moe_text",
           .qk_norm = true,
           .output_gate = true,
           .shared_gate = true,
           .kv_heads = 2},
    Family{.model_type = "deepseek"},
    Family{.model_type = "deepseek_v2"},
    Family{.model_type = "deepseek_v3", .gate_bias = true},
    Family{.model_type = "kimi_k2", .gate_bias = true},
    Family{.model_type = "glm4_moe", .no_output_bias = true, .gate_bias = true, .kv_heads = 8},
    Family{.model_type = "dots1", .qk_norm = true, .gate_bias = true, .kv_heads = 32},
    Family{.model_type = "ernie4_5_moe", .gate_bias = true, .kv_heads = 4},
    Family{.model_type = "hunyuan_v1_moe", .qk_norm = true},
    Family{
        .model_type = "minimax_m2", .qk_norm = true, .qk_norm_full = true, .gate_bias = true, .kv_heads = 8},
    Family{
        .model_type = "llama4_text", .qk_norm_bare = true, .one_shared = true, .chunks = true, .kv_heads = 8},
    Family{.model_type = "olmoe", .qk_norm = true, .qk_norm_full = true},
    Family{.model_type = "gpt_oss",
           .attention_bias = true,
           .sinks = true,
           .matrix_bias = true,
           .gate_bias = true,
           .kv_heads = 8},
    Family{.model_type = "phimoe", .layer_norm_bias = true, .kv_heads = 8},
    Family{.model_type = "switch_transformers"},
    Family{.model_type = "xverse"},
    Family{.model_type = "granitemoehybrid", .hybrid = true},
    Family{.model_type = "nemotron_h", .hybrid = true, .kv_heads = 8},
};

// Keys of layers that Architecture cannot say or that this reader does not know how to place.
constexpr std::array<std::string_view, 6> kForeignKeys{"attn_layer_period",  "expert_layer_period",
                                                       "linear_attn_config", "hybrid_block_layers",
                                                       "block_types",        "conv_L_cache"};
// The same, but for the families that are known to have Mamba-2 layers.
constexpr std::array<std::string_view, 6> kStateSpaceKeys{"mamba_d_ssm",       "mamba_d_state",
                                                          "mamba_num_heads",   "hybrid_override_pattern",
                                                          "layers_block_type", "ssm_state_size"};
// Of which any says that some layers have experts.
const std::initializer_list<std::string_view> kExpertKeys{"num_local_experts", "num_experts",
                                                          "n_routed_experts", "moe_num_experts"};

/// Model types whose layers no part of Architecture describes, though keys of attention stand in their files.
struct ForeignType {
  std::string_view model_type, layers;
};
constexpr std::array kForeignTypes{ForeignType{"mamba", "Mamba-1"},
                                   ForeignType{"falcon_mamba", "Mamba-1"},
                                   ForeignType{"mamba2", "Mamba-2 alone"},
                                   ForeignType{"jamba", "Mamba-1 beside attention"},
                                   ForeignType{"zamba", "Mamba-1 and a shared attention"},
                                   ForeignType{"zamba2", "Mamba-2 and a shared attention"},
                                   ForeignType{"bamba", "Mamba-2 beside attention"},
                                   ForeignType{"falcon_h1", "Mamba-2 and attention side by side in a layer"},
                                   ForeignType{"plamo2", "Mamba beside attention"},
                                   ForeignType{"hymba", "Mamba-1 and attention side by side in a layer"},
                                   ForeignType{"rwkv", "RWKV"},
                                   ForeignType{"rwkv5", "RWKV"},
                                   ForeignType{"rwkv6", "RWKV"},
                                   ForeignType{"rwkv7", "RWKV"},
                                   ForeignType{"recurrent_gemma", "RG-LRU"},
                                   ForeignType{"xlstm", "xLSTM"},
                                   ForeignType{"retnet", "retention"},
                                   ForeignType{"minimax", "lightning attention"},
                                   ForeignType{"kimi_linear", "Kimi delta attention"},
                                   ForeignType{"lfm2", "short convolutions"},
                                   ForeignType{"lfm2_moe", "short convolutions"}};

/// Throws InputError for one of those, of which nothing else is said.
void refuse_foreign_type(const HfConfig& config, std::string_view model_type) {
  const auto found =
      std::find_if(kForeignTypes.begin(), kForeignTypes.end(),
                   [&](const ForeignType& foreign) { return foreign.model_type == model_type; });
  if (found == kForeignTypes.end()) return;
  config.fail("model_type '" + std::string(model_type) + "' has layers that are not covered (" +
              std::string(found->layers) +
              "); known beside attention: gated delta nets (qwen3_next, qwen3_5_moe) and Mamba-2 "
              "(granitemoehybrid, nemotron_h)");
  config.throw_if_any();
}

const Family* find_family(std::string_view model_type) {
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(),
                                  [&](const Family& family) { return family.model_type == model_type; });
  return found == kFamilies.end() ? nullptr : &*found;
}

// A number that some files (Hunyuan's) state once a layer: it has to be the same in all.
int of_every_layer(const HfConfig& config, HfConfig::Keys keys, int layers, int low, int high) {
  const std::vector<int> numbers = config.integers(keys, low, high).value_or(std::vector<int>{});
  const auto same = std::count(numbers.begin(), numbers.end(), numbers.empty() ? low : numbers.front());
  if (same == layers && numbers.size() == static_cast<std::size_t>(layers)) return numbers.front();
  const auto* key =
      std::find_if(keys.begin(), keys.end(), [&](std::string_view k) { return config.has({k}); });
  config.fail("'" + std::string(*key) + "' has to be a number, or the same one for each of " +
              std::to_string(layers) + " layers");
  return low;
}

int one_or_each(const HfConfig& config, HfConfig::Keys keys, int layers, int high) {
  return config.is_list(keys) ? of_every_layer(config, keys, layers, 1, high)
                              : config.required(keys, 1, high);
}

// The width of all shared experts together.
int shared_width(const HfConfig& config, const Family& family, int layers, int width) {
  const HfConfig::Keys counts{"n_shared_experts", "num_shared_experts", "moe_num_shared_experts",
                              "num_shared_expert"};
  const int count = config.is_list(counts) ? of_every_layer(config, counts, layers, 0, kMostExperts)
                                           : config.integer_or(counts, 0, kMostExperts, family.one_shared);
  const std::int64_t wide = std::int64_t{count} * width;
  if (wide > kMostWidth) config.fail("the shared experts are wider than " + std::to_string(kMostWidth));
  return config.integer_or({"shared_expert_intermediate_size", "shared_intermediate_size"}, 0, kMostWidth,
                           static_cast<int>(std::min<std::int64_t>(wide, kMostWidth)));
}

FeedForward moe_part(const HfConfig& config, const Family& family, int layers) {
  FeedForward ff;
  ff.kind = FeedForward::Kind::moe;
  ff.experts = config.required(kExpertKeys, 1, kMostExperts);
  ff.top_k =
      one_or_each(config, {"num_experts_per_tok", "experts_per_token", "moe_top_k", "moe_topk", "moe_k"},
                  layers, kMostExperts);
  ff.width = one_or_each(config, {"moe_intermediate_size", "intermediate_size"}, layers, kMostWidth);
  ff.shared_width = shared_width(config, family, layers, ff.width);
  ff.shared_gate = family.shared_gate && ff.shared_width > 0;
  ff.bias = family.matrix_bias;
  ff.gate_bias = family.gate_bias || config.text({"topk_method"}) == "noaux_tc";
  return ff;
}

void read_decoder(const HfConfig& config, const Family& family, Architecture& a) {
  const int layers = config.required({"num_hidden_layers", "num_layers", "n_layer"}, 1, kMostLayers);
  a.embedding_copies = config.boolean({"tie_word_embeddings"}, false) ? 1 : 2;
  const std::vector<Attention> attention = attentions(config, family, a.hidden, layers);
  // What only a model with experts has says that it is one: then their number has to be there.
  const bool any_experts =
      config.has(kExpertKeys) || config.has({"num_experts_per_tok", "num_experts_per_token", "moe_top_k",
                                             "num_selected_experts", "moe_intermediate_size"});
  const std::vector<bool> moe =
      any_experts ? moe_flags(config, layers) : std::vector<bool>(static_cast<std::size_t>(layers), false);
  const FeedForward experts = any_experts ? moe_part(config, family, layers) : FeedForward{};
  FeedForward dense;
  if (std::find(moe.begin(), moe.end(), false) != moe.end()) {
    dense.width = config.required({"intermediate_size_mlp", "intermediate_size"}, 1, kMostWidth);
    dense.bias = family.matrix_bias;
  }
  for (std::size_t i = 0; i < moe.size(); ++i) {
    a.layers.push_back({Stack::decoder, attention[i], false, moe[i] ? experts : dense});
  }
  if (family.layer_norm_bias) a.extra_weights += (2.0 * layers + 1) * a.hidden;
  if (config.boolean({"lm_head_bias"}, false)) a.extra_weights += a.vocab;
}

// One stack of a Switch Transformer: with a step of n > 1, layers 1, n + 1, 2n + 1, ... have experts.
void add_switch_stack(Stack stack, int layers, int step, const Attention& attention, const FeedForward& moe,
                      Architecture& a) {
  FeedForward dense;
  dense.width = moe.width;
  dense.matrices = moe.matrices;
  for (int i = 0; i < layers; ++i) {
    const bool sparse = step == 1 || (step > 1 && i % step == 1);
    a.layers.push_back({stack, attention, stack == Stack::decoder, sparse ? moe : dense});
  }
}

void read_switch(const HfConfig& config, const Family& family, Architecture& a) {
  const Attention attention = full_attention(config, family, a.hidden);
  FeedForward moe;
  moe.kind = FeedForward::Kind::moe;
  moe.experts = config.required({"num_experts"}, 1, kMostExperts);
  moe.top_k = 1;
  moe.width = config.required({"d_ff"}, 1, kMostWidth);
  moe.matrices = config.boolean({"is_gated_act"}, false) ? 3 : 2;
  moe.gate_bias = config.boolean({"router_bias"}, false);
  const int encoder = config.required({"num_layers"}, 1, kMostLayers);
  const int decoder = config.integer_or({"num_decoder_layers"}, 1, kMostLayers, encoder);
  const int encoder_step = config.required({"encoder_sparse_step"}, 0, kMostLayers);
  const int decoder_step = config.required({"decoder_sparse_step"}, 0, kMostLayers);
  add_switch_stack(Stack::encoder, encoder, encoder_step, attention, moe, a);
  add_switch_stack(Stack::decoder, decoder, decoder_step, attention, moe, a);
  a.embedding_copies = 4;  // shared, of the encoder, of the decoder, and the output's
  const int buckets = config.integer_or({"relative_attention_num_buckets"}, 0, 1'000'000, 32);
  a.extra_weights = 2.0 * buckets * attention.heads;
}

std::string source_text(const HfConfig& config, const std::filesystem::path& file, const Family* family) {
  const std::string type = config.text({"model_type"});
  std::string text = file.filename().string() + ", model_type " + (type.empty() ? "not given" : type);
  if (!family)
    text += "; " + std::string(kUnknownModelType) + ": read by its keys alone, check biases and norms";
  if (!config.has(kKvHeadKeys) && !config.has({"kv_lora_rank"}) && type != "switch_transformers")
    text += "; " + std::string(kNoKvHeads) +
            (family && family->kv_heads > 0
                 ? ": transformers' default for " + type + " is taken, " + std::to_string(family->kv_heads)
                 : std::string(": taken as the number of attention heads"));
  if (config.integer_or({"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"}, 0,
                        kMostLayers, 0) > 0) {
    text += "; the multi-token prediction layers are left out";
  }
  if (family && family->chunks) text += "; chunks are described as windows";
  if (config.has({"index_topk"})) text += "; its sparse attention is taken as full";
  return text;
}

// A file called config.json is known by its folder.
std::string default_title(const std::filesystem::path& file) {
  const std::string title =
      file.filename() == "config.json" ? file.parent_path().filename().string() : file.stem().string();
  return title.empty() ? "imported" : title;
}

// MiniMax: 1 is full attention, 0 a linear kind. Hunyuan: layers that share keys and values.
void refuse_foreign_attention(const HfConfig& config) {
  const std::vector<int> types = config.integers({"attn_type_list"}, 0, 1).value_or(std::vector<int>{});
  if (std::find(types.begin(), types.end(), 0) != types.end())
    config.fail("'attn_type_list': this kind of layers is not covered");
  if (config.boolean({"use_cla"}, false))
    config.fail("'use_cla': layers that share keys and values are not covered");
}

void check(const HfConfig& config, const Family* family, const std::string& model_type,
           const Architecture& a) {
  const auto refuse = [&](std::string_view key) {
    if (config.has({key})) config.fail("'" + std::string(key) + "': this kind of layers is not covered");
  };
  const bool hybrid = family && family->hybrid;
  std::for_each(kForeignKeys.begin(), kForeignKeys.end(), refuse);
  refuse_foreign_attention(config);
  if (!hybrid) std::for_each(kStateSpaceKeys.begin(), kStateSpaceKeys.end(), refuse);
  if (!family && config.boolean({"is_encoder_decoder"}, false)) {
    config.fail("of encoder-decoder models only model_type switch_transformers is covered");
  }
  try {
    config.throw_if_any();
  } catch (const InputError&) {
    if (!family) {
      config.fail("model_type '" + model_type.substr(0, 60) +
                  "' is not known by name, so its keys have to be those of a known family");
    }
    config.throw_if_any();
  }
  for (const Layer& layer : a.layers) {
    const std::optional<Fault> found = fault(layer);
    if (!found) continue;
    config.fail(found->what);
    break;
  }
  if (const std::optional<Fault> found = fault(a)) config.fail(found->what);
  if (const std::optional<Fault> found = lack_of_experts(a); found && config.has(kExpertKeys) && !hybrid)
    config.fail(found->what);
  config.throw_if_any();
}

Architecture read_config(const HfConfig& config, const HfConfig* quantization, const std::string& file,
                         const std::string& name) {
  const std::string model_type = config.text({"model_type"});
  refuse_foreign_type(config, model_type);
  const Family* known = find_family(model_type);
  const Family family = known ? *known : Family{.model_type = model_type};
  Architecture a;
  a.title = name.empty() ? default_title(file) : name;
  a.name = model_file_name(a.title);
  a.source = source_text(config, file, known);
  a.hidden = config.required({"hidden_size", "d_model", "n_embd"}, 1, 1'000'000);
  a.vocab = config.required({"vocab_size"}, 1, 100'000'000);
  if (family.model_type == "switch_transformers") {
    read_switch(config, family, a);
  } else if (family.model_type == "granitemoehybrid") {
    read_granite_hybrid(config, family, a);
  } else if (family.model_type == "nemotron_h") {
    read_nemotron_h(config, family, a);
  } else {
    read_decoder(config, family, a);
  }
  check(config, known, model_type, a);
  a.stored = read_quantization(config, quantization, a, a.source);
  config.throw_if_any();
  return a;
}

}  // namespace

Architecture parse_hf_config(const std::string& file, std::string_view text, const std::string& name) {
  return read_config(HfConfig(file, text), nullptr, file, name);
}

Architecture import_hf_config(const std::string& path, const std::string& name) {
  const std::filesystem::path whole = std::filesystem::absolute(path);
  const std::string title = name.empty() ? default_title(whole) : name;
  const HfConfig config(path, read_text_file(path));
  const std::filesystem::path beside = whole.parent_path() / "hf_quant_config.json";
  std::error_code error;
  if (whole.filename() != "config.json" || !std::filesystem::is_regular_file(beside, error))
    return read_config(config, nullptr, path, title);
  const HfConfig quantization(beside.string(), read_text_file(beside.string()));
  return read_config(config, &quantization, path, title);
}

}  // namespace moelab
