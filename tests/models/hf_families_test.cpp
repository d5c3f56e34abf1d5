// Families whose configuration says little by itself: what the family's code adds is known by its name.
#include <catch2/catch.hpp>
#include <string>
#include <string_view>

#include "models/hf_import.hpp"
#include "tests/models/model_files.hpp"

namespace moelab::hf_families_test {
namespace {

using test::model_of_file;

struct FamilyConfig {
  std::string_view model;  // of configs/models
  std::string_view config;
};

// `n` times `item` as a list.
std::string list_of(int n, const std::string& item) {
  std::string text = "[";
  for (int i = 0; i < n; ++i) text += (i > 0 ? ", " : "") + item;
  return text + "]";
}

constexpr std::string_view kGlm =
    R"({"model_type": "glm4_moe", "attention_bias": true, "first_k_dense_replace": 3,
 "head_dim": 128, "hidden_size": 5120, "intermediate_size": 12288, "max_position_embeddings": 131072,
 "moe_intermediate_size": 1536, "n_group": 1, "n_routed_experts": 160, "n_shared_experts": 1,
 "num_attention_heads": 96, "num_experts_per_tok": 8, "num_hidden_layers": 92, "num_key_value_heads": 8,
 "num_nextn_predict_layers": 1, "tie_word_embeddings": false, "use_qk_norm": true, "vocab_size": 151552})";
constexpr std::string_view kGlmAir = R"({"model_type": "glm4_moe", "attention_bias": true,
 "first_k_dense_replace": 1, "head_dim": 128, "hidden_size": 4096, "intermediate_size": 10944,
 "moe_intermediate_size": 1408, "n_routed_experts": 128, "n_shared_experts": 1, "num_attention_heads": 96,
 "num_experts_per_tok": 8, "num_hidden_layers": 46, "num_key_value_heads": 8, "num_nextn_predict_layers": 1,
 "tie_word_embeddings": false, "use_qk_norm": false, "vocab_size": 151552})";
constexpr std::string_view kQwen = R"({"model_type": "qwen3_5_moe", "vision_config": {"depth": 27},
 "text_config": {"model_type": "qwen3_5_moe_text", "attention_bias": false, "attn_output_gate": true,
 "full_attention_interval": 4, "head_dim": 256, "hidden_size": 2048, "linear_conv_kernel_dim": 4,
 "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
 "linear_value_head_dim": 128, "moe_intermediate_size": 512, "mtp_num_hidden_layers": 1,
 "num_attention_heads": 16, "num_experts": 256, "num_experts_per_tok": 8, "num_hidden_layers": 40,
 "num_key_value_heads": 2, "shared_expert_intermediate_size": 512, "tie_word_embeddings": false,
 "vocab_size": 248320}})";
constexpr std::string_view kDots =
    R"({"model_type": "dots1", "attention_bias": false, "first_k_dense_replace": 1,
 "hidden_size": 4096, "intermediate_size": 10944, "moe_intermediate_size": 1408, "moe_layer_freq": 1,
 "n_routed_experts": 128, "n_shared_experts": 2, "num_attention_heads": 32, "num_experts_per_tok": 6,
 "num_hidden_layers": 62, "num_key_value_heads": 32, "sliding_window": null, "tie_word_embeddings": false,
 "vocab_size": 152064})";
constexpr std::string_view kErnie = R"({"model_type": "ernie4_5_moe", "head_dim": null, "hidden_size": 2560,
 "intermediate_size": 12288, "moe_intermediate_size": 1536, "moe_k": 6, "moe_layer_end_index": 27,
 "moe_layer_interval": 1, "moe_layer_start_index": 1, "moe_num_experts": 64, "moe_num_shared_experts": 2,
 "num_attention_heads": 20, "num_hidden_layers": 28, "num_key_value_heads": 4, "tie_word_embeddings": true,
 "use_bias": false, "vocab_size": 103424})";
constexpr std::string_view kScout = R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text",
 "attention_bias": false, "attention_chunk_size": 8192, "head_dim": 128, "hidden_size": 5120,
 "interleave_moe_layer_step": 1, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
 "no_rope_layers": [], "num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 48,
 "num_key_value_heads": 8, "num_local_experts": 16, "tie_word_embeddings": false, "use_qk_norm": true,
 "vocab_size": 202048}})";
constexpr std::string_view kMaverick =
    R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text",
 "attention_bias": false, "attention_chunk_size": 8192, "head_dim": 128, "hidden_size": 5120,
 "interleave_moe_layer_step": 2, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
 "num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8,
 "num_local_experts": 128, "tie_word_embeddings": false, "use_qk_norm": false, "vocab_size": 202048}})";

const std::string kMiniMax = R"({"model_type": "minimax_m2", "attn_type_list": )" + list_of(62, "1") +
                             R"(, "head_dim": 128, "hidden_size": 3072, "intermediate_size": 1536,
 "num_attention_heads": 48, "num_experts_per_tok": 8, "num_hidden_layers": 62, "num_key_value_heads": 8,
 "num_local_experts": 256, "num_mtp_modules": 3, "qk_norm_type": "per_layer", "shared_intermediate_size": 0,
 "tie_word_embeddings": false, "use_mtp": true, "use_qk_norm": true, "use_routing_bias": true,
 "quantization_config": {"quant_method": "fp8", "fmt": "float8_e4m3fn", "weight_block_size": [128, 128]},
 "vocab_size": 200064})";
