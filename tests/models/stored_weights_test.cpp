// Formats of weights: what files of models weigh, against the files that people download.
#include "models/stored_weights.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "models/input_error.hpp"
#include "models/yaml_reader.hpp"
#include "tests/models/random_architecture.hpp"
#include "tests/random_runs.hpp"

namespace moelab::stored_weights_test {
namespace {

struct File {
  const char* model;
  const char* weights;
  double gigabytes;  // of the file, or files
};

// Sizes as remembered from listings of unsloth's, bartowski's and ggml-org's files, written down before the
// formulas were run. Looked up since: Qwen3-30B-A3B Q8_0, Q6_K and Q5_K_M (bartowski: 32.48, 25.10, 21.74
// GB), DeepSeek-V3 Q8_0 and Q4_K_M (unsloth: 712 GB, and 377, which are GiB: 404.8 GB).
constexpr File kFiles[] = {
    {"qwen3-30b-a3b", "gguf-q8_0", 32.48},    {"qwen3-30b-a3b", "gguf-q6_k", 25.09},
    {"qwen3-30b-a3b", "gguf-q5_k_m", 21.73},  {"qwen3-30b-a3b", "gguf-q4_k_m", 18.56},
    {"qwen3-30b-a3b", "gguf-q4_k_s", 17.46},  {"qwen3-30b-a3b", "gguf-q3_k_m", 14.71},
    {"qwen3-30b-a3b", "gguf-q2_k", 11.26},    {"deepseek-v2-lite", "gguf-q4_k_m", 10.36},
    {"deepseek-v2-lite", "gguf-q8_0", 16.70}, {"gpt-oss-20b", "gguf-mxfp4", 12.11},
    {"gpt-oss-120b", "gguf-mxfp4", 63.39},    {"mixtral-8x7b", "gguf-q8_0", 49.62},
    {"deepseek-v3", "gguf-q8_0", 713.3},      {"deepseek-v3", "gguf-q4_k_m", 404.4},
    {"olmoe-1b-7b", "gguf-q4_k_m", 4.21},     {"qwen3-235b-a22b", "gguf-q4_k_m", 142.3},
};

// What llama-bench prints of files of hybrids (22.82 and 24.40 GiB, and bytes), and a listing of LM Studio's.
// Of Nemotron 3 Nano neither the hidden size nor an expert's width is a multiple of 256: types fall back.
constexpr File kHybridFiles[] = {{"nemotron-3-nano-30b-a3b", "gguf-q4_k_m", 24.50},
                                 {"nemotron-3-nano-30b-a3b", "gguf-q5_k_m", 26.20},
                                 {"nemotron-3-nano-30b-a3b", "gguf-iq4_xs", 18.161},
                                 {"granite-4.0-h-tiny", "gguf-q4_k_m", 4.23}};

TEST_CASE("weight formats: GGUF files weigh what their mixtures say", "[formats]") {
  std::vector<File> files(std::begin(kFiles), std::end(kFiles));
  files.insert(files.end(), std::begin(kHybridFiles), std::end(kHybridFiles));
  for (const File& file : files) {
    Architecture model = load_architecture(file.model);
    model.stored = stored_as(model, file.weights);
    INFO(file.model << " " << file.weights);
    CHECK(total_bytes(model).value() / 1e9 == Approx(file.gigabytes).epsilon(0.01));
  }
}

TEST_CASE("weight formats: what checkpoints hold that are not BF16", "[formats]") {
  // Safetensors of openai/gpt-oss-20b: 13.76 GB; of deepseek-ai/DeepSeek-V3 without its prediction layer:
  // 671.03e9 weights, a byte each but for embedding, head and routers.
  CHECK(total_bytes(load_architecture("gpt-oss-20b")).value() / 1e9 == Approx(13.76).epsilon(0.01));
  const Architecture v3 = load_architecture("deepseek-v3");
  CHECK(total_bytes(v3).value() == Approx(671.03e9 + 2 * 129280 * 7168.0).epsilon(0.001));
}

TEST_CASE("weight formats: a token reads its experts and everything but the input embedding", "[formats]") {
  test::Dice dice(5);
  for (int i = 0; i < moelab::test::random_runs(1000); ++i) {
    const Architecture a = random_architecture(dice);
    // Every layer's experts used are top_k of all: what is not read are the others and the embedding.
    double idle = (a.embedding_copies - 1) * embedding_weights(a) * a.stored.of(WeightPart::embedding);
    for (const Layer& layer : a.layers) {
      const FeedForward& ff = layer.feed_forward;
      if (ff.kind == FeedForward::Kind::moe)
        idle += (ff.experts - ff.top_k) * expert_weights(a, ff) * a.stored.of(WeightPart::experts);
    }
    REQUIRE(active_bytes(a).value() == Approx(total_bytes(a).value() - idle).epsilon(1e-9));
  }
}

TEST_CASE("weight formats: every name is taken, and what is near an unknown one is named", "[formats]") {
  const Architecture model = load_architecture("qwen3-30b-a3b");
  for (const std::string& name : stored_names()) {
    const StoredWeights stored = stored_as(model, name);
    CHECK(stored.name == name);
    for (const double bytes : stored.bytes) CHECK((bytes > 0.19 && bytes <= 4));
  }
  try {
    stored_as(model, "gguf-q4_km");
    FAIL("accepted");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("gguf-q4_k_m") != std::string::npos);
  }
}

TEST_CASE("weight formats: dynamic and short names stand for the mixture next to them", "[formats]") {
  const Architecture model = load_architecture("qwen3-30b-a3b");
  const auto gigabytes = [&](const char* name) {
    Architecture a = model;
    a.stored = stored_as(model, name);
    CHECK(a.stored.name == name);
    return total_bytes(a).value() / 1e9;
  };
  CHECK(gigabytes("gguf-ud-q4_k_xl") == Approx(17.72).epsilon(0.06));  // unsloth/Qwen3-30B-A3B-GGUF
  CHECK(gigabytes("gguf-q4_k") == gigabytes("gguf-q4_k_m"));
  CHECK_THROWS_AS(stored_as(model, "gguf-ud-q9_k_xl"), InputError);
}

TEST_CASE("weight formats: a title says what is not BF16, and what it weighs", "[formats]") {
  Architecture model = load_architecture("qwen3-30b-a3b");
  CHECK(title_with_weights(model) == "Qwen3-30B-A3B");
  model.stored = stored_as(model, "gguf-q8_0");
  CHECK(title_with_weights(model) == "Qwen3-30B-A3B (gguf-q8_0: " + to_string(total_bytes(model)) + ")");
  CHECK(title_with_weights(model, 2) ==
        "Qwen3-30B-A3B (gguf-q8_0: " + to_string(total_bytes(model)) + " on each of 2 GPUs)");
  // Experts lie on one GPU each, the rest on both.
  const Bytes experts = total_bytes(model) - non_expert_bytes(model);
  CHECK(title_with_weights(model, 2, true) ==
        "Qwen3-30B-A3B (gguf-q8_0: " + to_string(experts + 2 * non_expert_bytes(model)) +
            " on 2 GPUs together)");
}

TEST_CASE("weight formats: mixtures of two and three bits by llama.cpp's rules", "[formats]") {
  // 48 layers, of whose down-projections the first eighth has another type; bits a weight as ggml's blocks
  // have them.
  const Architecture model = load_architecture("qwen3-30b-a3b");
  constexpr double iq2_xs = 74 * 8 / 256.0, iq2_s = 82 * 8 / 256.0, iq3_s = 110 * 8 / 256.0,
                   q4_k = 144 * 8 / 256.0;
  const auto experts = [&](const char* name) { return stored_as(model, name).of(WeightPart::experts) * 8; };
  CHECK(experts("gguf-iq2_s") == Approx((2 * iq2_xs + (6 * iq3_s + 42 * iq2_xs) / 48) / 3));
  CHECK(experts("gguf-iq2_m") == Approx((2 * iq2_s + (6 * iq3_s + 42 * iq2_s) / 48) / 3));
  CHECK(experts("gguf-iq3_s") == Approx(iq3_s));
  CHECK(experts("gguf-iq3_m") == Approx((2 * iq3_s + (6 * q4_k + 42 * iq3_s) / 48) / 3));
}

TEST_CASE("weight formats: mixtures whose gates and up-projections differ by layer", "[formats]") {
  // llama.cpp: of 48 layers' gate and up-projections the first 6 and the last 6 are iq3_s, the others
  // iq3_xxs; down-projections iq3_s throughout. q2_k_s: 6 of 48 down-projections are q4_k.
  const Architecture model = load_architecture("qwen3-30b-a3b");
  constexpr double iq3_s = 110 * 8 / 256.0, iq3_xxs = 98 * 8 / 256.0, q2_k = 84 * 8 / 256.0;
  const auto experts = [&](const char* name) { return stored_as(model, name).of(WeightPart::experts) * 8; };
  CHECK(experts("gguf-iq3_xs") == Approx((2 * (12 * iq3_s + 36 * iq3_xxs) / 48 + iq3_s) / 3));
  CHECK(experts("gguf-q2_k_s") == Approx((2 * q2_k + (6 * 4.5 + 42 * q2_k) / 48) / 3));
}

TEST_CASE("weight formats: ik_llama.cpp's have a scale a row, and llama.cpp does not run them", "[formats]") {
  // Rows of 2048 weights (gate, up) and of 768 (down), each with 4 bytes beside its blocks of 256.
  const Architecture model = load_architecture("qwen3-30b-a3b");
  const double bits = stored_as(model, "gguf-iq4_ks").of(WeightPart::experts) * 8;
  CHECK(bits == Approx((2 * (4.25 + 32 / 2048.0) + 4.25 + 32 / 768.0) / 3));
  CHECK(stored_as(model, "gguf-iq3_k").of(WeightPart::experts) * 8 == Approx(110 * 8 / 256.0));
  CHECK(is_of_ik_llama("gguf-iq4_ks"));
  CHECK_FALSE(is_of_ik_llama("gguf-iq4_xs"));
  CHECK_FALSE(is_of_ik_llama("fp8"));
}

TEST_CASE("weight formats: by part, with what is said for all", "[formats]") {
  const Architecture model = load_architecture("qwen3-30b-a3b");
  const auto read = [&](const std::string& value, std::string& problem) {
    Problems problems;
    const YamlDocument document = YamlDocument::from_text("t", "weights: " + value, problems);
    const StoredWeights stored = read_stored(document.root(), "weights", model);
    problem = problems.empty() ? "" : problems.all().front().what;
    return stored;
  };
  std::string problem;
  const StoredWeights mixed = read("{all: fp8, experts: q4_k, head: q8_0}", problem);
  CHECK(problem.empty());
  CHECK(mixed.of(WeightPart::experts) == 4.5 / 8);
  CHECK(mixed.of(WeightPart::head) == 8.5 / 8);
  CHECK(mixed.of(WeightPart::attention) == 1);
  CHECK(mixed.of(WeightPart::embedding) == 2);
  CHECK(mixed.name == "experts q4_k, head q8_0, else fp8");
  // A mixture has several types for one part.
  const StoredWeights mixture = read("{experts: gguf-q4_k_m, head: gguf-q3_k_l}", problem);
  CHECK(problem.empty());
  CHECK(mixture.of(WeightPart::experts) == stored_as(model, "gguf-q4_k_m").of(WeightPart::experts));
  CHECK(mixture.of(WeightPart::experts) > 4.5 / 8);
  CHECK(mixture.of(WeightPart::head) == stored_as(model, "gguf-q3_k_l").of(WeightPart::head));
  CHECK(mixture.of(WeightPart::attention) == 2);
  CHECK(mixture.name == "experts gguf-q4_k_m, head gguf-q3_k_l, else bf16");
  const StoredWeights cached = read("{all: fp8, kv: q8_0}", problem);
  CHECK(problem.empty());
  CHECK(cached.kv == 34 / 32.0);  // 32 bytes and a scale of 16 bits for 32 values
  CHECK(cached.name == "kv q8_0, else fp8");
  read("{kv: q8_1}", problem);
  CHECK(problem.find("q8_0") != std::string::npos);
  read("{kv: q4_k}", problem);
  CHECK(problem.find("KV cache") != std::string::npos);
  read("{experts: gguf-q4_k_n}", problem);
  CHECK(problem.find("gguf-q4_k_m") != std::string::npos);
  CHECK(read("gguf-q8_0", problem) == stored_as(model, "gguf-q8_0"));
  read("{experts: q4_kk}", problem);
  CHECK(problem.find("q4_k") != std::string::npos);
  read("{expert: q4_k}", problem);
  CHECK(problem.find("experts") != std::string::npos);
}

}  // namespace
}  // namespace moelab::stored_weights_test
