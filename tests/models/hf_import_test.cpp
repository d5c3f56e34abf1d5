#include "models/hf_import.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>

#include "models/model_import.hpp"
#include "tests/models/model_files.hpp"
#include "tests/models/random_architecture.hpp"
#include "tests/random_runs.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::hf_import_test {
namespace {

using test::Dice;
using test::model_of_file;

// What the public config.json of each family says (the keys that describe the architecture, and some that do
// not).
struct Published {
  std::string_view model;  // of configs/models
  std::string_view config;
};

const std::vector<Published> kPublished{
    {"mixtral-8x7b",
     R"({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_act": "silu",
 "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768, "num_attention_heads": 32,
 "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8,
 "rms_norm_eps": 1e-05, "sliding_window": null, "tie_word_embeddings": false, "vocab_size": 32000})"},
    {"mixtral-8x22b", R"({"model_type": "mixtral", "hidden_size": 6144, "intermediate_size": 16384,
 "max_position_embeddings": 65536, "num_attention_heads": 48, "num_experts_per_tok": 2, "num_hidden_layers": 56,
 "num_key_value_heads": 8, "num_local_experts": 8, "sliding_window": null, "tie_word_embeddings": false,
 "vocab_size": 32000})"},
    {"qwen1.5-moe-a2.7b", R"({"model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632,
 "max_position_embeddings": 8192, "max_window_layers": 21, "num_attention_heads": 16, "num_hidden_layers": 24,
 "num_key_value_heads": 16, "sliding_window": 4096, "tie_word_embeddings": false, "use_sliding_window": false,
 "vocab_size": 151936, "decoder_sparse_step": 1, "moe_intermediate_size": 1408,
 "shared_expert_intermediate_size": 5632, "num_experts_per_tok": 4, "num_experts": 60, "norm_topk_prob": false})"},
    {"qwen2-57b-a14b", R"({"model_type": "qwen2_moe", "hidden_size": 3584, "intermediate_size": 18944,
 "max_position_embeddings": 131072, "max_window_layers": 28, "num_attention_heads": 28, "num_hidden_layers": 28,
 "num_key_value_heads": 4, "sliding_window": 65536, "tie_word_embeddings": false, "use_sliding_window": false,
 "vocab_size": 151936, "decoder_sparse_step": 1, "moe_intermediate_size": 2560,
 "shared_expert_intermediate_size": 20480, "num_experts_per_tok": 8, "num_experts": 64})"},
    {"qwen3-30b-a3b", R"({"model_type": "qwen3_moe", "attention_bias": false, "decoder_sparse_step": 1,
 "head_dim": 128, "hidden_size": 2048, "intermediate_size": 6144, "max_position_embeddings": 40960,
 "max_window_layers": 48, "mlp_only_layers": [], "moe_intermediate_size": 768, "num_attention_heads": 32,
 "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4,
 "sliding_window": null, "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 151936})"},
    {"qwen3-235b-a22b", R"({"model_type": "qwen3_moe", "attention_bias": false, "decoder_sparse_step": 1,
 "head_dim": 128, "hidden_size": 4096, "intermediate_size": 12288, "max_position_embeddings": 40960,
 "max_window_layers": 94, "mlp_only_layers": [], "moe_intermediate_size": 1536, "num_attention_heads": 64,
 "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 94, "num_key_value_heads": 4,
 "sliding_window": null, "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 151936})"},
    {"qwen3-next-80b-a3b",
     R"({"model_type": "qwen3_next", "decoder_sparse_step": 1, "full_attention_interval": 4,
 "head_dim": 256, "hidden_size": 2048, "intermediate_size": 5120, "linear_conv_kernel_dim": 4,
 "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
 "linear_value_head_dim": 128, "max_position_embeddings": 262144, "mlp_only_layers": [],
 "moe_intermediate_size": 512, "num_attention_heads": 16, "num_experts": 512, "num_experts_per_tok": 10,
 "num_hidden_layers": 48, "num_key_value_heads": 2, "partial_rotary_factor": 0.25, "rope_scaling": null,
 "shared_expert_intermediate_size": 512, "tie_word_embeddings": false, "use_sliding_window": false,
 "vocab_size": 151936})"},
    {"deepseek-moe-16b", R"({"model_type": "deepseek", "attention_bias": false, "first_k_dense_replace": 1,
 "hidden_size": 2048, "intermediate_size": 10944, "max_position_embeddings": 4096, "moe_intermediate_size": 1408,
 "moe_layer_freq": 1, "n_routed_experts": 64, "n_shared_experts": 2, "num_attention_heads": 16,
 "num_experts_per_tok": 6, "num_hidden_layers": 28, "num_key_value_heads": 16, "tie_word_embeddings": false,
 "vocab_size": 102400})"},
    {"deepseek-v2-lite", R"({"model_type": "deepseek_v2", "attention_bias": false, "first_k_dense_replace": 1,
 "hidden_size": 2048, "intermediate_size": 10944, "kv_lora_rank": 512, "max_position_embeddings": 163840,
 "moe_intermediate_size": 1408, "moe_layer_freq": 1, "n_routed_experts": 64, "n_shared_experts": 2,
 "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 27, "num_key_value_heads": 16,
 "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "scoring_func": "softmax",
 "tie_word_embeddings": false, "topk_method": "greedy", "v_head_dim": 128, "vocab_size": 102400})"},
    {"deepseek-v3", R"({"model_type": "deepseek_v3", "attention_bias": false, "ep_size": 1,
 "first_k_dense_replace": 3, "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512,
 "max_position_embeddings": 163840, "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8,
 "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 128, "num_experts_per_tok": 8,
 "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536,
 "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "quantization_config": {"fmt": "e4m3", "quant_method": "fp8",
 "weight_block_size": [128, 128]}, "tie_word_embeddings": false, "topk_method": "noaux_tc", "v_head_dim": 128,
 "vocab_size": 129280})"},
    {"kimi-k2",
     R"({"architectures": ["DeepseekV3ForCausalLM"], "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}, "model_type": "kimi_k2",
 "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 64, "num_key_value_heads": 64,
 "intermediate_size": 18432, "vocab_size": 163840, "max_position_embeddings": 131072, "n_routed_experts": 384,
 "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "moe_layer_freq": 1,
 "first_k_dense_replace": 1, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
 "qk_rope_head_dim": 64, "v_head_dim": 128, "routed_scaling_factor": 2.827, "tie_word_embeddings": false})"},
    {"olmoe-1b-7b", R"({"model_type": "olmoe", "attention_bias": false, "clip_qkv": null, "hidden_size": 2048,
 "intermediate_size": 1024, "max_position_embeddings": 4096, "num_attention_heads": 16, "num_experts": 64,
 "num_experts_per_tok": 8, "num_hidden_layers": 16, "num_key_value_heads": 16, "tie_word_embeddings": false,
 "vocab_size": 50304})"},
    {"gpt-oss-20b",
     R"({"model_type": "gpt_oss", "attention_bias": true, "experts_per_token": 4, "head_dim": 64,
 "hidden_size": 2880, "intermediate_size": 2880, "layer_types": ["sliding_attention", "full_attention",
 "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
 "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
 "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
 "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
 "sliding_attention", "full_attention"], "max_position_embeddings": 131072, "num_attention_heads": 64,
 "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 8, "num_local_experts": 32,
 "quantization_config": {"quant_method": "mxfp4"}, "sliding_window": 128, "swiglu_limit": 7.0,
 "tie_word_embeddings": false, "vocab_size": 201088})"},
    // without layer_types, which then alternate from a window on
    {"gpt-oss-120b", R"({"model_type": "gpt_oss", "head_dim": 64, "hidden_size": 2880,
 "intermediate_size": 2880, "max_position_embeddings": 131072, "num_attention_heads": 64,
 "num_experts_per_tok": 4, "num_hidden_layers": 36, "num_key_value_heads": 8, "num_local_experts": 128,
 "quantization_config": {"quant_method": "mxfp4"}, "sliding_window": 128, "tie_word_embeddings": false,
 "vocab_size": 201088})"},
    {"phi-3.5-moe", R"({"model_type": "phimoe", "attention_bias": true, "hidden_size": 4096,
 "intermediate_size": 6400, "lm_head_bias": true, "max_position_embeddings": 131072, "num_attention_heads": 32,
 "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 16,
 "rope_scaling": {"long_factor": [1.02, 1.03], "type": "longrope"}, "sliding_window": 131072,
 "tie_word_embeddings": false, "vocab_size": 32064})"},
    {"xverse-moe-a4.2b", R"({"model_type": "xverse", "hidden_size": 2560, "intermediate_size": 1728,
 "max_position_embeddings": 8192, "num_attention_heads": 32, "num_hidden_layers": 28,
 "tie_word_embeddings": false, "moe_top_k": 6, "num_experts": 64, "num_shared_experts": 2,
 "vocab_size": 100534})"},
    {"switch-large-128", R"({"model_type": "switch_transformers", "d_ff": 4096, "d_kv": 64, "d_model": 1024,
 "decoder_sparse_step": 2, "encoder_sparse_step": 2, "expert_capacity": 64, "feed_forward_proj": "relu",
 "is_encoder_decoder": true, "is_gated_act": false, "num_decoder_layers": 24, "num_experts": 128, "num_heads": 16,
 "num_layers": 24, "num_sparse_decoder_layers": 12, "num_sparse_encoder_layers": 12,
 "relative_attention_max_distance": 128, "relative_attention_num_buckets": 32, "router_bias": false,
 "vocab_size": 32128})"},
};

