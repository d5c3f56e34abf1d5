// Totals that others counted, tensor by tensor, of the models' files: closer than the 1 % that a name or a
// model card allows, so that a wrong width, head or bias shows.
#include <catch2/catch.hpp>
#include <cmath>
#include <string_view>

#include "models/architecture.hpp"
#include "tests/models/model_files.hpp"

namespace moelab::published_totals_test {
namespace {

using test::model_of_file;

struct Counted {
  std::string_view model;
  double billions;
};

// The column "params" of llama-bench, from GGUF files without vision tower and prediction layer.
constexpr Counted kCounted[]{
    {"minimax-m2", 228.69},        {"qwen3.5-35b-a3b", 34.66},    {"qwen3.5-122b-a10b", 122.11},
    {"qwen3.5-397b-a17b", 396.35}, {"qwen3-next-80b-a3b", 79.67}, {"qwen3-coder-next", 79.67},
    {"llama-4-scout", 107.77},     {"llama-4-maverick", 400.71},  {"ernie-4.5-21b-a3b", 21.83},
    {"hunyuan-a13b", 80.39},       {"granite-4.0-h-tiny", 6.94}};

TEST_CASE("totals are those that llama-bench counts, to its last digit", "[architecture]") {
  for (const Counted& row : kCounted) {
    INFO(row.model);
    CHECK(std::abs(total_weights(model_of_file(row.model)) / 1e9 - row.billions) <= 0.005);
  }
}

// Dense models: what their cards say to their last digit, and the sum by hand for the two that are replayed.
TEST_CASE("totals of dense models are those of their cards", "[architecture]") {
  const Counted cards[]{{"llama-3.1-8b", 8.03},
                        {"llama-3.1-70b", 70.55},
                        {"qwen3-8b", 8.19},
                        {"qwen3-14b", 14.77},
                        {"qwen3-32b", 32.76}};
  for (const Counted& row : cards) {
    INFO(row.model);
    const Architecture a = model_of_file(row.model);
    CHECK(std::abs(total_weights(a) / 1e9 - row.billions) <= 0.005);
    CHECK(std::abs(total_weights(a) - a.published_weights.value()) <= 0.005 * *a.published_weights);
    CHECK(active_weights(a) == total_weights(a));
  }
  // Queries and output 4096 x 4096, keys and values 4096 x 1024, three matrices of 4096 x 14336, two norms;
  // of Qwen3-32B heads of 64 x 128 and 8 x 128, 25600 wide, and two norms of 128 values besides.
  const double llama = 32 * (2.0 * 4096 * 4096 + 2.0 * 4096 * 1024 + 3.0 * 4096 * 14336 + 2 * 4096) + 4096 +
                       2.0 * 128256 * 4096;
  CHECK(total_weights(model_of_file("llama-3.1-8b")) == llama);
  const double qwen = 64 * (2.0 * 5120 * 8192 + 2.0 * 5120 * 1024 + 3.0 * 5120 * 25600 + 2 * 5120 + 2 * 128) +
                      5120 + 2.0 * 151936 * 5120;
  CHECK(total_weights(model_of_file("qwen3-32b")) == qwen);
}

// GGUF files of the GLM-4.5 family hold the prediction layer: one more layer with experts, a projection of
// two hidden states to one, three norms, and an embedding and a head of its own.
double with_prediction_layer(Architecture a) {
  a.layers.push_back(a.layers.back());
  const double hidden = a.hidden;
  return total_weights(a) + 2 * hidden * hidden + 3 * hidden + 2 * embedding_weights(a);
}

TEST_CASE("totals of GLM-4.5 with the prediction layer are those that llama-bench counts", "[architecture]") {
  CHECK(std::abs(with_prediction_layer(model_of_file("glm-4.5")) / 1e9 - 358.34) <= 0.005);
  CHECK(std::abs(with_prediction_layer(model_of_file("glm-4.6")) / 1e9 - 358.34) <= 0.005);
  CHECK(std::abs(with_prediction_layer(model_of_file("glm-4.5-air")) / 1e9 - 110.47) <= 0.005);
}

// Files for absorbed attention hold kv_b_proj as it is and a second time, its two halves apart.
TEST_CASE("DeepSeek-R1's total with kv_b_proj twice is the one that llama-bench counts", "[architecture]") {
  const Architecture a = model_of_file("deepseek-r1");
  const Attention& t = a.layers[0].attention;
  const double halves = 1.0 * t.heads * (t.head_dim - t.rope_dim + t.value_dim) * t.kv_lora_rank;
  CHECK(std::abs((total_weights(a) + 61 * halves) / 1e9 - 672.05) <= 0.005);
}

// BF16 files of Qwen3-Coder-480B are 960.3 GB. Qwen3-Coder-30B in Q8_0 (8.5 bits; routers in F32) is 30.25
// GiB.
TEST_CASE("sizes of files of Qwen3-Coder are those of its weights", "[architecture]") {
  CHECK(std::abs(2 * total_weights(model_of_file("qwen3-coder-480b-a35b")) / 1e9 - 960.3) <= 0.05);
  const Architecture a = model_of_file("qwen3-coder-30b-a3b");
  double routers = 0;
  for (const Layer& layer : a.layers) routers += gate_weights(a, layer);
  const double bytes = (total_weights(a) - routers) * 8.5 / 8 + routers * 4;
  CHECK(std::abs(bytes / (1 << 30) - 30.25) <= 0.005);
}

// The README's table counts no embeddings: 15.29B, of which 2.24B active.
TEST_CASE("Moonlight's weights without embeddings are those of its README", "[architecture]") {
  const Architecture a = model_of_file("moonlight-16b-a3b");
  const double embeddings = a.embedding_copies * embedding_weights(a);
  CHECK(std::abs((total_weights(a) - embeddings) / 1e9 - 15.29) <= 0.005);
  CHECK(std::abs((active_weights(a) - embeddings) / 1e9 - 2.24) <= 0.005);
}

}  // namespace
}  // namespace moelab::published_totals_test
