// quantization_config of three more methods. Fixtures have the keys that such files have, of small models, so
// that the bytes can be added up by hand; each comment does.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "models/hf_import.hpp"
#include "models/stored_weights.hpp"
#include "tests/models/model_files.hpp"
#include "tests/models/random_architecture.hpp"
#include "tests/random_runs.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::hf_quantization_test {
namespace {

using test::Dice;

// One layer: q and o of 256 x 256, k and v of 128 x 256, gate and up of 512 x 256, down of 256 x 512, three
// norms of 256, embedding and head of 1000 x 256.
constexpr const char* kDense = R"("model_type": "llama", "hidden_size": 256, "num_hidden_layers": 1,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 512, "vocab_size": 1000)";
// A dense layer and two of eight experts and a shared one, all of 128 x 256; latent attention.
constexpr const char* kLatent = R"("model_type": "deepseek_v3", "hidden_size": 256, "num_hidden_layers": 3,
 "first_k_dense_replace": 1, "num_attention_heads": 2, "q_lora_rank": 64, "kv_lora_rank": 128,
 "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64, "intermediate_size": 512,
 "moe_intermediate_size": 128, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2,
 "vocab_size": 1000)";
// Two layers of four experts of 128 x 256 and a gated shared one, called shared_expert.
constexpr const char* kGated = R"("model_type": "qwen2_moe", "hidden_size": 256, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "moe_intermediate_size": 128,
 "shared_expert_intermediate_size": 128, "num_experts": 4, "num_experts_per_tok": 2, "vocab_size": 1000)";

std::string config(const std::string& model, const std::string& quantization) {
  return "{" + model + (quantization.empty() ? "" : ", \"quantization_config\": {" + quantization + "}") +
         "}";
}

Architecture imported(const std::string& model, const std::string& quantization) {
  const Architecture a = parse_hf_config("small/config.json", config(model, quantization));
  CHECK(test::model_of_text(architecture_to_yaml(a)) == a);
  return a;
}

std::string refusal(const std::string& model, const std::string& quantization) {
  try {
    (void)parse_hf_config("small/config.json", config(model, quantization));
  } catch (const InputError& error) {
    std::string all;
    for (const Problem& problem : error.problems()) all += to_string(problem) + "\n";
    return all;
  }
  return "accepted";
}

// As llm-compressor writes it.
std::string groups(const std::string& format, const std::string& weights,
                   const std::string& ignore = R"("lm_head")", const std::string& targets = R"("Linear")",
                   const char* activations = "null") {
  return R"("quant_method": "compressed-tensors", "quantization_status": "compressed", "format": ")" +
         format + R"(", "ignore": [)" + ignore +
         R"(], "kv_cache_scheme": null, "config_groups": {"group_0": {"targets": [)" + targets +
         R"(], "input_activations": )" + activations + R"(, "output_activations": null, "weights": {)" +
         weights + "}}}";
}
constexpr const char* kInt4Group32 = R"("num_bits": 4, "type": "int", "strategy": "group", "group_size": 32,
 "symmetric": true, "dynamic": false, "actorder": null, "block_structure": null, "observer": "minmax")";
constexpr const char* kInt8Channel =
    R"("num_bits": 8, "type": "int", "strategy": "channel", "group_size": null, "symmetric": true)";

double part_bytes(const Architecture& a, WeightPart part, double weights) {
  return a.stored.of(part) * weights;
}

// Weights of kDense's parts: 196608 in attention's matrices and 768 in norms, 393216 in the others.
double dense_attention_bytes(const Architecture& a) {
  return part_bytes(a, WeightPart::attention, 196608 + 768);
}
double dense_bytes(const Architecture& a) {
  return part_bytes(a, WeightPart::dense, 393216);
}

