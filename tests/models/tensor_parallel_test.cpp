#include "models/tensor_parallel.hpp"

#include <catch2/catch.hpp>

#include "models/input_error.hpp"
#include "models/stored_weights.hpp"
#include "models/timing.hpp"
#include "tests/models/random_architecture.hpp"
#include "tests/random_runs.hpp"

namespace moelab::tensor_parallel_test {

using test::Dice;

namespace {

/// A model whose heads, widths and vocabulary are `ranks` times those of `part`, which each of so many GPUs
/// then has.
Architecture widened(const Architecture& part, int ranks) {
  Architecture whole = part;
  whole.vocab *= ranks;
  for (Layer& layer : whole.layers) {
    Attention& t = layer.attention;
    t.heads *= ranks;
    t.kv_heads *= ranks;
    t.linear_key_heads *= ranks;
    t.linear_value_heads *= ranks;
    layer.feed_forward.width *= ranks;
    layer.feed_forward.shared_width *= ranks;
  }
  return whole;
}

std::string message(const Architecture& model, int ranks) {
  try {
    tensor_parallel_part(model, ranks);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a part has a rank's share of heads, widths and vocabulary") {
  Dice dice(1);
  for (int i = 0; i < moelab::test::random_runs(3000); ++i) {
    Architecture part = random_architecture(dice);
    part.published_weights.reset();
    part.published_active_weights.reset();
    const int ranks = dice.from(1, 9);
    REQUIRE(tensor_parallel_part(widened(part, ranks), ranks) == part);
  }
}

TEST_CASE("routed experts, key-value heads and dense parts of all GPUs add up to the model's") {
  Dice dice(2);
  for (int i = 0; i < moelab::test::random_runs(3000); ++i) {
    Architecture whole = widened(random_architecture(dice), 4);
    for (Layer& layer : whole.layers) layer.feed_forward.bias = layer.feed_forward.shared_gate = false;
    const Architecture part = tensor_parallel_part(whole, 4);
    REQUIRE(4 * routed_weights(part) == routed_weights(whole));
    for (std::size_t l = 0; l < whole.layers.size(); ++l) {
      REQUIRE(4 * feed_forward_dense_weights(part, part.layers[l]) ==
              feed_forward_dense_weights(whole, whole.layers[l]));
      REQUIRE(gate_weights(part, part.layers[l]) == gate_weights(whole, whole.layers[l]));
      // What is not split is on every GPU.
      REQUIRE(4 * attention_weights(part, part.layers[l]) >= attention_weights(whole, whole.layers[l]));
    }
  }
}

TEST_CASE("the node of the FluxMoE paper, by hand") {
  // Four GPUs: a key-value head each, copied; 12 of 48 layers have a cache of 256 keys and 256 values a
  // token.
  const Architecture qwen = tensor_parallel_part(load_architecture("qwen3-next-80b-a3b"), 4);
  CHECK(kv_bytes_per_token(qwen) == Bytes(12 * 2 * 256 * 2));
  CHECK(expert_bytes(qwen) == Bytes(3.0 * 2048 * 512 * 2 / 4));
  // 36 layers: a state of 32 value heads of 128 x 128, and three steps of a convolution over 2 * 16 * 128 +
  // 32 * 128 values; a quarter of it.
  CHECK(state_bytes_per_request(qwen) ==
        Bytes(36 * (32.0 * 128 * 128 + 3 * (2 * 16 * 128 + 32 * 128)) * 2 / 4));
  const Architecture mixtral = tensor_parallel_part(load_architecture("mixtral-8x7b"), 2);
  CHECK(expert_bytes(mixtral) == Bytes(3.0 * 4096 * 14336 * 2 / 2));
  // Row F12: 32 layers, hidden 4,096, 8 heads: 4 KiB a token and layer, 64 GiB for 128 requests of 4,096.
  const Architecture whole = load_architecture("mixtral-8x7b");
  CHECK(kv_bytes_per_token(whole) == Bytes(32 * 4096));
  CHECK(128.0 * 4096 * kv_bytes_per_token(whole) == Bytes(64.0 * (1 << 30)));
  CHECK(2 * kv_bytes_per_token(mixtral) == kv_bytes_per_token(whole));
  CHECK(state_bytes_per_request(whole) == Bytes(0));
  CHECK(all_reduce_bytes(qwen, 256) == Bytes(256 * 2048 * 2));
}

TEST_CASE("no GPU has a part of a group of weights with one scale") {
  // vLLM issue 17604: 1536 columns of an expert over 8 GPUs are 192, no multiple of AWQ's and GPTQ's groups
  // of 128; over 4 they are 384, which it loads.
  Architecture qwen = load_architecture("qwen3-235b-a22b");
  CHECK(message(qwen, 8).empty());
  for (const char* format : {"awq", "gptq-int4", "gptq-int8"}) {
    CAPTURE(format);
    qwen.stored = stored_as(qwen, format);
    CHECK(contains(message(qwen, 8), "a scale for each 128 weights"));
    CHECK(contains(message(qwen, 8), "192 of 1536 columns in each expert"));
    CHECK(message(qwen, 4).empty());
    CHECK(parallel_part(qwen, 8, 1).moe().width == 1536);  // expert parallel: whole
  }
  // By part, as model files may say it: 192 are six groups of 32.
  qwen.stored.name = "experts awq, else bf16";
  CHECK_FALSE(message(qwen, 8).empty());
  qwen.stored.name = "attention awq, else int4-g32";
  CHECK(message(qwen, 8).empty());
  // FP8 that a server makes as it loads has one scale a matrix, a checkpoint's blocks are cut no more than
  // groups: of Qwen3-235B-A22B-FP8 192 columns are no multiple of 128.
  qwen.stored = stored_as(qwen, "fp8");
  CHECK(message(qwen, 8).empty());
  qwen.stored.group = 128;
  CHECK(contains(message(qwen, 8), "192 of 1536 columns in each expert"));
  CHECK(message(qwen, 4).empty());
  // MiniMax-M2 is published in such blocks, with experts of the same width.
  CHECK(contains(message(load_architecture("minimax-m2"), 8), "192 of 1536 columns in each expert"));
  // Only experts can be kept whole.
  Architecture lite = load_architecture("deepseek-v2-lite");
  lite.stored = stored_as(lite, "awq");
  CHECK(contains(message(lite, 4), "feed-forward columns"));
  CHECK_FALSE(contains(message(lite, 4), "expert_parallel"));
}

TEST_CASE("hybrids on several GPUs, by hand") {
  // One group of B and C, copied to each of four GPUs; 32 of 128 heads of 64 x 128, and three inputs of the
  // convolution over 32 * 64 + 2 * 128 values; 36 layers. Of 8 key-value heads, 2.
  const Architecture granite = tensor_parallel_part(load_architecture("granite-4.0-h-small"), 4);
  CHECK(state_bytes_per_request(granite) == Bytes(36 * (32 * 64 * 128.0 + 3 * (32 * 64 + 2 * 128)) * 2));
  CHECK(kv_bytes_per_token(granite) == Bytes(4 * 2 * 2 * 128 * 2));
  // Eight groups, two for each GPU; two key-value heads, one copied to each.
  const Architecture nemotron = tensor_parallel_part(load_architecture("nemotron-3-nano-30b-a3b"), 4);
  CHECK(state_bytes_per_request(nemotron) == Bytes(23 * (16 * 64 * 128.0 + 3 * (16 * 64 + 2 * 2 * 128)) * 2));
  CHECK(kv_bytes_per_token(nemotron) == Bytes(6 * 2 * 1 * 128 * 2));
  // An all-reduce behind each part: one in a layer of one.
  int reduces = 0;
  for (const Layer& layer : nemotron.layers) reduces += all_reduces(layer);
  CHECK(reduces == 52);
  CHECK(all_reduces(granite.layers[0]) == 2);
  CHECK(all_reduces(load_architecture("switch-large-128").layers.back()) == 3);
  CHECK(message(load_architecture("granite-4.0-h-tiny"), 5).find("48 heads of Mamba-2, which 5 GPUs") !=
        std::string::npos);
  Architecture odd = load_architecture("nemotron-3-nano-30b-a3b");
  for (Layer& layer : odd.layers) layer.attention.linear_key_heads *= 3;
  CHECK(message(odd, 16).find("24 groups of Mamba-2, which 16 GPUs") != std::string::npos);
}

TEST_CASE("GPUs that cannot share a model evenly are refused by what does not divide") {
  const Architecture mixtral = load_architecture("mixtral-8x7b");
  CHECK(message(mixtral, 3).find("32 attention heads, which 3 GPUs cannot share evenly") !=
        std::string::npos);
  CHECK(message(mixtral, 16) == "");  // 8 key-value heads: each on two GPUs
  CHECK(message(mixtral, 32) == "");
  Architecture odd = mixtral;
  for (Layer& layer : odd.layers) layer.attention.kv_heads = 4, layer.attention.heads = 24;
  CHECK(message(odd, 6).find("4 key-value heads") != std::string::npos);
  for (Layer& layer : odd.layers)
    layer.attention = mixtral.layers[0].attention, layer.feed_forward.width = 14337;
  CHECK(message(odd, 2).find("14337 columns in each expert") != std::string::npos);
}

TEST_CASE("what a node of GPUs takes, from its profile") {
  const TimingModel timing(load_device("l40-48gb-x4"));
  const GpuCodecProfile& huffman = timing.device().gpu->codecs.at("huffman");
  CHECK(timing.decode(huffman, Bytes(350e9)).value() == Approx(1));
  GpuCodecProfile faster = huffman;  // than the memory: 0.8 out and 1 in at 725 GB/s
  faster.rate.value = BytesPerSecond(1e15);
  CHECK(timing.decode(faster, Bytes(725e9)).value() == Approx(1.8));
  // 512 Ki values of 2 bytes over four GPUs, as measured; three GPUs go by what four take.
  CHECK(timing.all_reduce(4, Bytes(1 << 20)).value() == Approx(268.3e-6).epsilon(1e-4));
  CHECK(timing.all_reduce(3, Bytes(1 << 20)) == timing.all_reduce(4, Bytes(1 << 20)));
  CHECK(timing.all_reduce(2, Bytes(1 << 20)).value() == Approx(74.76e-6).epsilon(1e-3));
  CHECK(timing.all_reduce(1, Bytes(1 << 20)) == Seconds(0));
  // All 8 experts of a layer, three matrices of 4,096 x 14,336 in BF16, read once at 725 GB/s, and three
  // launches.
  const Architecture mixtral = load_architecture("mixtral-8x7b");
  CHECK(timing.grouped_experts(mixtral, 8, 16).value() ==
        Approx(8 * 3 * 4096.0 * 14336 * 2 / 725e9 + 3 * 2.9e-6).epsilon(1e-9));
  // Many tokens: 2 FLOPs a weight at 0.63 of 181 TFLOP/s.
  CHECK(timing.grouped_experts(mixtral, 8, 1e6).value() ==
        Approx(1e6 * 2 * 3 * 4096.0 * 14336 / (0.63 * 181e12) + 3 * 2.9e-6).epsilon(1e-9));
}

}  // namespace moelab::tensor_parallel_test