const std::string kHunyuan = R"({"model_type": "hunyuan_v1_moe", "attention_bias": false,
 "attention_head_dim": 128, "hidden_size": 4096, "intermediate_size": 3072, "kv_lora_rank": null,
 "moe_intermediate_size": )" +
                             list_of(32, "3072") + R"(, "moe_layer_num_skipped": 0, "moe_topk": )" +
                             list_of(32, "8") +
                             R"(, "num_attention_heads": 32, "num_experts": 64, "num_hidden_layers": 32,
 "num_key_value_heads": 8, "num_shared_expert": )" +
                             list_of(32, "1") +
                             R"(, "tie_word_embeddings": true, "use_cla": false, "use_qk_norm": true,
 "vocab_size": 128167})";

Architecture model_of(std::string_view config) {
  return parse_hf_config("config.json", config);
}

std::string refusal(std::string_view config) {
  try {
    model_of(config);
  } catch (const InputError& error) {
    std::string all;
    for (const Problem& problem : error.problems()) all += to_string(problem) + "\n";
    return all;
  }
  return "accepted";
}

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("configurations of later families are the architectures of their model files", "[hf]") {
  for (const FamilyConfig& f : {FamilyConfig{"glm-4.5", kGlm},
                                {"glm-4.5-air", kGlmAir},
                                {"qwen3.5-35b-a3b", kQwen},
                                {"dots.llm1", kDots},
                                {"ernie-4.5-21b-a3b", kErnie},
                                {"minimax-m2", kMiniMax},
                                {"hunyuan-a13b", kHunyuan},
                                {"llama-4-scout", kScout},
                                {"llama-4-maverick", kMaverick}}) {
    INFO(f.model);
    const Architecture ours = model_of_file(f.model), theirs = model_of(f.config);
    CHECK((theirs.layers == ours.layers));
    CHECK(total_weights(theirs) == total_weights(ours));
    CHECK(active_weights(theirs) == active_weights(ours));
    CHECK(theirs.embedding_copies == ours.embedding_copies);
    CHECK(theirs.stored == ours.stored);
    CHECK(theirs.source.find("not known by name") == std::string::npos);
  }
  for (const std::string_view config : {kGlm, kQwen, std::string_view(kMiniMax)})
    CHECK(model_of(config).source.find("multi-token prediction layers are left out") != std::string::npos);
  CHECK(model_of(kScout).source.find("chunks are described as windows") != std::string::npos);
}

TEST_CASE("layers with experts by ERNIE's and Llama's keys", "[hf]") {
  // interval 3 of layers 1 to 20: layers 2, 5, ..., 20
  const Architecture ernie =
      model_of(changed(changed(std::string(kErnie), "\"moe_layer_interval\": 1", "\"moe_layer_interval\": 3"),
                       "\"moe_layer_end_index\": 27", "\"moe_layer_end_index\": 20"));
  CHECK(ernie.moe_layers() == std::vector<int>{2, 5, 8, 11, 14, 17, 20});
  const Architecture whole =
      model_of(changed(std::string(kErnie), "\"moe_layer_end_index\": 27", "\"moe_layer_end_index\": -1"));
  CHECK(whole.moe_layers().size() == 27);
  const Architecture llama =
      model_of(changed(std::string(kScout), "\"interleave_moe_layer_step\": 1", "\"moe_layers\": [3, 40]"));
  CHECK(llama.moe_layers() == std::vector<int>{3, 40});
  CHECK(llama.layers[0].feed_forward.width == 16384);
  const Architecture rotated = model_of(
      changed(std::string(kScout), "\"no_rope_layers\": []", "\"no_rope_layers\": " + list_of(48, "1")));
  for (const Layer& layer : rotated.layers) CHECK(layer.attention.window == 8192);
}

TEST_CASE("what these families may say and a model cannot is named", "[hf]") {
  const auto names = [](const std::string& config, std::string_view what) {
    const std::string said = refusal(config);
    INFO(said);
    CHECK(said.find(what) != std::string::npos);
  };
  const std::string scout(kScout), ernie(kErnie);
  names(changed(kMiniMax, "[1, 1", "[0, 1"), "'attn_type_list': this kind of layers is not covered");
  names(changed(kMiniMax, "[1, 1", "[7, 1"), "attn_type_list");
  names(changed(kHunyuan, "\"use_cla\": false", "\"use_cla\": true"), "'use_cla'");
  names(changed(kHunyuan, "[8, 8", "[8, 9"), "'moe_topk' has to be a number, or the same one");
  names(changed(kHunyuan, "[1, 1", "[1, \"x\""), "num_shared_expert");
  names(changed(kHunyuan, "[3072, 3072", "[]x"), "JSON");
  names(changed(kHunyuan, list_of(32, "8"), "[]"), "'moe_topk' has to be a number, or the same one");
  names(changed(scout, "\"no_rope_layers\": []", "\"no_rope_layers\": [1]"), "'no_rope_layers' has 1 items");
  names(changed(scout, "\"attention_chunk_size\": 8192, ", ""), "attention_chunk_size");
  names(changed(scout, "\"interleave_moe_layer_step\": 1", "\"moe_layers\": [48]"), "moe_layers");
  names(changed(ernie, "\"moe_layer_start_index\": 1", "\"moe_layer_start_index\": [1, 1]"),
        "moe_layer_start_index");
  names(changed(ernie, "\"moe_layer_end_index\": 27", "\"moe_layer_end_index\": 1e99"),
        "moe_layer_end_index");
}

}  // namespace
}  // namespace moelab::hf_families_test