std::string_view config_of(std::string_view model) {
  const auto found = std::find_if(kPublished.begin(), kPublished.end(),
                                  [&](const Published& p) { return p.model == model; });
  REQUIRE(found != kPublished.end());
  return found->config;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result(text);
  const std::size_t at = result.find(from);
  REQUIRE(at != std::string::npos);
  return result.replace(at, from.size(), to);
}

Architecture imported(std::string_view text) {
  return parse_hf_config("some/Folder-1.5/config.json", text);
}

// The problems of a text that must not be accepted, in one string.
std::string refusal(std::string_view text) {
  try {
    imported(text);
  } catch (const InputError& error) {
    std::string all;
    for (const Problem& problem : error.problems()) all += to_string(problem) + "\n";
    return all;
  }
  return "accepted";
}

TEST_CASE("the published configuration of each family is the architecture of its model file", "[hf]") {
  CHECK(kPublished.size() == test::kModelNames.size());
  for (const Published& p : kPublished) {
    INFO(p.model);
    const Architecture ours = model_of_file(p.model);
    const Architecture theirs = imported(p.config);
    CHECK(theirs.hidden == ours.hidden);
    CHECK(theirs.vocab == ours.vocab);
    CHECK(theirs.embedding_copies == ours.embedding_copies);
    CHECK(theirs.extra_weights == ours.extra_weights);
    CHECK(theirs.stored == ours.stored);
    CHECK((theirs.layers == ours.layers));
    CHECK(total_weights(theirs) == total_weights(ours));
    CHECK(active_weights(theirs) == active_weights(ours));
    CHECK(test::model_of_text(architecture_to_yaml(theirs)) == theirs);
  }
}