TEST_CASE("compressed-tensors: experts of 4 bits and the rest kept, as Kimi-K2-Thinking has it",
          "[quantization]") {
  const Architecture a = imported(kLatent, groups("pack-quantized", kInt4Group32,
                                                  R"("lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
 "re:.*mlp\\.(gate|up|gate_up|down)_proj.*")"));
  CHECK(a.stored.name == "experts int4-g32, else bf16");
  // A matrix of 32768 weights: 16384 B, a scale of 2 B for each 32 (2048 B), its shape (16 B). 2 x 8 x 3 of
  // them.
  CHECK(part_bytes(a, WeightPart::experts, routed_weights(a)) == Approx(48 * 18448).epsilon(1e-14));
  CHECK(total_bytes(a).value() ==
        Approx(48 * 18448 + 2 * (total_weights(a) - routed_weights(a))).epsilon(1e-14));
  for (const WeightPart part : {WeightPart::attention, WeightPart::dense, WeightPart::shared,
                                WeightPart::router, WeightPart::embedding, WeightPart::head})
    CHECK(a.stored.of(part) == 2);
  CHECK(a.source.find("fit") == std::string::npos);  // each entry keeps something
  // Without its list all but router and embedding are converted, the head too.
  const Architecture all = imported(kLatent, groups("pack-quantized", kInt4Group32, ""));
  CHECK(all.stored.name == "head int4-g32, else int4-g32");
  CHECK(all.stored.of(WeightPart::router) == 2);
  CHECK(all.stored.of(WeightPart::embedding) == 2);
  // 1000 rows of 256: 128000 B, 8 scales a row (16000 B), its shape.
  CHECK(part_bytes(all, WeightPart::head, 256000) == Approx(144016).epsilon(1e-14));
}

TEST_CASE("compressed-tensors: scales by channel, block, tensor and group", "[quantization]") {
  // 196608 B and 768 rows' scales, norms 1536 B; 393216 B and 1280 rows' scales.
  const Architecture channel = imported(kDense, groups("int-quantized", kInt8Channel));
  CHECK(channel.stored.name == "int8");
  CHECK(dense_attention_bytes(channel) == Approx(196608 + 2 * 768 + 1536).epsilon(1e-14));
  CHECK(dense_bytes(channel) == Approx(393216 + 2 * 1280).epsilon(1e-14));
  CHECK(channel.stored.of(WeightPart::head) == 2);
  // The same asymmetric: a byte more a row. With group_size -1 and no strategy: the same channels.
  const Architecture zeros = imported(
      kDense,
      groups("int-quantized", R"("num_bits": 8, "type": "int", "group_size": -1, "symmetric": false)"));
  CHECK(dense_bytes(zeros) == Approx(393216 + 3 * 1280).epsilon(1e-14));
  // Blocks of 128 x 128: gate and up have 4 x 2, down 2 x 4, of 2 B each.
  const Architecture block = imported(
      kDense,
      groups("float-quantized",
             R"("num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128])"));
  CHECK(block.stored.name == "fp8");
  CHECK(dense_bytes(block) == Approx(393216 + 3 * 8 * 2).epsilon(1e-14));
  CHECK(dense_bytes(imported(kDense, groups("float-quantized", R"("num_bits": 8, "type": "float",
 "strategy": "block", "block_structure": "128x128")"))) == dense_bytes(block));
  // One scale a matrix.
  const Architecture tensor =
      imported(kDense, groups("float-quantized", R"("num_bits": 8, "type": "float", "strategy": "tensor")"));
  CHECK(dense_bytes(tensor) == Approx(393216 + 3 * 2).epsilon(1e-14));
  // Groups of 128, asymmetric, ordered by activation: gate and up have 512 x 2 groups, down 256 x 4, each 16
  // bits and a zero of 4; a matrix its shape, and 4 B an input for its group.
  const Architecture ordered =
      imported(kDense, groups("pack-quantized", R"("num_bits": 4, "type": "int", "strategy": "group",
 "group_size": 128, "symmetric": false, "actorder": "group")"));
  CHECK(ordered.stored.name == "int4-g128");
  CHECK(dense_bytes(ordered) ==
        Approx(393216 / 2 + 3 * 1024 * 2.5 + 3 * 16 + 4 * (256 + 256 + 512)).epsilon(1e-14));
  // Four bits that no format packs take a byte each.
  CHECK(dense_bytes(imported(
            kDense, groups("int-quantized", R"("num_bits": 4, "type": "int", "strategy": "channel")"))) ==
        Approx(393216 + 2 * 1280).epsilon(1e-14));
  // Ten values of three bits go into 32.
  CHECK(dense_bytes(imported(
            kDense, groups("pack-quantized", R"("num_bits": 3, "type": "int", "strategy": "channel")"))) ==
        Approx(393216 * 3.2 / 8 + 2 * 1280 + 3 * 16).epsilon(1e-3));
}

TEST_CASE("compressed-tensors: NVFP4, MXFP4 and MXFP8", "[quantization]") {
  const std::string four = R"("num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": )";
  // A byte for each 16 weights, and a scale of 32 bits a matrix; where inputs are converted, one for those
  // too.
  const Architecture weights_alone = imported(kDense, groups("nvfp4-pack-quantized", four + "16"));
  CHECK(weights_alone.stored.name == "nvfp4");
  CHECK(dense_bytes(weights_alone) == Approx(393216 * 4.5 / 8 + 3 * 4).epsilon(1e-14));
  const Architecture both = imported(kDense, groups("nvfp4-pack-quantized", four + "16", R"("lm_head")",
                                                    R"("Linear")", R"({"num_bits": 4})"));
  CHECK(dense_bytes(both) == Approx(393216 * 4.5 / 8 + 3 * 8).epsilon(1e-14));
  const Architecture mx = imported(kDense, groups("mxfp4-pack-quantized", four + "32"));
  CHECK(mx.stored.name == "mxfp4");
  CHECK(mx.stored.of(WeightPart::dense) == find_weight_format("mxfp4").bits / 8);
  const Architecture mx8 = imported(kDense, groups("mxfp8-quantized", R"("num_bits": 8, "type": "float",
 "strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8")"));
  CHECK(mx8.stored.of(WeightPart::dense) == find_weight_format("mxfp8").bits / 8);
  // Where nothing names the format it is the first that takes such weights.
  CHECK(imported(kDense, groups("mixed-precision", four + "32")).stored == mx.stored);
  CHECK(imported(kDense, groups("", four + "16")).stored == weights_alone.stored);
}

TEST_CASE("compressed-tensors: several groups, and parts that mix formats", "[quantization]") {
  const std::string fp8 = R"({"num_bits": 8, "type": "float", "strategy": "channel"})";
  const std::string nvfp4 =
      R"({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16})";
  const std::string two = R"("quant_method": "compressed-tensors", "format": "mixed-precision",
 "kv_cache_scheme": {"num_bits": 8, "type": "float", "strategy": "tensor"}, "ignore": ["lm_head"],
 "config_groups": {"group_0": {"targets": ["re:.*self_attn\\.(q|k|v)_proj$"], "format": "float-quantized",
 "input_activations": {"num_bits": 8}, "weights": )" +
                          fp8 + R"(}, "group_1": {"targets": ["re:.*mlp.*"],
 "format": "nvfp4-pack-quantized", "weights": )" +
                          nvfp4 + "}}";
  const Architecture a = imported(kDense, two);
  CHECK(a.stored.name == "attention fp8/bf16, dense nvfp4, kv fp8, else bf16");
  // q, k and v: 131072 B and 512 rows' scales; o and norms in 16 bits.
  CHECK(dense_attention_bytes(a) == Approx(131072 + 2 * 512 + 2 * (65536 + 768)).epsilon(1e-14));
  CHECK(dense_bytes(a) == Approx(393216 * 4.5 / 8 + 3 * 4).epsilon(1e-14));
  CHECK(a.stored.kv == 1);
  CHECK(a.source.find("attention has layers in fp8/bf16, of which bytes are the mean") != std::string::npos);
  // One expert of one layer is named, of 2 x 4 with three matrices each: 23 are converted.
  const Architecture one = imported(kGated, groups("int-quantized", kInt8Channel,
                                                   R"("lm_head", "model.layers.1.mlp.experts.3.down_proj")"));
  CHECK(part_bytes(one, WeightPart::experts, routed_weights(one)) ==
        Approx(23 * 32768 + 2 * (16 * 128 + 7 * 256) + 2 * 32768).epsilon(1e-14));
  // A list that means the shared expert by a name that it does not have.
  const Architecture missed = imported(
      kGated,
      groups("int-quantized", kInt8Channel, R"("lm_head", "re:.*shared_experts.*", "re:.*mlp.gate$")"));
  CHECK(missed.stored.of(WeightPart::shared) < 1.1);
  CHECK(missed.source.find("'ignore' 're:.*shared_experts.*' fits no layer here") != std::string::npos);
}

TEST_CASE("modelopt: both forms of its file, and what they keep", "[quantization]") {
  const std::string flat =
      R"("quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_scheme": {"dynamic": false,
 "num_bits": 8, "type": "float"}, "ignore": ["lm_head", "model.layers.*.self_attn*", "model.layers.1.mlp.gate"],
 "producer": {"name": "modelopt", "version": "0.37.0"}, "config_groups": {"group_0": {"targets": ["Linear"],
 "weights": {"num_bits": 4, "type": "float", "group_size": 16}}})";
  const Architecture a = imported(kLatent, flat);
  CHECK(a.stored.name == "dense nvfp4, shared nvfp4, experts nvfp4, kv fp8, else bf16");
  // A matrix of 32768 weights: 16384 B, 2048 B of scales, two scales of 4 B.
  CHECK(part_bytes(a, WeightPart::experts, routed_weights(a)) == Approx(48 * (18432 + 8)).epsilon(1e-14));
  CHECK(a.stored.kv == 1);
  const std::string nested = R"("quant_method": "modelopt", "producer": {"name": "modelopt"}, "quantization":
 {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16,
 "exclude_modules": ["lm_head", "model.layers.*.self_attn*"]})";
  CHECK(imported(kLatent, nested).stored == a.stored);
  // A scale of 32 bits for weights and one for inputs, of each matrix.
  const Architecture fp8 =
      imported(kDense, R"("quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"])");
  CHECK(fp8.stored.name == "fp8");
  CHECK(dense_bytes(fp8) == Approx(393216 + 3 * 8).epsilon(1e-14));
  // Of each output, 32 bits; of blocks of 128 x 128, 32 bits.
  CHECK(dense_bytes(
            imported(kDense, R"("quant_method": "modelopt", "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN")")) ==
        Approx(393216 + 4 * 1280).epsilon(1e-14));
  CHECK(dense_bytes(imported(kDense, R"("quant_method": "modelopt", "quant_algo": "fp8_pb_wo")")) ==
        Approx(393216 + 3 * 8 * 4).epsilon(1e-14));
  CHECK(dense_bytes(imported(kDense, R"("quant_method": "modelopt", "quant_algo": "W4A16_NVFP4")")) ==
        Approx(393216 * 4.5 / 8 + 3 * 4).epsilon(1e-14));
  CHECK(dense_bytes(imported(kDense, R"("quant_method": "modelopt", "quant_algo": "MXFP8")")) ==
        Approx(393216 * 8.25 / 8).epsilon(1e-14));
}

TEST_CASE("modelopt: layers in several formats", "[quantization]") {
  const Architecture a = imported(kGated, R"("quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
 "quantized_layers": {"model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
 "model.layers.1.self_attn.q_proj": {"quant_algo": "FP8"},
 "model.layers.0.mlp.experts": {"quant_algo": "NVFP4", "group_size": 16},
 "model.layers.1.mlp.experts": {"quant_algo": "NVFP4", "group_size": 16}})");
  CHECK(a.stored.name == "attention fp8/bf16, experts nvfp4, else bf16");
  CHECK(part_bytes(a, WeightPart::experts, routed_weights(a)) == Approx(24 * (18432 + 8)).epsilon(1e-14));
  // Blocks of 16 and of 8 are two formats.
  const Architecture blocks = imported(kGated, R"("quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
 "quantized_layers": {"model.layers.0.mlp.experts": {"quant_algo": "NVFP4", "group_size": 16},
 "model.layers.1.mlp.experts": {"quant_algo": "NVFP4", "group_size": 8}})");
  CHECK(part_bytes(blocks, WeightPart::experts, routed_weights(blocks)) ==
        Approx(12 * (18432 + 8) + 12 * (20480 + 8)).epsilon(1e-14));
  // Half of the experts, by their numbers.
  std::string layers;
  for (const char* layer : {"0", "1"})
    for (const char* expert : {"0", "2"})
      layers += std::string(layers.empty() ? "" : ", ") + "\"model.layers." + layer + ".mlp.experts." +
                expert + "\": {\"quant_algo\": \"FP8\"}";
  const Architecture half = imported(
      kGated, R"("quant_method": "modelopt_mixed", "quant_algo": "MIXED_PRECISION", "quantized_layers": {)" +
                  layers + "}");
  CHECK(part_bytes(half, WeightPart::experts, routed_weights(half)) ==
        Approx(12 * (32768 + 8) + 12 * 2 * 32768).epsilon(1e-14));
}

TEST_CASE("modelopt: hf_quant_config.json beside a config.json that says nothing", "[quantization]") {
  const test::ScratchFolder scratch;
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(scratch / name) << text;
  };
  const auto read = [&] { return import_hf_config((scratch / "config.json").string()); };
  const std::string beside = R"({"producer": {"name": "modelopt", "version": "0.23.0"}, "quantization":
 {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}})";
  write("config.json", config(kDense, ""));
  write("hf_quant_config.json", beside);
  CHECK(read().stored.name == "kv fp8, else fp8");
  write("config.json", config(kDense, groups("int-quantized", kInt8Channel)));
  CHECK(read().stored.name == "int8");  // its own word counts
  write("config.json", config(kDense, ""));
  write("hf_quant_config.json", R"({"quantization": {"quant_algo": null}})");
  CHECK(read().stored == StoredWeights());
  for (const char* text :
       {"[]", "{", R"({"quantization": 3})", R"({"quantization": {"quant_algo": "FP3"}})", "{}"}) {
    write("hf_quant_config.json", text);
    INFO(text);
    try {
      (void)read();
      FAIL("accepted");
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).find("hf_quant_config.json") != std::string::npos);
    }
  }
}

