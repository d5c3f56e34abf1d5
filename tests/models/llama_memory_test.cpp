// llama.cpp's buffers: figures that its logs print, worked out by hand, and what must hold of any load.
#include "models/llama_memory.hpp"

#include <catch2/catch.hpp>

#include "models/runtime.hpp"
#include "models/serving_estimate.hpp"
#include "models/stored_weights.hpp"
#include "tests/models/model_files.hpp"
#include "tests/models/random_architecture.hpp"
#include "tests/random_runs.hpp"

namespace moelab::llama_memory_test {
namespace {

constexpr double kMib = 1048576;

Runtime current() {
  return load_runtime("llama.cpp-cuda");
}

/// llama.cpp before pull requests 23764 and 23861.
Runtime before_2026_06() {
  Runtime r = current();
  r.mask_bytes = 4;
  r.logits_rows = 1;
  r.kv_copy = 0;
  return r;
}

double compute_mib(const Architecture& model, const RuntimeCosts& r, double tokens, const LoadOptions& o,
                   const LlamaPlacement& placement = {}) {
  return llama_buffers(model, r, tokens, o, placement).gpu_compute / kMib;
}

TEST_CASE("llama memory: logits are what loads print", "[llama]") {
  const auto mib = [](double rows, double vocab, double hidden, double states) {
    return llama_logits_bytes(rows, vocab, hidden, states) / kMib;
  };
  CHECK(mib(512, 128256, 4096, 1) == Approx(258.50).margin(0.005));    // Llama-3-8B
  CHECK(mib(512, 151936, 2048, 2) == Approx(304.75).margin(0.005));    // Qwen3-30B-A3B, ik pull request 370
  CHECK(mib(512, 151936, 4096, 2) == Approx(312.75).margin(0.005));    // Qwen3-235B-A22B, there too
  CHECK(mib(4096, 151936, 4096, 2) == Approx(2502.00).margin(0.005));  // ik discussion 491, last GPU
  CHECK(mib(4096, 157184, 8192, 1) == Approx(2584.00).margin(0.005));  // Ling-1T, ik pull request 838
}

TEST_CASE("llama memory: the host holds masks and hidden states", "[llama]") {
  // Issue 23527: Qwen3.6-35B-A3B at 150000 tokens (150016 padded), before and with pull request 23764.
  CHECK(llama_host_bytes(150016, 4096, 4, 2048, 2) / kMib == Approx(2408).margin(0.5));
  CHECK(llama_host_bytes(150016, 4096, 2, 2048, 2) / kMib == Approx(1236).margin(0.5));
  // ik pull request 370 prints 68.01: one hidden state.
  CHECK(llama_host_bytes(32768, 512, 4, 2048, 1) / kMib == Approx(68.01).margin(0.02));
  const Architecture model = test::model_of_file("qwen3.6-35b-a3b");
  const LoadOptions options{.micro_batch = 4096, .kv_bits = 8.5};
  CHECK(llama_buffers(model, before_2026_06(), 150000, options, {}).host_compute / kMib ==
        Approx(2408).margin(0.5));
  CHECK(llama_buffers(model, current(), 150000, options, {}).host_compute / kMib == Approx(1236).margin(0.5));
}

TEST_CASE("llama memory: scores of all heads without flash attention", "[llama]") {
  CHECK(llama_score_bytes(8192, 128, 512) == 2048 * kMib);  // DeepSeek-R1: 2048 of the 2322 MiB printed
  const Architecture model = test::model_of_text(
      "name: t\nhidden: 64\nvocab: 100\nlayers: 2\nattention: {heads: 128, head_dim: 2}\n"
      "moe: {experts: 4, top_k: 1, width: 16}\n");
  const LoadOptions with{}, without{.flash_attention = false};
  // Beside them the same: the attention is the largest moment of both.
  CHECK(compute_mib(model, current(), 8192, without) - compute_mib(model, current(), 8192, with) ==
        Approx(2048));
}

TEST_CASE("llama memory: layers with a window keep it and a micro-batch", "[llama]") {
  CHECK(llama_window_tokens(128, 512, 8192) == 768);      // 640, in 256s
  CHECK(llama_window_tokens(128, 1024, 131072) == 1280);  // 1152
  CHECK(llama_window_tokens(1024, 512, 512) == 512);
  // GPT-OSS-120B, 2 sequences of 131072 tokens, micro-batches of 1024: 9306 MiB of caches and 281 of the
  // host's buffers are printed (ollama issue 16416). 2048 bytes a token and layer.
  const Architecture model = test::model_of_file("gpt-oss-120b");
  const LoadOptions options{.micro_batch = 1024, .sequences = 2};
  const LlamaBuffers b = llama_buffers(model, current(), 262144, options, {});
  CHECK(b.kv / kMib == Approx(18 * 2048.0 * (262144 + 2 * 1280) / kMib));
  CHECK(b.kv / kMib == Approx(9306).margin(1));
  CHECK(b.host_compute / kMib == Approx(281).margin(1));
  // One cache for both: the windows of two sequences in it.
  const LoadOptions unified{.micro_batch = 1024, .sequences = 2, .unified = true};
  CHECK(llama_buffers(model, current(), 262144, unified, {}).kv / kMib ==
        Approx(18 * 2048.0 * (262144 + 1280) / kMib));
}

TEST_CASE("llama memory: caches in their types, states of linear attention in 32 bits", "[llama]") {
  const auto kv_mib = [](const char* name, double tokens, double bits) {
    return llama_buffers(test::model_of_file(name), current(), tokens, {.kv_bits = bits}, {}).kv / kMib;
  };
  CHECK(kv_mib("qwen3-30b-a3b", 32768, 16) == Approx(3072));                  // ik pull request 370
  CHECK(kv_mib("deepseek-r1", 16384, 16) == Approx(1098));                    // ik issue 596: the latent
  CHECK(kv_mib("deepseek-r1", 65536, 8.5) == Approx(2333.25).margin(0.005));  // ik discussion 258
  CHECK(kv_mib("qwen3-235b-a22b", 16384, 8.5) == Approx(1598).margin(0.1));   // ik pull request 370
  CHECK(kv_mib("qwen3-30b-a3b", 1, 16) * 32768 / 256 == Approx(3072));        // padded to 256
  // Qwen3-Coder-Next: 36 layers of 32 x 128 x 128 and three inputs of 8192 values, for each sequence.
  const Architecture next = test::model_of_file("qwen3-coder-next");
  CHECK(llama_buffers(next, current(), 4096, {.sequences = 4}, {}).states ==
        4 * 36 * (32 * 128 * 128 + 3 * 8192) * 4.0);
  // Nemotron 3 Nano: 23 layers of 64 x 64 x 128 and three inputs of 64 x 64 + 2 x 8 x 128 values; a cache for
  // 6 of 52 layers, of 2 x 2 x 128 values a token.
  const Architecture nemotron = test::model_of_file("nemotron-3-nano-30b-a3b");
  const LlamaBuffers b = llama_buffers(nemotron, current(), 32768, {.sequences = 2}, {});
  CHECK(b.states == 2 * 23 * (64 * 64 * 128 + 3 * (64 * 64 + 2 * 8 * 128)) * 4.0);
  CHECK(b.kv / kMib == Approx(6 * 2 * 2 * 128 * 2 * 32768.0 / kMib));
  // 36 layers of 48 x 64 x 128 and three inputs of 48 x 64 + 2 x 128.
  CHECK(llama_buffers(test::model_of_file("granite-4.0-h-tiny"), current(), 4096, {}, {}).states ==
        36 * (48 * 64 * 128 + 3 * (48 * 64 + 2 * 128)) * 4.0);
}

TEST_CASE("llama memory: the compute buffer is the largest moment", "[llama]") {
  // One layer, written out: hidden states of 512 x 64, masks of 8192 x 512, experts 4 x 2 x 64 or 4 x 3 x 16.
  const Architecture model = test::model_of_text(
      "name: t\nhidden: 64\nvocab: 100\nlayers: 1\nattention: {heads: 2, head_dim: 8}\n"
      "moe: {experts: 16, top_k: 4, width: 16}\n");
  const double mask = 8192.0 * 512 * 2, states = 3 * 512 * 64 * 4.0, experts = 4 * 2 * 64 * 512 * 4.0;
  const double tensor = 16 * 64 * 16 * 2.0;  // one matrix of all experts, BF16
  const LlamaBuffers resident = llama_buffers(model, current(), 8192, {}, {});
  CHECK(resident.gpu_compute == mask + states + experts);
  const LlamaPlacement streamed{.streaming = true, .overridden = true};
  CHECK(llama_buffers(model, current(), 8192, {}, streamed).gpu_compute == mask + states + experts + tensor);
  // Two GPUs: each has four masks, unless some layers' experts lie on the host.
  CHECK(llama_buffers(model, current(), 8192, {}, {.gpus = 2}).gpu_compute ==
        2 * (4 * mask + states + experts));
  CHECK(llama_buffers(model, current(), 8192, {}, {.gpus = 2, .streaming = true, .overridden = true})
            .gpu_compute == 2 * (mask + states + experts) + tensor);
  // An input has its copies on the host too: ollama's llm/llama_server_test.go prints 268.05 MiB for two
  // GPUs, 32768 tokens and 32-bit masks: four of 64 and two hidden states of 512 x 3072.
  const double hidden = 2 * 512 * 64 * 4.0;
  CHECK(resident.host_compute == mask + hidden);
  CHECK(llama_buffers(model, current(), 8192, {}, {.gpus = 2}).host_compute == 4 * mask + hidden);
  CHECK(llama_buffers(model, current(), 8192, {}, {.gpus = 2, .streaming = true, .overridden = true})
            .host_compute == mask + hidden);
  CHECK(llama_host_bytes(4 * 32768, 512, 4, 3072, 2) / kMib == Approx(268.05).margin(0.06));
  // Before: the 32-bit mask beside its 16-bit cast, and the logits of a whole micro-batch where larger.
  CHECK(llama_buffers(model, before_2026_06(), 8192, {}, {}).gpu_compute == 3 * mask + states);
  Architecture wide = model;
  wide.vocab = 200000;
  CHECK(llama_buffers(wide, before_2026_06(), 8192, {}, {}).gpu_compute == 512 * (200000 + 2 * 64) * 4.0);
  CHECK(llama_buffers(wide, current(), 8192, {}, {}).gpu_compute == mask + states + experts);
}

TEST_CASE("llama memory: quantised caches are copied in 16 bits, a layer at a time", "[llama]") {
  // Unsloth's test values at 262144 tokens: 796 MiB of a 2B model with 2 x 256 keys and values, of which
  // 512 are the copy and 256 the mask.
  const Architecture model = test::model_of_text(
      "name: t\nhidden: 64\nvocab: 100\nlayers: 2\nattention: {heads: 8, kv_heads: 2, head_dim: 256}\n"
      "moe: {experts: 4, top_k: 1, width: 16}\n");
  CHECK(compute_mib(model, current(), 262144, {.kv_bits = 8.5}) - compute_mib(model, current(), 262144, {}) ==
        Approx(512));
  CHECK(compute_mib(model, before_2026_06(), 262144, {.kv_bits = 8.5}) ==
        compute_mib(model, before_2026_06(), 262144, {}));
}

TEST_CASE("llama memory: what holds of any load", "[llama]") {
  test::Dice dice(77);
  for (int i = 0; i < moelab::test::random_runs(500); ++i) {
    Architecture model = random_architecture(dice);
    const Runtime r = dice.coin() ? current() : before_2026_06();
    const LoadOptions options{.micro_batch = 1.0 * dice.from(1, 4096),
                              .sequences = 1.0 * dice.from(1, 4),
                              .unified = dice.coin(),
                              .kv_bits = dice.coin() ? 16 : 8.5,
                              .flash_attention = dice.coin()};
    const double tokens = dice.from(1, 100000);
    const LlamaPlacement one{}, streamed{.streaming = true, .overridden = true};
    const LlamaBuffers b = llama_buffers(model, r, tokens, options, one);
    LoadOptions larger = options;
    larger.micro_batch = *options.micro_batch + dice.from(1, 1000);
    const LlamaBuffers more = llama_buffers(model, r, tokens, larger, one);
    REQUIRE(more.gpu_compute > b.gpu_compute);
    REQUIRE(more.host_compute >= b.host_compute);
    REQUIRE(more.kv >= b.kv);
    const LlamaBuffers longer = llama_buffers(model, r, tokens + dice.from(1, 1000), options, one);
    REQUIRE(longer.gpu_compute >= b.gpu_compute);
    REQUIRE(longer.host_compute >= b.host_compute);
    REQUIRE(longer.kv >= b.kv);
    const double partial = llama_buffers(model, r, tokens, options, streamed).gpu_compute;
    REQUIRE(partial >= b.gpu_compute);
    REQUIRE(partial <= b.gpu_compute + largest_expert_tensor(model).value());
    REQUIRE(llama_buffers(model, r, tokens, options, {.gpus = 3}).gpu_compute >= b.gpu_compute);
    model.vocab += 1000;
    REQUIRE(llama_buffers(model, r, tokens, options, one).gpu_compute >= b.gpu_compute);
  }
}

TEST_CASE("llama memory: the largest expert tensor is in the mixture's widest type", "[llama]") {
  Architecture model = test::model_of_file("olmoe-1b-7b");
  const double weights = 64 * 2048.0 * 1024;
  CHECK(largest_expert_tensor(model).value() == 2 * weights);
  model.stored = stored_as(model, "gguf-q4_k_m");  // Q6_K: 210 bytes for 256 weights
  CHECK(largest_expert_tensor(model).value() == weights * 210 / 256);
  model.stored = stored_as(model, "gguf-q8_0");  // 34 bytes for 32
  CHECK(largest_expert_tensor(model).value() == Approx(weights * 34 / 32));
}

}  // namespace
}  // namespace moelab::llama_memory_test