TEST_CASE("an imported model is called as its folder, its file or as asked", "[hf]") {
  const std::string_view config = config_of("mixtral-8x7b");
  CHECK(parse_hf_config("models/Mixtral-8x7B v0.1/config.json", config).name == "mixtral-8x7b-v0.1");
  CHECK(parse_hf_config("models/Mixtral-8x7B v0.1/config.json", config).title == "Mixtral-8x7B v0.1");
  CHECK(parse_hf_config("models/Mixtral.json", config).name == "mixtral");
  CHECK(parse_hf_config("config.json", config).name == "imported");
  CHECK(parse_hf_config("config.json", config, "Mine").name == "mine");
  CHECK(parse_hf_config("config.json", config, "My_model+v1.0").name == "my_model-v1.0");
}

TEST_CASE("a configuration's own quantisation is read, and one that is not known is named", "[hf]") {
  const auto with = [](const std::string& quantisation) {
    return replaced(config_of("mixtral-8x7b"), "\"model_type\"",
                    "\"quantization_config\": {" + quantisation + "}, \"model_type\"");
  };
  CHECK(imported(with(R"("quant_method": "awq", "bits": 4)")).stored.name == "awq");
  CHECK(imported(with(R"("quant_method": "gptq", "bits": 4)")).stored.name == "gptq-int4");
  CHECK(imported(with(R"("quant_method": "gptq", "bits": 8)")).stored.name == "gptq-int8");
  CHECK(imported(with(R"("quant_method": "fp8")")).stored.name == "fp8");
  CHECK(refusal(with(R"("bits": 4)")).find("no quant_method") != std::string::npos);  // as MLX writes it
  CHECK(refusal(with("")).find("no quant_method") != std::string::npos);
  CHECK(refusal(with(R"("quant_method": "gptq", "bits": 3)")).find("gptq' of 3 bits") != std::string::npos);
  CHECK(refusal(with(R"("quant_method": "quip")")).find("quip") != std::string::npos);
  CHECK(refusal(with(R"("quant_method": 7)")).find("must be a string") != std::string::npos);
}

TEST_CASE("groups of weights with one scale are those of the configuration", "[hf]") {
  const auto stored = [](const std::string& quantisation) {
    return imported(replaced(config_of("mixtral-8x7b"), "\"model_type\"",
                             "\"quantization_config\": {" + quantisation + "}, \"model_type\""))
        .stored;
  };
  const auto experts = [](const StoredWeights& s) { return scale_group(s, WeightPart::experts); };
  // Blocks; none: one scale a matrix. Embedding, head and router have none.
  const StoredWeights blocks = stored(R"("quant_method": "fp8", "weight_block_size": [64, 128])");
  CHECK(experts(blocks) == 128);
  CHECK(scale_group(blocks, WeightPart::head) == 1);
  CHECK(experts(stored(R"("quant_method": "fp8")")) == 1);
  // 128 where nothing is said. A group has 16 bits of scale and a zero as wide as a weight.
  CHECK(stored(R"("quant_method": "gptq", "bits": 4, "group_size": 128)") ==
        stored(R"("quant_method": "gptq", "bits": 4)"));
  CHECK(experts(stored(R"("quant_method": "gptq", "bits": 8)")) == 128);
  for (const auto& [method, bits, group] :
       {std::tuple("gptq", 4, 32), std::tuple("gptq", 8, 64), std::tuple("awq", 4, 64)}) {
    const StoredWeights s =
        stored("\"quant_method\": \"" + std::string(method) + "\", \"bits\": " + std::to_string(bits) +
               ", \"group_size\": " + std::to_string(group));
    CAPTURE(method, bits, group);
    CHECK(experts(s) == group);
    CHECK(8 * s.of(WeightPart::experts) == Approx(bits + (16.0 + bits) / group));
    CHECK(s.of(WeightPart::router) == 2);
  }
  const StoredWeights channel = stored(R"("quant_method": "gptq", "bits": 4, "group_size": -1)");
  CHECK(experts(channel) == 1);
  CHECK(channel.of(WeightPart::experts) == 0.5);
  const auto with = [](const std::string& quantisation) {
    return replaced(config_of("mixtral-8x7b"), "\"model_type\"",
                    "\"quantization_config\": {" + quantisation + "}, \"model_type\"");
  };
  for (const char* wrong :
       {R"("quant_method": "gptq", "bits": 4, "group_size": 0)", R"("quant_method": "awq", "group_size": -2)",
        R"("quant_method": "fp8", "weight_block_size": [0, 128])"})
    CHECK(refusal(with(wrong)).find("quantization_config") != std::string::npos);
  // A model file says the same.
  const Architecture a = imported(with(R"("quant_method": "fp8", "weight_block_size": [128, 128])"));
  CHECK(test::model_of_text(architecture_to_yaml(a)).stored == a.stored);
}