TEST_CASE("bitsandbytes: four bits, once and twice, and eight", "[quantization]") {
  const std::string four = R"("quant_method": "bitsandbytes", "_load_in_4bit": true, "load_in_4bit": true,
 "load_in_8bit": false, "bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_quant_storage": "uint8",
 "llm_int8_threshold": 6.0, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": )";
  // gate, up and down have 131072 weights each: 65536 B, 2048 blocks' scales of 4 B, 16 values of 4 B.
  const Architecture once = imported(kDense, four + "false");
  CHECK(once.stored.name == "bnb-nf4");
  CHECK(dense_bytes(once) == Approx(3 * (65536 + 2048 * 4 + 64)).epsilon(1e-14));
  CHECK(once.stored.of(WeightPart::head) == 2);
  // Scales of a byte, of 256 of which a scale of 4 B, and 256 values more.
  const Architecture twice = imported(kDense, four + "true");
  CHECK(twice.stored.name == "bnb-nf4-dq");
  CHECK(dense_bytes(twice) == Approx(3 * (65536 + 2048 + 8 * 4 + 64 + 1024)).epsilon(1e-14));
  // Names of modules keep what is below them, or is called so; the head only where it is named.
  const Architecture skipped =
      imported(kDense, four + R"(true, "llm_int8_skip_modules": ["self_attn", "down_proj"])");
  CHECK(skipped.stored.name == "dense bnb-nf4-dq/bf16, head bnb-nf4-dq, else bf16");
  CHECK(dense_bytes(skipped) == Approx(2 * (65536 + 2048 + 8 * 4 + 64 + 1024) + 2 * 131072).epsilon(1e-14));
  // A scale of 32 bits an output.
  const Architecture eight = imported(kDense, R"("quant_method": "bitsandbytes", "load_in_8bit": true)");
  CHECK(eight.stored.name == "bnb-int8");
  CHECK(dense_bytes(eight) == Approx(393216 + 4 * 1280).epsilon(1e-14));
  CHECK(imported(kDense, R"("quant_method": "bitsandbytes", "load_in_4bit": true)").stored.name == "bnb-fp4");
  // Routed experts are linear layers too.
  CHECK(imported(kGated, four + "true").stored.name == "bnb-nf4-dq");
}

