// Work against closed forms, written out beside each number.
#include <catch2/catch.hpp>

#include "models/architecture.hpp"
#include "tests/models/model_files.hpp"

namespace moelab::architecture_work_test {
namespace {

using test::kModelNames;
using test::model_of_file;

// hidden 4; 2 query heads on 1 key-value head of 3; 5 experts, 2 a token, of width 6; shared ones of width 7.
Architecture tiny() {
  Architecture a;
  a.name = "tiny";
  a.hidden = 4;
  a.vocab = 10;
  Layer layer;
  layer.attention.heads = 2;
  layer.attention.kv_heads = 1;
  layer.attention.head_dim = 3;
  layer.attention.value_dim = 3;
  layer.feed_forward.kind = FeedForward::Kind::moe;
  layer.feed_forward.experts = 5;
  layer.feed_forward.top_k = 2;
  layer.feed_forward.width = 6;
  layer.feed_forward.shared_width = 7;
  a.layers = {layer};
  return a;
}

void check_work(const Work& work, double flops, double weights, double kv_bytes, int kernels) {
  CHECK(work.flops.value() == flops);
  CHECK(work.weight_bytes.value() == weights * 2);
  CHECK(work.kv_bytes.value() == kv_bytes);
  CHECK(work.kernels == kernels);
}

TEST_CASE("attention work of key-value heads", "[architecture]") {
  Architecture a = tiny();
  Layer& layer = a.layers[0];
  // projections 4*6 + 4*3 + 4*3 + 6*4 = 72, norms 2*4 = 8, router 5*4 = 20
  const double weights = 72 + 8 + 20;
  // scores and values: 2 * 2 heads * (3 + 3) = 24 a pair of tokens; cache: (3 + 3) values * 2 B = 12 B a
  // token
  check_work(attention_work(a, layer, 7, 11), 2 * weights * 7 + 24 * 7 * 11, weights, 12.0 * 7 * 11, 7 + 3);
  // seven queries of one prompt read the cache once
  check_work(attention_work(a, layer, 7, 11, 7), 2 * weights * 7 + 24 * 7 * 11, weights, 12.0 * 11, 10);
  layer.attention.window = 5;
  check_work(attention_work(a, layer, 7, 3.5), 2 * weights * 7 + 24 * 7 * 3.5, weights, 12.0 * 7 * 3.5, 10);
  CHECK(attention_work(a, layer, 0, 11) == Work{});
}

TEST_CASE("a norm of queries and keys and a gate on the output are a kernel each", "[architecture]") {
  Architecture a = tiny();
  Attention& attention = a.layers[0].attention;
  attention.qk_norm = true;
  CHECK(attention_work(a, a.layers[0], 7, 11).kernels == 7 + 1 + 3);
  attention.output_gate = true;
  CHECK(attention_work(a, a.layers[0], 7, 11).kernels == 7 + 1 + 1 + 3);
  attention.qk_norm = false;
  CHECK(attention_work(a, a.layers[0], 7, 11).kernels == 7 + 1 + 3);
}

TEST_CASE("attention work of absorbed MLA", "[architecture]") {
  Architecture a = tiny();
  Layer& layer = a.layers[0];
  Attention t;
  t.kind = Attention::Kind::mla;
  t.heads = 2;
  t.rope_dim = 2;
  t.head_dim = 5;
  t.value_dim = 3;
  t.kv_lora_rank = 6;
  layer.attention = t;
  // queries 4*10, down 4*(6+2), norm 6, up 6*2*(3+3), output 6*4; then norms 8, router 20
  const double weights = 40 + 32 + 6 + 72 + 24 + 8 + 20;
  // In latent space a head's query has 6 + 2 values and its result 6: 2 * 2 heads * 14 a pair of tokens.
  // Cache: 8 values * 2 B a token.
  check_work(attention_work(a, layer, 3, 10), 2 * weights * 3 + 56 * 3 * 10, weights, 16.0 * 3 * 10, 11 + 3);
  layer.attention.q_lora_rank = 5;  // queries: 4*5 + norm 5 + 5*10 instead of 4*10
  const double factored = weights - 40 + 75;
  check_work(attention_work(a, layer, 3, 0), 2 * factored * 3, factored, 0, 13 + 3);
}

TEST_CASE("attention work of the gated delta rule", "[architecture]") {
  Architecture a = tiny();
  Layer& layer = a.layers[0];
  Attention t;
  t.kind = Attention::Kind::linear;
  t.linear_key_heads = 1;
  t.linear_value_heads = 2;
  t.head_dim = 3;
  t.value_dim = 5;
  t.conv_kernel = 4;
  layer.attention = t;
  // 4*(2*3 + 2*10) + 4*2*2 + (6+10)*4 + 2*2 + 5 + 10*4 = 233; norms 8, router 20
  const double weights = 233 + 8 + 20;
  // The recurrence of one token and value head, counted operation by operation.
  double state_flops = 0;
  for (int head = 0; head < 2; ++head) {
    for (int k = 0; k < 3; ++k) {
      for (int v = 0; v < 5; ++v) {
        state_flops += 1;  // S[k][v] *= decay
        state_flops += 2;  // recalled[v] += S[k][v] * key[k]
        state_flops += 2;  // S[k][v] += key[k] * (beta * (value[v] - recalled[v]))
        state_flops += 2;  // out[v] += S[k][v] * query[k]
      }
    }
  }
  // The state, 2 * 3 * 5 values of 2 B, is read whatever the context is.
  for (const double context : {0.0, 100.0}) {
    check_work(attention_work(a, layer, 3, context), 2 * weights * 3 + state_flops * 3, weights, 60.0 * 3,
               9 + 3);
  }
  CHECK(kv_bytes_per_token(a).value() == 0);
}

TEST_CASE("attention work of Mamba-2", "[architecture]") {
  Architecture a = tiny();
  Layer& layer = a.layers[0];
  Attention t;
  t.kind = Attention::Kind::mamba2;
  t.linear_key_heads = 1;
  t.linear_value_heads = 2;
  t.head_dim = 3;
  t.value_dim = 5;
  t.conv_kernel = 4;
  t.conv_bias = true;
  layer.attention = t;
  // z and x of 2 heads x 5, B and C of 3, 2 steps: 4*(20 + 6 + 2); convolution of 10 + 6 with 4 taps and a
  // bias; A, D and the step's bias of 2 heads; norm 10; output 10*4. Then norms 8, router 20.
  const double weights = 4 * 28 + 16 * 5 + 3 * 2 + 10 + 40 + 8 + 20;
  // h = exp(dt A) h + (dt B) x and y = C h, counted operation by operation.
  double state_flops = 0;
  for (int head = 0; head < 2; ++head)
    for (int n = 0; n < 3; ++n)
      for (int p = 0; p < 5; ++p) {
        state_flops += 1;  // h[n][p] *= decay
        state_flops += 2;  // h[n][p] += b[n] * x[p]
        state_flops += 2;  // y[p] += c[n] * h[n][p]
      }
  for (const double context : {0.0, 100.0}) {
    const Work work = attention_work(a, layer, 3, context);
    check_work(work, 2 * weights * 3 + state_flops * 3, weights, 2 * 3 * 5 * 2.0 * 3, 7 + 3);
    CHECK(work.recurrence.value() == state_flops * 3);
    CHECK(work.mixing.value() == 0);
    CHECK(work.biases == 1);
  }
  CHECK(kv_bytes_per_token(a).value() == 0);
  layer.attention.bias = layer.attention.output_bias = true;  // 28 and 4 more
  CHECK(attention_work(a, layer, 1, 0).weight_bytes.value() == 2 * (weights + 28 + 4));
  CHECK(attention_work(a, layer, 1, 0).biases == 3);
}

TEST_CASE("a layer of one part has one norm", "[architecture]") {
  Architecture a = tiny();
  Layer& layer = a.layers[0];
  const FeedForward moe = layer.feed_forward;
  layer.feed_forward = {.kind = FeedForward::Kind::none};
  // Projections 72 and a norm; no router, no second norm.
  check_work(attention_work(a, layer, 1, 0), 2 * 76.0, 76, 0, 7 - 1);
  CHECK(dense_work(a, layer, 5) == Work{});
  layer.feed_forward = moe;
  layer.attention = {};
  layer.attention.kind = Attention::Kind::none;
  // Norm 4 and router 20; nothing is attended to, whatever the context.
  check_work(attention_work(a, layer, 7, 11), 2 * 24.0 * 7, 24, 0, 1 + 3);
  check_work(dense_work(a, layer, 5), 2 * 84.0 * 5, 3 * 4 * 7, 0, 4);
  CHECK(kv_bytes_per_token(a).value() == 0);
  CHECK(state_bytes_per_request(a).value() == 0);
}

TEST_CASE("attention work with cross-attention", "[architecture]") {
  Architecture a = tiny();
  Layer& layer = a.layers[0];
  layer.cross_attention = true;
  layer.attention.window = 5;
  // Two attentions of 72 without the second one's keys and values 4*3 + 4*3; three norms; router.
  const double weights = 2 * 72 - 24 + 12 + 20;
  // The window is of its own tokens, not of the encoder's 11.
  check_work(attention_work(a, layer, 7, 5, 1, 11), 2 * weights * 7 + 24 * 7 * (5 + 11), weights,
             12.0 * 7 * (5 + 11), 7 + 4 + 3);
  check_work(attention_work(a, layer, 7, 5, 7, 11), 2 * weights * 7 + 24 * 7 * (5 + 11), weights,
             12.0 * (5 + 11), 7 + 4 + 3);
  check_work(cross_cache_work(a, layer, 9), 2 * 24.0 * 9, 24, 0, 1);
  CHECK(cross_cache_work(a, layer, 0) == Work{});
  layer.attention.bias = true;  // 6 more
  check_work(cross_cache_work(a, layer, 9), 2 * 30.0 * 9, 30, 0, 1);
  CHECK(cross_cache_work(a, tiny().layers[0], 9) == Work{});
}

TEST_CASE("work of feed-forward parts, experts and head", "[architecture]") {
  Architecture a = tiny();
  Layer& layer = a.layers[0];
  check_work(dense_work(a, layer, 5), 2 * 84.0 * 5, 3 * 4 * 7, 0, 4);
  layer.feed_forward.shared_gate = true;
  check_work(dense_work(a, layer, 5), 2 * 88.0 * 5, 3 * 4 * 7 + 4, 0, 6);
  CHECK(dense_work(a, layer, 0) == Work{});
  check_work(expert_work(a, a.moe(), 5), 2 * 72.0 * 5, 3 * 4 * 6, 0, 3);
  CHECK(expert_work(a, a.moe(), 0) == Work{});
  layer.feed_forward.bias = true;  // 6 + 6 + 4
  check_work(expert_work(a, a.moe(), 5), 2 * 88.0 * 5, 88, 0, 3);
  layer.feed_forward.shared_width = 0;
  layer.feed_forward.shared_gate = false;
  CHECK(dense_work(a, layer, 5) == Work{});
  layer.feed_forward = {};
  layer.feed_forward.width = 9;
  layer.feed_forward.matrices = 2;
  check_work(dense_work(a, layer, 5), 2 * 72.0 * 5, 2 * 4 * 9, 0, 3);
  check_work(head_work(a, 5), 2 * 44.0 * 5, 4 * 10 + 4, 0, 3);
  CHECK(head_work(a, 0) == Work{});
}

TEST_CASE("the parts of a model's work add up to its weights", "[architecture]") {
  std::vector<std::string_view> names(kModelNames.begin(), kModelNames.end());
  names.insert(names.end(), {"granite-4.0-h-small", "granite-4.0-h-tiny", "nemotron-3-nano-30b-a3b"});
  for (const std::string_view name : names) {
    INFO(name);
    Architecture a = model_of_file(name);
    a.stored = {};  // 2 bytes each, whatever the model's own formats
    Work sum = head_work(a, 1);
    const auto add = [&](const Work& work, double times) {
      sum.flops += work.flops * times;
      sum.weight_bytes += work.weight_bytes * times;
    };
    double state_flops = 0;
    double idle_bytes = 0;
    for (const Layer& layer : a.layers) {
      add(attention_work(a, layer, 1, 0), 1);
      add(cross_cache_work(a, layer, 1), 1);
      add(dense_work(a, layer, 1), 1);
      const Attention& t = layer.attention;
      const double a_value = t.kind == Attention::Kind::mamba2 ? 5 : 7;  // of a state
      state_flops += a_value * t.linear_value_heads * t.head_dim * t.value_dim;
      if (layer.feed_forward.kind != FeedForward::Kind::moe) continue;
      add(expert_work(a, layer.feed_forward, 1), layer.feed_forward.top_k);
      idle_bytes += (layer.feed_forward.experts - layer.feed_forward.top_k) * expert_bytes(a).value();
    }
    // Not worked through: the other copies of the embedding, an encoder's last norm, the extra weights.
    const double aside =
        (a.embedding_copies - 1) * embedding_weights(a) + (a.has_encoder() ? a.hidden : 0) + a.extra_weights;
    CHECK(sum.flops.value() == 2 * (active_weights(a) - aside) + state_flops);
    CHECK(sum.weight_bytes.value() + idle_bytes == 2 * (total_weights(a) - aside));
  }
}

TEST_CASE("cache bytes read by one decoded token grow by the cache bytes of a token", "[architecture]") {
  for (const std::string_view name : {"deepseek-v3", "qwen3-next-80b-a3b", "switch-large-128", "mixtral-8x7b",
                                      "granite-4.0-h-tiny", "nemotron-3-nano-30b-a3b"}) {
    INFO(name);
    const Architecture a = model_of_file(name);
    double grown = 0, encoded = 0;
    for (const Layer& layer : a.layers) {
      if (layer.stack == Stack::encoder) continue;
      const Bytes before = attention_work(a, layer, 1, 100, 1, 50).kv_bytes;
      grown += (attention_work(a, layer, 1, 101, 1, 50).kv_bytes - before).value();
      encoded += (attention_work(a, layer, 1, 100, 1, 51).kv_bytes - before).value();
    }
    CHECK(grown == kv_bytes_per_token(a).value());
    CHECK(encoded == cross_kv_bytes_per_token(a).value());
    CHECK((encoded > 0) == a.has_encoder());
  }
}

}  // namespace
}  // namespace moelab::architecture_work_test