TEST_CASE("the source of an import says what was assumed", "[hf]") {
  const std::string v3 = imported(config_of("deepseek-v3")).source;
  CHECK(v3.find("deepseek_v3") != std::string::npos);
  CHECK(v3.find("multi-token") != std::string::npos);
  CHECK(v3.find("not known by name") == std::string::npos);
  const std::string other = imported(replaced(config_of("mixtral-8x7b"), "\"mixtral\"", "\"newmoe\"")).source;
  CHECK(other.find("not known by name") != std::string::npos);
}

TEST_CASE("without a number of key-value heads transformers' default is taken, and said", "[hf]") {
  const auto without = [](const std::string& model) {
    return replaced(config_of(model), "\"num_key_value_heads\"", "\"unread\"");
  };
  // As configuration_qwen3_moe.py, configuration_mixtral.py and configuration_qwen3_next.py have it.
  for (const auto& [model, heads] :
       {std::pair{"qwen3-30b-a3b", 4}, std::pair{"mixtral-8x7b", 8}, std::pair{"qwen3-next-80b-a3b", 2}}) {
    const Architecture a = imported(without(model));
    CHECK(a.layers.back().attention.kv_heads == heads);
    CHECK(a.source.find("'num_key_value_heads' is not given: transformers' default") != std::string::npos);
    CHECK(import_note(a) == a.source);
    CHECK(import_note(imported(config_of(model))).empty());
  }
  const std::string newmoe = replaced(without("mixtral-8x7b"), "\"mixtral\"", "\"newmoe\"");
  CHECK(imported(newmoe).layers.back().attention.kv_heads == 32);
  CHECK(imported(newmoe).source.find("taken as the number of attention heads") != std::string::npos);
  CHECK(import_note(imported(config_of("deepseek-v3"))).empty());  // a latent has no key-value heads
}

TEST_CASE("state spaces and hybrids that are not covered are refused by name, attention's keys or not",
          "[hf]") {
  for (const char* type : {"mamba", "mamba2", "falcon_mamba", "jamba", "rwkv", "rwkv7", "falcon_h1", "bamba",
                           "zamba2", "recurrent_gemma", "kimi_linear", "lfm2_moe", "minimax"}) {
    CAPTURE(type);
    const std::string config =
        replaced(config_of("mixtral-8x7b"), "\"mixtral\"", "\"" + std::string(type) + "\"");
    const std::string told = refusal(config);
    CHECK(told.find("model_type '" + std::string(type) + "' has layers that are not covered") !=
          std::string::npos);
    // Also where there is no key of attention, which is then not what is missing.
    CHECK(refusal("{\"model_type\": \"" + std::string(type) + "\"}").find("num_attention_heads") ==
          std::string::npos);
  }
}

TEST_CASE("a family that is not known is read by the names of its keys", "[hf]") {
  const std::string newmoe = replaced(config_of("deepseek-v3"), "\"deepseek_v3\"", "\"newmoe\"");
  CHECK((imported(newmoe).layers == model_of_file("deepseek-v3").layers));  // noaux_tc says the gate's bias
  const std::string inner = "{\"model_type\": \"vision\", \"text_config\": " + newmoe + "}";
  CHECK((imported(inner).layers == model_of_file("deepseek-v3").layers));
}