TEST_CASE(
    "a quantisation that is wrong or not covered is an error that names file, key and what was expected",
    "[quantization]") {
  struct Case {
    std::string quantization, said;
  };
  const auto weights = [](const std::string& text) { return groups("pack-quantized", text); };
  const std::string at = "small/config.json: 'quantization_config.config_groups.group_0.";
  const std::vector<Case> cases{
      {weights(R"("num_bits": "4")"), at + "weights.num_bits' must be an integer"},
      {weights(R"("num_bits": 99999999999999999999)"),
       at + "weights.num_bits' must be an integer from 1 to 64"},
      {weights(R"("num_bits": -4)"), at + "weights.num_bits'"},
      {weights(R"("num_bits": 12, "type": "int")"),
       at + "weights.num_bits' must be 1 to 8 for type int, not 12"},
      {weights(R"("num_bits": 6, "type": "float")"), at + "weights.num_bits' must be 4 or 8 for type float"},
      {weights(R"("num_bits": 4, "type": "complex")"), at + "weights.type' 'complex'"},
      {weights(R"("num_bits": 4, "type": 4)"), at + "weights.type' must be a string"},
      {weights(R"("num_bits": 4, "strategy": "token")"), at + "weights.strategy' 'token'"},
      {weights(R"("num_bits": 4, "strategy": "group")"), at + "weights.group_size' must be above 0"},
      {weights(R"("num_bits": 4, "group_size": 0, "strategy": "group")"), at + "weights.group_size'"},
      {weights(R"("num_bits": 4, "group_size": 1e300)"), at + "weights.group_size' must be an integer"},
      {weights(R"("num_bits": 4, "symmetric": "yes")"), at + "weights.symmetric' must be true or false"},
      {weights(R"("num_bits": 4, "actorder": "random")"), at + "weights.actorder' 'random'"},
      {weights(R"("num_bits": 4, "scale_dtype": "torch.complex64")"), at + "weights.scale_dtype'"},
      {weights(R"("num_bits": 8, "strategy": "block")"),
       at + "weights.block_structure' must be [rows, columns]"},
      {weights(R"("num_bits": 8, "strategy": "block", "block_structure": [128])"), "block_structure'"},
      {weights(R"("num_bits": 8, "strategy": "block", "block_structure": [0, -1])"), "block_structure[0]'"},
      {weights(R"("num_bits": 8, "strategy": "block", "block_structure": "128x")"), "block_structure'"},
      {groups("marlin-24", kInt4Group32), at + "format' 'marlin-24'"},
      {groups("nvfp4-pack-quantized", kInt4Group32), "for integers of 4 bits is not covered"},
      {groups("float-quantized", R"("num_bits": 4, "type": "float")"), "for floats of 4 bits is not covered"},
      {groups("pack-quantized", kInt4Group32, R"("lm_head", 3)"),
       "'quantization_config.ignore' must be a list of strings"},
      {groups("pack-quantized", kInt4Group32, R"("re:(a")"),
       "'quantization_config.ignore' has a pattern that is not understood: entry 0 has '('"},
      {groups("pack-quantized", kInt4Group32, R"("re:^(?!.*experts).*")"), "look-around"},
      {groups("pack-quantized", kInt4Group32, R"("lm_head")", R"("re:[")"), at + "targets' has a pattern"},
      {groups("pack-quantized", kInt4Group32, R"("lm_head")", ""), at + "targets' names no layers"},
      {groups("pack-quantized", kInt4Group32, R"("re:.*")"), "converts none of this model's linear layers"},
      {groups("pack-quantized", kInt4Group32, R"("lm_head")", R"("re:transformer\\.h.*")"), "converts none"},
      {R"("quant_method": "compressed-tensors")", "'quantization_config.config_groups' is not there"},
      {R"("quant_method": "compressed-tensors", "config_groups": [])",
       "'quantization_config.config_groups' must be a map"},
      {R"("quant_method": "compressed-tensors", "config_groups": {"group_0": 4})",
       "config_groups.group_0' must be a map"},
      {R"("quant_method": "compressed-tensors", "config_groups": {})", "converts none"},
      {R"("quant_method": "compressed-tensors", "config_groups": {}, "sparsity_config": {"format": "sparse-24-bitmask"})",
       "'sparse-24-bitmask': sparse weights are not covered"},
      {R"("quant_method": "modelopt")", "'quantization_config.quant_algo' is not there"},
      {R"("quant_method": "modelopt", "quant_algo": 4)", "'quantization_config.quant_algo' must be a string"},
      {R"("quant_method": "modelopt", "quant_algo": "W4A8_AWQ")", "'W4A8_AWQ' is not covered (known: FP8"},
      {R"("quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": {})",
       "'quantization_config.ignore' must be a list"},
      {R"("quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 0)",
       "'quantization_config.group_size'"},
      {R"("quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["*[b-a]*"])", "empty range"},
      {R"("quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": {"num_bits": 3})",
       "kv_cache_scheme'"},
      {R"("quant_method": "modelopt", "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "Q3"})",
       "'quantization_config.quantization.kv_cache_quant_algo' 'Q3' is not covered"},
      {R"("quant_method": "modelopt", "quant_algo": "MIXED_PRECISION")", "quantized_layers' is not there"},
      {R"("quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {"a\u0001b": {"quant_algo": "X"}})",
       "'quantization_config.quantized_layers.a?b.quant_algo' 'X' is not covered"},
      {R"("quant_method": "bitsandbytes")", "one of load_in_4bit and load_in_8bit was expected"},
      {R"("quant_method": "bitsandbytes", "load_in_4bit": true, "load_in_8bit": true)", "both true"},
      {R"("quant_method": "bitsandbytes", "load_in_4bit": "yes")",
       "'quantization_config.load_in_4bit' must be true or false"},
      {R"("quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "int3")",
       "'int3' is not covered (known: nf4, fp4)"},
      {R"("quant_method": "bitsandbytes", "load_in_4bit": true, "llm_int8_skip_modules": "lm_head")",
       "'quantization_config.llm_int8_skip_modules' must be a list of strings"},
      {R"("quant_method": "bitsandbytes", "load_in_8bit": true, "llm_int8_has_fp16_weight": true)",
       "llm_int8_has_fp16_weight'"},
  };
  for (const Case& c : cases) {
    const std::string said = refusal(kDense, c.quantization);
    INFO(c.quantization << "\n" << said);
    CHECK(said.find(c.said) != std::string::npos);
  }
  CHECK(refusal(R"("quantization_config": 7, )" + std::string(kDense), "")
            .find("'quantization_config' must be a map") != std::string::npos);
}

