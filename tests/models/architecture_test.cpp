#include "models/architecture.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "models/device.hpp"
#include "tests/models/model_files.hpp"
#include "tests/models/random_architecture.hpp"
#include "tests/random_runs.hpp"

namespace moelab::architecture_test {
namespace {

using test::Dice;
using test::kDefaultTraceModel;
using test::kModelNames;
using test::kValidationModel;
using test::model_of_file;
using test::random_architecture;

// ---- an independent count: the tensors of a checkpoint, listed one by one ----

using Count = std::int64_t;

Count attention_tensors(Count hidden, const Attention& t) {
  std::vector<Count> sizes;
  const auto tensor = [&](Count rows, Count columns) { sizes.push_back(rows * columns); };
  if (t.kind == Attention::Kind::kv_heads) {
    const Count q_rows = Count{t.heads} * t.head_dim * (t.output_gate ? 2 : 1);
    tensor(q_rows, hidden);                           // q_proj
    tensor(Count{t.kv_heads} * t.head_dim, hidden);   // k_proj
    tensor(Count{t.kv_heads} * t.value_dim, hidden);  // v_proj
    tensor(hidden, Count{t.heads} * t.value_dim);     // o_proj
    if (t.bias)
      tensor(q_rows, 1), tensor(Count{t.kv_heads} * t.head_dim, 1),
          tensor(Count{t.kv_heads} * t.value_dim, 1);
    if (t.output_bias) tensor(hidden, 1);
    if (t.qk_norm) tensor(Count{t.head_dim} * (t.qk_norm_full ? t.heads : 1), 1);     // q_norm
    if (t.qk_norm) tensor(Count{t.head_dim} * (t.qk_norm_full ? t.kv_heads : 1), 1);  // k_norm
    if (t.sinks) tensor(t.heads, 1);
  } else if (t.kind == Attention::Kind::mla) {
    const Count nope = t.head_dim - t.rope_dim;
    if (t.q_lora_rank > 0) {
      tensor(t.q_lora_rank, hidden);                       // q_a_proj
      tensor(t.q_lora_rank, 1);                            // q_a_layernorm
      tensor(Count{t.heads} * t.head_dim, t.q_lora_rank);  // q_b_proj
    } else {
      tensor(Count{t.heads} * t.head_dim, hidden);  // q_proj
    }
    tensor(t.kv_lora_rank + t.rope_dim, hidden);             // kv_a_proj_with_mqa
    tensor(t.kv_lora_rank, 1);                               // kv_a_layernorm
    tensor(t.heads * (nope + t.value_dim), t.kv_lora_rank);  // kv_b_proj
    tensor(hidden, Count{t.heads} * t.value_dim);            // o_proj
    if (t.bias) tensor(t.q_lora_rank, 1), tensor(t.kv_lora_rank + t.rope_dim, 1);
    if (t.output_bias) tensor(hidden, 1);
  } else if (t.kind == Attention::Kind::mamba2) {
    // The tensors of a Mamba-2 mixer in a checkpoint of Nemotron-H or Granite 4.0 H.
    const Count inner = Count{t.linear_value_heads} * t.value_dim;
    const Count states = Count{t.linear_key_heads} * t.head_dim;               // of B, and as many of C
    tensor(inner + (inner + states + states) + t.linear_value_heads, hidden);  // in_proj: z, x, B, C, dt
    if (t.bias) tensor(inner + (inner + states + states) + t.linear_value_heads, 1);
    tensor(inner + states + states, t.conv_kernel);  // conv1d.weight
    if (t.conv_bias) tensor(inner + states + states, 1);
    tensor(t.linear_value_heads, 1);  // A_log
    tensor(t.linear_value_heads, 1);  // D
    tensor(t.linear_value_heads, 1);  // dt_bias
    tensor(inner, 1);                 // norm
    tensor(hidden, inner);            // out_proj
    if (t.output_bias) tensor(hidden, 1);
  } else if (t.kind == Attention::Kind::linear) {
    const Count keys = Count{t.linear_key_heads} * t.head_dim;
    const Count values = Count{t.linear_value_heads} * t.value_dim;
    tensor(keys + keys + values + values, hidden);  // in_proj_qkvz
    tensor(2 * t.linear_value_heads, hidden);       // in_proj_ba
    tensor(keys + keys + values, t.conv_kernel);    // conv1d
    tensor(t.linear_value_heads, 1);                // A_log
    tensor(t.linear_value_heads, 1);                // dt_bias
    tensor(t.value_dim, 1);                         // norm
    tensor(hidden, values);                         // out_proj
  }
  Count sum = 0;
  for (const Count size : sizes) sum += size;
  return sum;
}

Count ffn_tensors(Count hidden, Count width, const FeedForward& ff) {
  Count sum = 0;
  for (int m = 0; m + 1 < ff.matrices; ++m)
    sum += width * hidden + (ff.bias ? width : 0);       // gate and up, or up
  return sum + hidden * width + (ff.bias ? hidden : 0);  // down
}

struct Counted {
  Count total = 0;
  Count active = 0;
  Count routed = 0;
};

Counted count_tensors(const Architecture& a) {
  Counted c;
  const auto everywhere = [&](Count size) { c.total += size, c.active += size; };
  for (const Layer& layer : a.layers) {
    if (layer.attention.kind != Attention::Kind::none) everywhere(a.hidden);       // input norm
    if (layer.feed_forward.kind != FeedForward::Kind::none) everywhere(a.hidden);  // post-attention norm
    everywhere(attention_tensors(a.hidden, layer.attention));
    if (layer.cross_attention) everywhere(a.hidden), everywhere(attention_tensors(a.hidden, layer.attention));
    const FeedForward& ff = layer.feed_forward;
    if (ff.kind == FeedForward::Kind::none) continue;
    if (ff.kind == FeedForward::Kind::dense) {
      everywhere(ffn_tensors(a.hidden, ff.width, ff));
      continue;
    }
    everywhere(Count{ff.experts} * a.hidden);
    if (ff.gate_bias) everywhere(ff.experts);
    if (ff.shared_width > 0) everywhere(ffn_tensors(a.hidden, ff.shared_width, ff));
    if (ff.shared_gate) everywhere(a.hidden);
    for (int e = 0; e < ff.experts; ++e) {
      const Count expert = ffn_tensors(a.hidden, ff.width, ff);
      c.total += expert;
      c.routed += expert;
      if (e < ff.top_k) c.active += expert;
    }
  }
  for (int i = 0; i < a.embedding_copies; ++i) everywhere(Count{a.vocab} * a.hidden);
  everywhere(a.hidden);
  if (a.has_encoder()) everywhere(a.hidden);
  everywhere(static_cast<Count>(a.extra_weights));
  return c;
}

// ---- a table another program computed ----

std::vector<std::string> split_csv(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

using Row = std::map<std::string, std::string>;

std::vector<Row> read_csv(std::istream& in) {
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> header = split_csv(line);
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    const std::vector<std::string> cells = split_csv(line);
    REQUIRE(cells.size() == header.size());
    Row row;
    for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = cells[i];
    rows.push_back(row);
  }
  return rows;
}

// "DeepSeek-V3 / R1" -> "deepseek-v3"
std::string name_of_title(const std::string& title) {
  std::string name = title.substr(0, title.find(' '));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

TEST_CASE("configs/models holds exactly the models of the tests, each named as its file", "[architecture]") {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(MOELAB_SOURCE_DIR "/configs/models")) {
    files.insert(entry.path().filename().string());
  }
  std::set<std::string> expected{std::string(kDefaultTraceModel) + ".yaml",
                                 std::string(kValidationModel) + ".yaml"};
  for (const std::string_view name : kModelNames) expected.insert(std::string(name) + ".yaml");
  for (const std::string_view name : test::kRoundedModelNames) {
    INFO(name);
    expected.insert(std::string(name) + ".yaml");
    CHECK(model_of_file(name).name == name);
  }
  for (const std::string_view name : test::kDenseModelNames) {
    INFO(name);
    expected.insert(std::string(name) + ".yaml");
    CHECK(model_of_file(name).name == name);
    CHECK_FALSE(model_of_file(name).is_moe());
  }
  CHECK(files == expected);
  for (const std::string_view name : kModelNames) {
    INFO(name);
    const Architecture a = model_of_file(name);
    CHECK(a.name == name);
    CHECK(name_of_title(a.title) == name);
    CHECK_FALSE(a.source.empty());
    CHECK_FALSE(a.published_source.empty());
  }
}

TEST_CASE("a model by its name, through the configuration store", "[architecture]") {
  CHECK(load_architecture("deepseek-v2-lite") == model_of_file("deepseek-v2-lite"));
  CHECK_THROWS_AS(load_architecture("deepseek-v2-light"), InputError);
}

TEST_CASE("total weights are those of the checkpoint index, or within 1 % of what the authors say",
          "[architecture]") {
  const std::set<std::string_view> indexed{"deepseek-v2-lite", "qwen1.5-moe-a2.7b", "switch-large-128"};
  for (const std::string_view name : kModelNames) {
    INFO(name);
    const Architecture a = model_of_file(name);
    REQUIRE(a.published_weights);
    const double tolerance = indexed.count(name) ? 0 : 0.01 * *a.published_weights;
    CHECK(std::abs(total_weights(a) - *a.published_weights) <= tolerance);
  }
  for (const std::string_view name : test::kRoundedModelNames) {
    INFO(name);
    const Architecture a = model_of_file(name);
    CHECK(total_weights(a) == Approx(a.published_weights.value()).epsilon(0.011));
    // Of active weights makers publish one or two digits, with or without embeddings.
    if (!a.published_active_weights) continue;
    const double most = active_weights(a), least = most - a.embedding_copies * embedding_weights(a);
    CHECK(least <= 1.2 * *a.published_active_weights);
    CHECK(most >= 0.9 * *a.published_active_weights);
  }
  // model_n_params of llama-bench for Nemotron-3-Nano-30B-A3B-IQ4_XS.gguf, which prints it exactly.
  CHECK(total_weights(model_of_file("nemotron-3-nano-30b-a3b")) == 31577940288.0);
  // safetensors index: total_size / 2
  CHECK(total_weights(model_of_file("deepseek-v2-lite")) == 31412968448.0 / 2);
  CHECK(total_weights(model_of_file("qwen1.5-moe-a2.7b")) == 28631568384.0 / 2);
  CHECK(total_weights(model_of_file("switch-large-128")) == 52815976448.0 / 2);
  // model.safetensors of traces/train_default.py
  CHECK(total_weights(model_of_file(kDefaultTraceModel)) == 30040576.0 / 4);
}

TEST_CASE("the model that hardware is compared with has experts of 2^20 weights a tensor", "[architecture]") {
  const Architecture a = model_of_file(kValidationModel);
  CHECK(a.moe_layers().size() == 8);
  CHECK(a.moe().experts == 16);
  CHECK(expert_tensor_weights(a, a.moe()) == 1 << 20);
  CHECK(routed_weights(a) == 8 * 16 * 3 * double(1 << 20));
}

// Authors count embeddings differently: both, only the output's (the input's is a look-up), or none; the
// public architecture table of the Qwen3 models leaves routers out. `digit`: the last one published, our
// tolerance, since some round and some cut.
struct PublishedActive {
  std::string_view name;
  int embeddings;
  bool routers;
  double digit;
};

TEST_CASE("active weights are within the last digit that the authors publish", "[architecture]") {
  const std::vector<PublishedActive> table{
      {"deepseek-v2-lite", 1, true, 0.1e9},  {"deepseek-moe-16b", 2, true, 0.01e9},
      {"qwen1.5-moe-a2.7b", 2, true, 0.1e9}, {"qwen2-57b-a14b", 2, true, 1e9},
      {"qwen3-next-80b-a3b", 0, true, 1e9},  {"qwen3-30b-a3b", 2, false, 0.01e9},
      {"qwen3-235b-a22b", 2, false, 0.01e9}, {"mixtral-8x7b", 2, true, 0.01e9},
      {"mixtral-8x22b", 2, true, 0.01e9},    {"xverse-moe-a4.2b", 2, true, 0.01e9},
      {"deepseek-v3", 1, true, 1e9},         {"kimi-k2", 1, true, 1e9},
      {"olmoe-1b-7b", 2, true, 0.1e9},       {"gpt-oss-20b", 1, true, 0.01e9},
      {"gpt-oss-120b", 1, true, 0.01e9},     {"phi-3.5-moe", 2, true, 0.1e9}};
  std::size_t published = 0;
  for (const std::string_view name : kModelNames)
    published += model_of_file(name).published_active_weights ? 1 : 0;
  CHECK(published == table.size());
  for (const PublishedActive& row : table) {
    INFO(row.name);
    const Architecture a = model_of_file(row.name);
    double active = active_weights(a) - (a.embedding_copies - row.embeddings) * embedding_weights(a);
    if (!row.routers) {
      for (const Layer& layer : a.layers) active -= gate_weights(a, layer);
    }
    CHECK(std::abs(active - a.published_active_weights.value()) <= row.digit);
  }
}

// The SMoE paper (Enabling MoE on the Edge via Importance-Driven Expert Scheduling), Table III. Its sizes are
// those of the checkpoints in GiB, rounded up, as `du -h` prints them: in GB they would be 33, 52 and 115.
// Experts and k are those of the models' own papers and cards.
TEST_CASE("the models of the SMoE paper have its sizes, experts and k", "[architecture]") {
  struct Setting {
    std::string_view name;
    double gib;
    int experts, top_k, shared_experts;
  };
  for (const Setting& s :
       {Setting{"deepseek-moe-16b", 31, 64, 6, 2}, Setting{"xverse-moe-a4.2b", 49, 64, 6, 2},
        Setting{"qwen2-57b-a14b", 107, 64, 8, 8}}) {
    INFO(s.name);
    const Architecture a = model_of_file(s.name);
    const FeedForward& moe = a.moe();
    CHECK(a.stored == StoredWeights());
    CHECK(std::ceil(total_bytes(a).value() / 0x1p30) == s.gib);
    CHECK(moe.experts == s.experts);
    CHECK(moe.top_k == s.top_k);
    CHECK(moe.matrices == 3);
    CHECK(moe.shared_width == s.shared_experts * moe.width);  // Qwen2: one as wide as eight
    // None of them fits its setting's GPU, which is what the paper is about; what is not routed does.
    const double gpu = load_device(s.name == "deepseek-moe-16b"   ? "rtx-3080-ti-12gb"
                                   : s.name == "xverse-moe-a4.2b" ? "rtx-4060-ti-16gb"
                                                                  : "rtx-a6000-48gb")
                           .gpu->own->total.value.value();
    CHECK(total_bytes(a).value() > 2 * gpu);
    CHECK(non_expert_bytes(a).value() < gpu / 2);
  }
}

TEST_CASE("bytes and weights equal an independent program's", "[architecture]") {
  std::ifstream in(MOELAB_SOURCE_DIR "/../shared/models.csv");
  if (!in) {
    WARN("skipped: no models.csv beside the repository");
    return;
  }
  const std::vector<Row> rows = read_csv(in);
  REQUIRE(rows.size() == kModelNames.size());
  for (const Row& row : rows) {
    const std::string name = name_of_title(row.at("model"));
    INFO(name);
    Architecture a = model_of_file(name);
    a.stored = {};  // the other program's bytes are all BF16's
    const auto number = [&](const char* column) { return std::stod(row.at(column)); };
    // The other program leaves out the bias of Phi's final layer norm (hidden = 4096 values).
    const double more = name == "phi-3.5-moe" ? a.hidden : 0;
    CHECK(total_weights(a) == number("total_params_computed") + more);
    CHECK(active_weights(a) == number("active_params_computed") + more);
    CHECK(non_expert_bytes(a).value() == number("nonexpert_bytes_bf16") + 2 * more);
    CHECK(expert_bytes(a).value() == number("bytes_per_expert_bf16"));
    CHECK(expert_weights(a, a.moe()) == number("params_per_expert"));
    CHECK(expert_tensor_bytes(a).value() == number("bytes_per_tensor_bf16"));
    CHECK(routed_weights(a) * 2 == number("expert_bytes_total_bf16"));
    // The other program adds up what a token of the decoder and one of the encoder take.
    CHECK(kv_bytes_per_token(a).value() + cross_kv_bytes_per_token(a).value() ==
          number("kv_bytes_per_token_bf16"));
    CHECK(double(a.moe_layers().size()) == number("moe_layers"));
    CHECK(a.moe().experts == number("routed_experts"));
    CHECK(a.moe().top_k == number("top_k"));
    CHECK(a.moe().matrices == number("matrices_per_expert"));
  }
}

TEST_CASE("weights are the sum of the checkpoint's tensors, for random architectures", "[architecture]") {
  Dice dice(1);
  for (int i = 0; i < moelab::test::random_runs(3000); ++i) {
    const Architecture a = random_architecture(dice);
    const Counted c = count_tensors(a);
    REQUIRE(total_weights(a) == double(c.total));
    REQUIRE(active_weights(a) == double(c.active));
    REQUIRE(routed_weights(a) == double(c.routed));
    const FeedForward& moe = a.moe();
    const double expert = double(ffn_tensors(a.hidden, moe.width, moe));
    REQUIRE(expert_bytes(a).value() == expert * a.stored.of(WeightPart::experts));
    // Of so many bytes each, all of them are as many times the tensors'.
    Architecture alike = a;
    alike.stored = StoredWeights::plain(dice.from(1, 40) / 8.0);
    const double each = alike.stored.of(WeightPart::head);
    REQUIRE(non_expert_bytes(alike).value() == double(c.total - c.routed) * each);
    REQUIRE(routed_bytes(alike).value() == double(c.routed) * each);
    REQUIRE(total_bytes(alike).value() == double(c.total) * each);
    double layers = 0;
    for (const Layer& layer : alike.layers) layers += layer_bytes(alike, layer).value();
    const double wide = alike.embedding_copies * embedding_weights(alike) + alike.extra_weights +
                        (alike.has_encoder() ? 2 : 1) * alike.hidden;
    REQUIRE(layers == (double(c.total) - wide) * each);
  }
}

TEST_CASE("layers lie where the published descriptions put them", "[architecture]") {
  const Architecture lite = model_of_file("deepseek-v2-lite");
  CHECK(lite.moe_layers().front() == 1);
  CHECK(lite.moe_layers().size() == 26);
  CHECK_FALSE(lite.has_encoder());

  const Architecture next = model_of_file("qwen3-next-80b-a3b");  // full attention in layers 3, 7, 11, ...
  for (std::size_t i = 0; i < next.layers.size(); ++i) {
    CHECK((next.layers[i].attention.kind == Attention::Kind::linear) == (i % 4 != 3));
  }
  // Four of 40 layers have attention, the first of them layer 5.
  for (const char* name : {"granite-4.0-h-small", "granite-4.0-h-tiny"}) {
    const Architecture granite = model_of_file(name);
    for (std::size_t i = 0; i < granite.layers.size(); ++i)
      CHECK((granite.layers[i].attention.kind == Attention::Kind::mamba2) == (i % 10 != 5));
  }
  // hybrid_override_pattern of its config.json.
  const std::string pattern = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME";
  const Architecture nemotron = model_of_file("nemotron-3-nano-30b-a3b");
  REQUIRE(nemotron.layers.size() == pattern.size());
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const Layer& layer = nemotron.layers[i];
    CHECK((layer.attention.kind == Attention::Kind::mamba2) == (pattern[i] == 'M'));
    CHECK((layer.attention.kind == Attention::Kind::kv_heads) == (pattern[i] == '*'));
    CHECK((layer.feed_forward.kind == FeedForward::Kind::moe) == (pattern[i] == 'E'));
    CHECK(layer.has_mixer() != layer.has_feed_forward());
  }
  const Architecture oss = model_of_file("gpt-oss-20b");  // a window in layers 0, 2, 4, ...
  for (std::size_t i = 0; i < oss.layers.size(); ++i) {
    CHECK(oss.layers[i].attention.window == (i % 2 == 0 ? 128 : 0));
  }
  const Architecture t5 = model_of_file("switch-large-128");  // experts in layers 1, 3, 5, ... of both stacks
  REQUIRE(t5.layers.size() == 48);
  CHECK(t5.has_encoder());
  for (std::size_t i = 0; i < 48; ++i) {
    CHECK((t5.layers[i].feed_forward.kind == FeedForward::Kind::moe) == (i % 2 == 1));
    CHECK((t5.layers[i].stack == Stack::decoder) == (i >= 24));
    CHECK(t5.layers[i].cross_attention == (i >= 24));
  }
}

TEST_CASE("what hybrids weigh and keep, by hand", "[architecture]") {
  // Granite 4.0 H-Small: x and z of 128 heads x 64, B and C of one group of 128, a step a head.
  const Architecture granite = model_of_file("granite-4.0-h-small");
  const double in = 4096.0 * (2 * 8192 + 2 * 128 + 128), out = 8192.0 * 4096;
  const double convolution = (8192 + 2 * 128) * (4 + 1), heads = 3 * 128, norm = 8192;
  CHECK(attention_weights(granite, granite.layers[0]) == in + out + convolution + heads + norm + 2 * 4096);
  // A state of 128 heads x 64 x 128, and three inputs of the convolution; 36 layers, 2 bytes a value.
  CHECK(state_bytes_per_request(granite) == Bytes(36 * (128 * 64 * 128.0 + 3 * (8192 + 256)) * 2));
  CHECK(kv_bytes_per_token(granite) == Bytes(4 * 2 * 8 * 128 * 2));
  // Nemotron 3 Nano: its layers of attention have no norm but the one before it.
  const Architecture nemotron = model_of_file("nemotron-3-nano-30b-a3b");
  CHECK(attention_weights(nemotron, nemotron.layers[5]) ==
        2688.0 * (32 + 2 + 2) * 128 + 32 * 128 * 2688.0 + 2688);
  CHECK(attention_weights(nemotron, nemotron.layers[1]) == 2688);
  CHECK(feed_forward_dense_weights(nemotron, nemotron.layers[1]) == 2 * 2688.0 * 3712);
  CHECK(feed_forward_dense_weights(nemotron, nemotron.layers[0]) == 0);
  CHECK(gate_weights(nemotron, nemotron.layers[1]) == 128 * 2688.0 + 128);
  CHECK(state_bytes_per_request(nemotron) == Bytes(23 * (64 * 64 * 128.0 + 3 * (64 * 64 + 2 * 8 * 128)) * 2));
  CHECK(kv_bytes_per_token(nemotron) == Bytes(6 * 2 * 2 * 128 * 2));
}

TEST_CASE("layers with experts are numbered from 0, the others have no number", "[architecture]") {
  for (const std::string_view name : {"deepseek-v2-lite", "switch-large-128", "mixtral-8x7b"}) {
    INFO(name);
    const Architecture a = model_of_file(std::string(name));
    const std::vector<std::int32_t> numbers = a.moe_numbers();
    REQUIRE(numbers.size() == a.layers.size());
    std::int32_t before = 0;  // layers with experts
    for (std::size_t i = 0; i < a.layers.size(); ++i) {
      const bool moe = a.layers[i].feed_forward.kind == FeedForward::Kind::moe;
      CHECK(numbers[i] == (moe ? before : -1));
      before += moe ? 1 : 0;
    }
  }
}

TEST_CASE("moe() is the one shape of all experts", "[architecture]") {
  Architecture a = model_of_file("mixtral-8x7b");
  CHECK(a.moe().width == 14336);
  a.layers.back().feed_forward.width = 7;
  CHECK_THROWS_AS(a.moe(), InputError);
  for (Layer& layer : a.layers) layer.feed_forward = {};
  CHECK_FALSE(a.is_moe());
  CHECK(a.moe_layers().empty());
  CHECK_THROWS_AS(a.moe(), InputError);
  CHECK_FALSE(fault(a));  // a dense model
  CHECK(a.experts_or_none().experts == 0);
  CHECK(expert_bytes_or_none(a) == Bytes(0));
  CHECK(routed_weights(a) == 0);
  CHECK(lack_of_experts(a).value().key == "layers");
  Layer empty;
  empty.attention.kind = Attention::Kind::none;
  empty.feed_forward = {.kind = FeedForward::Kind::none};
  CHECK(fault(empty).value().key == "feed_forward");
}

}  // namespace
}  // namespace moelab::architecture_test