TEST_CASE("keys that place dense layers, shared experts, windows and biases", "[hf]") {
  const std::string_view qwen = config_of("qwen3-30b-a3b");
  // decoder_sparse_step 3: layers 2, 5, 8, ... have experts; mlp_only_layers takes away layer 5
  Architecture a =
      imported(replaced(replaced(qwen, "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 3"),
                        "\"mlp_only_layers\": []", "\"mlp_only_layers\": [5]"));
  for (int i = 0; i < 48; ++i) {
    const FeedForward& ff = a.layers[static_cast<std::size_t>(i)].feed_forward;
    CHECK((ff.kind == FeedForward::Kind::moe) == (i % 3 == 2 && i != 5));
    if (ff.kind == FeedForward::Kind::dense) CHECK(ff.width == 6144);
  }
  // moe_layer_freq 2 after one dense layer: 2, 4, 6, ...
  const std::string_view lite = config_of("deepseek-v2-lite");
  a = imported(replaced(lite, "\"moe_layer_freq\": 1", "\"moe_layer_freq\": 2"));
  CHECK(a.moe_layers().front() == 2);
  CHECK(a.moe_layers().size() == 13);
  std::string flags = "\"moe_layer_freq\": [0";
  for (int i = 1; i < 27; ++i) flags += i % 4 == 0 ? ", 1" : ", 0";
  a = imported(replaced(lite, "\"moe_layer_freq\": 1", flags + "]"));
  CHECK(a.moe_layers() == std::vector<int>{4, 8, 12, 16, 20, 24});
  CHECK(
      imported(replaced(lite, "\"n_shared_experts\": 2", "\"n_shared_experts\": null")).moe().shared_width ==
      0);
  // Mistral's window in every layer; Qwen's from max_window_layers on
  a = imported(replaced(config_of("mixtral-8x7b"), "\"sliding_window\": null", "\"sliding_window\": 4096"));
  for (const Layer& layer : a.layers) CHECK(layer.attention.window == 4096);
  a = imported(replaced(config_of("qwen1.5-moe-a2.7b"), "\"use_sliding_window\": false",
                        "\"use_sliding_window\": true"));
  for (std::size_t i = 0; i < 24; ++i) CHECK(a.layers[i].attention.window == (i >= 21 ? 4096 : 0));
  // biases: of four projections, or of three
  a = imported(replaced(qwen, "\"attention_bias\": false", "\"attention_bias\": true"));
  CHECK((a.layers[0].attention.bias && a.layers[0].attention.output_bias));
  a = imported(replaced(qwen, "\"attention_bias\": false", "\"qkv_bias\": true"));
  CHECK((a.layers[0].attention.bias && !a.layers[0].attention.output_bias));
  a = imported(replaced(qwen, "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true"));
  CHECK(a.embedding_copies == 1);
}

TEST_CASE("a wrong configuration is an error that names the key", "[hf]") {
  struct Case {
    std::string_view from, to, said;
  };
  const std::vector<Case> cases{
      {"\"hidden_size\": 2048", "\"hidden_size\": \"2048\"", "'hidden_size' must be an integer"},
      {"\"hidden_size\": 2048", "\"hidden_size\": 2048.5", "'hidden_size'"},
      {"\"hidden_size\": 2048", "\"hidden_size\": -1", "'hidden_size'"},
      {"\"hidden_size\": 2048", "\"hidden_size\": 18446744073709551615", "'hidden_size'"},
      {"\"hidden_size\": 2048", "\"hidden_size\": 1e400", "not JSON"},
      {"\"hidden_size\": 2048,", "", "'hidden_size', 'd_model', 'n_embd'"},
      {"\"num_hidden_layers\": 27", "\"num_hidden_layers\": 1000000000", "'num_hidden_layers'"},
      {"\"num_hidden_layers\": 27", "\"num_hidden_layers\": 1", "no layer has experts"},
      {"\"num_experts_per_tok\": 6", "\"num_experts_per_tok\": 65", "top_k"},
      {"\"num_experts_per_tok\": 6", "\"num_experts_per_tok\": [6]", "'num_experts_per_tok'"},
      {"\"moe_layer_freq\": 1", "\"moe_layer_freq\": 0", "'moe_layer_freq'"},
      {"\"moe_layer_freq\": 1", "\"moe_layer_freq\": [1, 1]", "'moe_layer_freq'"},
      {"\"moe_layer_freq\": 1", "\"moe_layer_freq\": [1, {}]", "'moe_layer_freq[1]'"},
      {"\"moe_layer_freq\": 1", "\"mlp_only_layers\": [27]", "'mlp_only_layers[0]'"},
      {"\"moe_layer_freq\": 1", "\"mlp_only_layers\": 3", "'mlp_only_layers'"},
      {"\"moe_layer_freq\": 1", "\"layer_types\": [\"full_attention\"]", "'layer_types'"},
      {"\"moe_layer_freq\": 1", "\"layer_types\": [1]", "'layer_types'"},
      {"\"moe_layer_freq\": 1", "\"mamba_d_state\": 16", "'mamba_d_state'"},
      {"\"moe_layer_freq\": 1", "\"mamba_d_ssm\": 1536", "'mamba_d_ssm'"},
      {"\"n_shared_experts\": 2", "\"n_shared_experts\": 65536", "shared"},
      {"\"qk_rope_head_dim\": 64,", "", "'qk_rope_head_dim'"},
      {"\"tie_word_embeddings\": false", "\"tie_word_embeddings\": 0", "'tie_word_embeddings'"},
      {"\"topk_method\": \"greedy\"", "\"topk_method\": 1", "'topk_method'"},
      {"\"intermediate_size\": 10944, ", "", "'intermediate_size'"},
  };
  for (const Case& c : cases) {
    INFO(c.to);
    const std::string said = refusal(replaced(config_of("deepseek-v2-lite"), c.from, c.to));
    INFO(said);
    CHECK(said.find(c.said) != std::string::npos);
  }
  const std::string_view mixtral = config_of("mixtral-8x7b");
  CHECK(refusal(replaced(mixtral, "\"num_attention_heads\": 32", "\"num_attention_heads\": 24"))
            .find("'head_dim'") != std::string::npos);
  CHECK(refusal(replaced(mixtral, "\"num_key_value_heads\": 8", "\"num_key_value_heads\": 5"))
            .find("kv_heads") != std::string::npos);
}