TEST_CASE("a quantisation of more patterns than can be tried on so many layers is an error, and soon",
          "[quantization][long]") {
  std::string model = kDense;
  model.replace(model.find("\"num_hidden_layers\": 1"), 22, "\"num_hidden_layers\": 10000");
  std::string patterns = R"("lm_head")";
  for (int i = 0; i < 3000; ++i) patterns += ", \"re:((.*)*(.*)*(.*)*)*" + std::to_string(i) + "$\"";
  CHECK(refusal(model, groups("pack-quantized", kInt4Group32, patterns)).find("too many patterns") !=
        std::string::npos);
  std::string experts = kGated;
  experts.replace(experts.find("\"num_hidden_layers\": 2"), 22, "\"num_hidden_layers\": 1000");
  experts.replace(experts.find("\"num_experts\": 4"), 16, "\"num_experts\": 1000");
  CHECK(refusal(experts, groups("pack-quantized", kInt4Group32, R"("model.layers.0.mlp.experts.1.up_proj")"))
            .find("too many patterns") != std::string::npos);
}

TEST_CASE("a configuration with a map of very many maps is read in time linear in it", "[quantization]") {
  std::string entries;
  for (int i = 0; i < 100'000; ++i) entries += (i > 0 ? ", \"" : "\"") + std::to_string(i) + "\": {}";
  CHECK(imported("\"other\": {" + entries + "}, " + kDense, groups("int-quantized", kInt8Channel))
            .stored.name == "int8");
}

TEST_CASE("no quantisation makes the import fail otherwise than by InputError", "[quantization]") {
  Dice dice(9);
  const std::string letters = "0123456789-{}[],:.*?(|)\\ \"nx";
  const std::vector<std::string> texts{
      config(kLatent, groups("pack-quantized", kInt4Group32,
                             R"("lm_head", "re:.*self_attn.*", "re:.*mlp\\.(gate|up)_proj.*")")),
      config(kGated, R"("quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "ignore": ["*.mlp.gate"],
 "quantized_layers": {"model.layers.0.mlp.experts": {"quant_algo": "NVFP4", "group_size": 16}})"),
      config(kDense,
             R"("quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_use_double_quant": true,
 "llm_int8_skip_modules": ["lm_head", "down_proj"])")};
  int accepted = 0;
  for (int i = 0; i < moelab::test::random_runs(3000); ++i) {
    std::string text = texts[static_cast<std::size_t>(dice.from(0, static_cast<int>(texts.size()) - 1))];
    for (int n = dice.from(1, 3); n > 0; --n) {
      const auto place = static_cast<std::size_t>(dice.from(0, static_cast<int>(text.size()) - 1));
      text[place] = letters[static_cast<std::size_t>(dice.from(0, static_cast<int>(letters.size()) - 1))];
    }
    try {
      const Architecture a = parse_hf_config("some/config.json", text);
      ++accepted;
      REQUIRE(test::model_of_text(architecture_to_yaml(a)) == a);
    } catch (const InputError&) {
    }
  }
  CHECK(accepted > moelab::test::random_runs(100));
  CHECK(accepted < moelab::test::random_runs(2900));
}

}  // namespace
}  // namespace moelab::hf_quantization_test