TEST_CASE("a configuration without experts is a dense model, where its keys are known", "[hf]") {
  // Llama 3.1 8B: 8.03 billion parameters by its model card.
  const Architecture a = parse_hf_config("config.json", R"({"model_type": "llama", "hidden_size": 4096,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "intermediate_size": 14336, "tie_word_embeddings": false})");
  CHECK_FALSE(a.is_moe());
  CHECK(total_weights(a) == Approx(8.03e9).epsilon(1e-3));
  CHECK(total_weights(a) == active_weights(a));
  CHECK((a.layers == model_of_file("llama-3.1-8b").layers));
  const Architecture qwen = parse_hf_config("config.json", R"({"model_type": "qwen3", "attention_bias": false,
    "head_dim": 128, "hidden_size": 5120, "intermediate_size": 25600, "max_position_embeddings": 40960,
    "max_window_layers": 64, "num_attention_heads": 64, "num_hidden_layers": 64, "num_key_value_heads": 8,
    "sliding_window": null, "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 151936})");
  CHECK((qwen.layers == model_of_file("qwen3-32b").layers));
  CHECK(total_weights(qwen) == total_weights(model_of_file("qwen3-32b")));
  const std::string said = refusal(R"({"model_type": "strange", "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "vocab_size": 100})");
  INFO(said);
  CHECK(said.find("'intermediate_size'") != std::string::npos);
  CHECK(said.find("model_type 'strange' is not known") != std::string::npos);
  CHECK(refusal(R"({"is_encoder_decoder": true})").find("switch_transformers") != std::string::npos);
  // What routes to experts has them, however many they are called.
  CHECK(refusal(R"({"model_type": "qwen3_moe", "num_experts_per_tok": 8, "hidden_size": 64, "vocab_size": 100,
    "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128})")
            .find("'num_experts'") != std::string::npos);
}

// Keys of config.json of HebArabNlpProject/Hebatron, a fine-tune of
// nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.
constexpr std::string_view kNemotron = R"({"architectures": ["NemotronHForCausalLM"], "attention_bias": false,
 "chunk_size": 128, "conv_kernel": 4, "expand": 2, "head_dim": 128, "hidden_size": 2688,
 "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", "intermediate_size": 1856,
 "mamba_head_dim": 64, "mamba_num_heads": 64, "mamba_proj_bias": false, "max_position_embeddings": 262144,
 "mlp_bias": false, "mlp_hidden_act": "relu2", "model_type": "nemotron_h", "moe_intermediate_size": 1856,
 "moe_shared_expert_intermediate_size": 3712, "n_group": 1, "n_groups": 8, "n_routed_experts": 128,
 "n_shared_experts": 1, "num_attention_heads": 32, "num_experts_per_tok": 6, "num_hidden_layers": 52,
 "num_key_value_heads": 2, "sliding_window": null, "ssm_state_size": 128, "tie_word_embeddings": false,
 "use_bias": false, "use_conv_bias": true, "vocab_size": 131072})";

// Granite 4.0 H-1B in the keys of config.json, H-Tiny in the same keys with the sizes of its model card.
std::string granite(const char* sizes) {
  std::string types;
  for (int i = 0; i < 40; ++i)
    types += std::string(i == 0 ? "" : ", ") + (i % 10 == 5 ? "\"attention\"" : "\"mamba\"");
  return "{\"model_type\": \"granitemoehybrid\", \"attention_bias\": false, \"hidden_size\": 1536, "
         "\"layer_types\": [" +
         types +
         "], \"mamba_conv_bias\": true, \"mamba_d_conv\": 4, \"mamba_d_head\": 64, \"mamba_d_state\": 128, "
         "\"mamba_expand\": 2, \"mamba_n_groups\": 1, \"mamba_n_heads\": 48, \"mamba_proj_bias\": false, "
         "\"num_attention_heads\": 12, \"num_hidden_layers\": 40, \"num_key_value_heads\": 4, "
         "\"tie_word_embeddings\": true, \"vocab_size\": 100352, " +
         sizes + "}";
}
constexpr const char* kTinySizes = R"("intermediate_size": 512, "num_experts_per_tok": 6,
 "num_local_experts": 64, "shared_intermediate_size": 1024)";
constexpr const char* kDenseSizes = R"("intermediate_size": 4096, "num_experts_per_tok": 0,
 "num_local_experts": 0, "shared_intermediate_size": 4096)";

TEST_CASE("hybrids with Mamba-2 are read by their families' keys", "[hf]") {
  const auto same = [](const std::string& text, const char* model) {
    const Architecture ours = model_of_file(model), theirs = imported(text);
    INFO(model);
    CHECK((theirs.layers == ours.layers));
    CHECK(theirs.hidden == ours.hidden);
    CHECK(theirs.vocab == ours.vocab);
    CHECK(theirs.embedding_copies == ours.embedding_copies);
    CHECK(total_weights(theirs) == total_weights(ours));
    CHECK(test::model_of_text(architecture_to_yaml(theirs)) == theirs);
  };
  same(std::string(kNemotron), "nemotron-3-nano-30b-a3b");
  same(granite(kTinySizes), "granite-4.0-h-tiny");
  // A dense one of the family: llama.cpp counts 1.46 billion (pull request 20795).
  const Architecture dense = imported(granite(kDenseSizes));
  CHECK_FALSE(dense.is_moe());
  CHECK(std::abs(total_weights(dense) - 1.46e9) < 0.005e9);
  CHECK(test::model_of_text(architecture_to_yaml(dense)) == dense);
  // The same layers as a list of words, old and new; without a number of layers, as many as there are words.
  const std::string pattern =
      "\"hybrid_override_pattern\": \"MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME\"";
  const std::string shorter = replaced(kNemotron, "\"num_hidden_layers\": 52,", "");
  const Architecture old_words =
      imported(replaced(shorter, pattern, R"("layers_block_type": ["mamba", "moe", "attention", "mlp"])"));
  const Architecture new_words = imported(replaced(
      shorter, pattern, R"("layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"])"));
  CHECK((old_words.layers == new_words.layers));
  REQUIRE(old_words.layers.size() == 4);
  CHECK(old_words.layers[3].feed_forward.kind == FeedForward::Kind::dense);
  CHECK(old_words.layers[3].feed_forward.width == 1856);
  CHECK(old_words.layers[3].feed_forward.matrices == 2);
  CHECK((old_words.layers[0] == model_of_file("nemotron-3-nano-30b-a3b").layers[0]));
  // Projections with biases, a convolution without one.
  const Attention biased = imported(replaced(replaced(kNemotron, "\"use_bias\": false", "\"use_bias\": true"),
                                             "\"use_conv_bias\": true", "\"use_conv_bias\": false"))
                               .layers[0]
                               .attention;
  CHECK((biased.bias && biased.output_bias && !biased.conv_bias));
}

TEST_CASE("a hybrid that contradicts itself is an error that says where", "[hf]") {
  struct Case {
    std::string_view from, to, said;
  };
  for (const Case& c : std::vector<Case>{
           {"\"num_hidden_layers\": 52", "\"num_hidden_layers\": 51",
            "the kinds of layers are 52 for 51 layers"},
           {"MEMEM*E", "MEMEM?E", "layer 5 is '?', which is not covered; known: M (mamba)"},
           {"\"hybrid_override_pattern\"", "\"hybrid_pattern\"", "no key says what each layer is"},
           {"\"hybrid_override_pattern\"", "\"layers_block_type\": [\"mamba\"], \"hybrid_override_pattern\"",
            "say different layers"},
           {"\"moe_shared_expert_intermediate_size\": 3712,", "", "'moe_shared_expert_intermediate_size'"},
           {"\"n_groups\": 8", "\"n_groups\": 7", "groups (7) must divide heads (64)"},
           {"\"ssm_state_size\": 128,", "", "'mamba_d_state', 'ssm_state_size'"},
           {"\"mamba_head_dim\": 64,", "", "'mamba_d_head', 'mamba_head_dim'"},
           {"\"moe_intermediate_size\": 1856,", "", "'moe_intermediate_size'"},
           {"\"mlp_bias\": false", "\"moe_latent_size\": 1024",
            "'moe_latent_size': experts that work in a latent"},
           {"\"mlp_bias\": false", "\"attn_layer_period\": 8", "'attn_layer_period': this kind of layers"},
           {"\"nemotron_h\"", "\"newhybrid\"",
            "'hybrid_override_pattern': this kind of layers is not covered"}}) {
    const std::string said = refusal(replaced(kNemotron, c.from, c.to));
    INFO(c.to << ": " << said);
    CHECK(said.find(c.said) != std::string::npos);
  }
  const std::string tiny = granite(kTinySizes);
  for (const Case& c : std::vector<Case>{
           {"\"mamba_n_heads\": 48", "\"mamba_n_heads\": 47",
            "has to be 'mamba_expand' times the hidden size"},
           {"[\"mamba\"", "[\"conv\"", "layer 0 is 'conv', which is not covered; known: mamba, attention"},
           {"[\"mamba\", ", "[", "the kinds of layers are 39 for 40 layers"},
           {"\"num_local_experts\": 64", "\"num_local_experts\": 5", "top_k (6) must be at most experts (5)"},
           {"\"granitemoehybrid\"", "\"newhybrid\"", "'mamba_d_state': this kind of layers is not covered"},
           {"\"granitemoehybrid\"", "\"newconv\", \"conv_L_cache\": 3",
            "'conv_L_cache': this kind of layers"}}) {
    const std::string said = refusal(replaced(tiny, c.from, c.to));
    INFO(c.to << ": " << said);
    CHECK(said.find(c.said) != std::string::npos);
  }
  // A pattern as long as a file may be.
  const std::string endless = replaced(kNemotron, "MEMEM*E", std::string(5'000'000, 'M'));
  CHECK(refusal(endless).find("for 52 layers") != std::string::npos);
}

TEST_CASE("layers that differ in kind are refused by name", "[hf]") {
  for (const char* key : {"\"hybrid_override_pattern\": \"MEM*EM\"", "\"linear_attn_config\": {}",
                          "\"layers_block_type\": [\"mamba\"]", "\"attn_type_list\": [0, 1]"}) {
    const std::string text = replaced(config_of("deepseek-v2-lite"), "\"moe_layer_freq\": 1", key);
    INFO(text);
    CHECK(refusal(text).find(std::string(key).substr(1, 5)) != std::string::npos);
    CHECK(refusal(text).find("this kind of layers is not covered") != std::string::npos);
  }
}

TEST_CASE("what is not a configuration is an error", "[hf]") {
  for (const char* text : {"", "[]", "3", "{", "{\"a\": }", "\xFF\xFE", "null", "{}"}) {
    INFO(text);
    CHECK(refusal(text) != "accepted");
  }
  CHECK(refusal(std::string(1'000'000, '[')).find("nests deeper") != std::string::npos);
  CHECK(refusal(std::string(std::size_t{17} << 20, ' ')).find("larger than") != std::string::npos);
  CHECK_THROWS_AS(import_hf_config("no/such/config.json"), InputError);
  CHECK_THROWS_AS(import_hf_config("/"), InputError);
}

TEST_CASE("an index of safetensors is held against its configuration", "[hf]") {
  const test::ScratchFolder scratch;
  const std::string index = (scratch / "model.safetensors.index.json").string();
  const auto write = [](const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path) << text;
  };
  const auto said = [&] {
    try {
      return import_model(scratch.path().string()).source;
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  CHECK(said().find("has no config.json") != std::string::npos);
  // Two bytes for each of 46.70 billion weights.
  write(index, R"({"metadata": {"total_size": 93405585408}, "weight_map": {}})");
  CHECK(said().find("config.json has to lie beside it") != std::string::npos);
  write(scratch / "config.json", std::string(config_of("mixtral-8x7b")));
  INFO(said());
  CHECK(said().find("its index has 93.41 GB (+0.0 %)") != std::string::npos);
  CHECK((find_model(index).layers == find_model("mixtral-8x7b").layers));
  write(index, R"({"metadata": {"total_size": 26000000000}, "weight_map": {}})");
  CHECK(said().find("they are of different models") != std::string::npos);
  for (const char* text : {"", "[]", "{}", "{\"weight_map\": "}) {
    write(index, text);
    CHECK(said().find("is no index of safetensors") != std::string::npos);
  }
}

TEST_CASE("a configuration is read from its file", "[hf]") {
  const test::ScratchFolder scratch;
  const std::filesystem::path folder = scratch / "Kimi-K2";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << config_of("kimi-k2");
  const Architecture a = import_hf_config(folder / "config.json");
  CHECK(a.name == "kimi-k2");
  CHECK((a.layers == model_of_file("kimi-k2").layers));
}

TEST_CASE("no text makes the import fail otherwise than by InputError", "[hf]") {
  Dice dice(4);
  const std::string letters = "0123456789-{}[],:. \"nx";
  int accepted = 0;
  for (int i = 0; i < moelab::test::random_runs(4000); ++i) {
    const auto which = static_cast<std::size_t>(dice.from(0, static_cast<int>(kPublished.size()) + 1));
    std::string text(which < kPublished.size()    ? std::string(kPublished[which].config)
                     : which == kPublished.size() ? std::string(kNemotron)
                                                  : granite(kTinySizes));
    for (int n = dice.from(1, 3); n > 0; --n) {
      const auto at = static_cast<std::size_t>(dice.from(0, static_cast<int>(text.size()) - 1));
      text[at] = letters[static_cast<std::size_t>(dice.from(0, static_cast<int>(letters.size()) - 1))];
    }
    try {
      const Architecture a = imported(text);
      ++accepted;
      REQUIRE(test::model_of_text(architecture_to_yaml(a)) == a);
    } catch (const InputError&) {
    }
  }
  CHECK(accepted > moelab::test::random_runs(200));   // digits and keys that do not matter
  CHECK(accepted < moelab::test::random_runs(3800));  // structure
}

}  // namespace
}  // namespace moelab::hf_import_test
