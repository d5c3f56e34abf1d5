// GGUF headers for tests, written by the format's description (ggml/docs/gguf.md of llama.cpp), from values
// and tensors or from an Architecture.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "models/architecture.hpp"
#include "models/gguf.hpp"

namespace moelab::test {

class GgufText {
 public:
  static constexpr std::uint32_t kFp32 = 0, kQ8_0 = 8, kQ4_K = 12, kQ6_K = 14;

  void integer(const std::string& key, std::uint32_t value) { begin_value(key, 4), put(values_, value); }
  void text(const std::string& key, const std::string& value) {
    begin_value(key, 8), put_text(values_, value);
  }
  void integers(const std::string& key, const std::vector<std::uint32_t>& list) {
    begin_value(key, 9);
    put(values_, std::uint32_t{4});
    put(values_, std::uint64_t{list.size()});
    for (const std::uint32_t value : list) put(values_, value);
  }
  void texts(const std::string& key, const std::vector<std::string>& list) {
    begin_value(key, 9);
    put(values_, std::uint32_t{8});
    put(values_, std::uint64_t{list.size()});
    for (const std::string& value : list) put_text(values_, value);
  }
  void tensor(const std::string& name, const std::vector<std::uint64_t>& shape, std::uint32_t type) {
    put_text(tensors_, name);
    put(tensors_, static_cast<std::uint32_t>(shape.size()));
    std::uint64_t weights = 1;
    for (const std::uint64_t length : shape) {
      put(tensors_, length);
      weights *= length;
    }
    put(tensors_, type);
    put(tensors_, end_);
    // Blocks of the types above: 1 of 4 bytes, 32 of 34, 256 of 144 and of 210.
    const std::uint64_t bytes = type == kFp32   ? weights * 4
                                : type == kQ8_0 ? weights / 32 * 34
                                : type == kQ4_K ? weights / 256 * 144
                                                : weights / 256 * 210;
    bytes_ += bytes;
    end_ += (bytes + 31) / 32 * 32;
    ++tensor_count_;
  }
  /// Bytes of all tensors.
  std::uint64_t bytes() const { return bytes_; }
  /// The header alone.
  std::string header() const {
    std::string text = "GGUF";
    put(text, std::uint32_t{3});
    put(text, tensor_count_);
    put(text, value_count_);
    return text + values_ + tensors_;
  }

 private:
  template <class T>
  static void put(std::string& to, T value) {
    std::array<char, sizeof(T)> bytes{};
    std::memcpy(bytes.data(), &value, sizeof value);
    to.append(bytes.data(), bytes.size());
  }
  static void put_text(std::string& to, const std::string& text) {
    put(to, std::uint64_t{text.size()});
    to += text;
  }
  void begin_value(const std::string& key, std::uint32_t type) {
    put_text(values_, key);
    put(values_, type);
    ++value_count_;
  }

  std::string values_, tensors_;
  std::uint64_t value_count_ = 0, tensor_count_ = 0, end_ = 0, bytes_ = 0;
};

/// Writes the tensors that llama.cpp's converter makes of a model, matrices in types that change from one to
/// the next.
class GgufOfModel {
 public:
  explicit GgufOfModel(const Architecture& a, std::string kind = "anymoe") : a_(a), kind_(std::move(kind)) {
    write_values();
    matrix("token_embd", hidden(), size(a.vocab));
    if (a.embedding_copies > 1) matrix("output", hidden(), size(a.vocab));
    file.tensor("output_norm.weight", {hidden()}, GgufText::kFp32);
    for (std::size_t i = 0; i < a.layers.size(); ++i) {
      layer_ = "blk." + std::to_string(i) + ".";
      write_layer(a.layers[i]);
    }
  }
  GgufText file;

 private:
  static std::uint64_t size(int n) { return static_cast<std::uint64_t>(n); }
  std::uint64_t hidden() const { return size(a_.hidden); }

  void matrix(const std::string& name, std::uint64_t row, std::uint64_t rows, std::uint64_t third = 0) {
    constexpr std::array types{GgufText::kQ4_K, GgufText::kQ6_K, GgufText::kQ8_0};
    std::uint32_t type = types[turn_++ % types.size()];
    if (row % 256 != 0) type = GgufText::kQ8_0;
    if (row % 32 != 0) type = GgufText::kFp32;
    if (third > 0)
      file.tensor(layer_ + name + ".weight", {row, rows, third}, type);
    else
      file.tensor(layer_ + name + ".weight", {row, rows}, type);
  }
  void vector(const std::string& name, std::uint64_t length) {
    file.tensor(layer_ + name, {length}, GgufText::kFp32);
  }

  void write_values() {
    const auto key = [&](const char* tail) { return kind_ + "." + tail; };
    file.text("general.architecture", kind_);
    file.integer("general.file_type", 15);
    file.texts("tokenizer.ggml.tokens", {"a", "bc", ""});
    file.integer(key("block_count"), static_cast<std::uint32_t>(a_.layers.size()));
    file.integer(key("embedding_length"), static_cast<std::uint32_t>(a_.hidden));
    std::vector<std::uint32_t> heads, kv_heads, widths;
    for (const Layer& layer : a_.layers) {
      heads.push_back(static_cast<std::uint32_t>(layer.attention.heads));
      kv_heads.push_back(static_cast<std::uint32_t>(layer.attention.kv_heads));
      widths.push_back(static_cast<std::uint32_t>(layer.feed_forward.width));
      write_attention_values(layer.attention);
      if (layer.feed_forward.kind == FeedForward::Kind::moe)
        once(key("expert_used_count"), layer.feed_forward.top_k);
    }
    file.integers(key("attention.head_count"), heads);
    file.integers(key("attention.head_count_kv"), kv_heads);
    file.integers(key("feed_forward_length"), widths);
  }
  void write_attention_values(const Attention& t) {
    const auto key = [&](const char* tail) { return kind_ + ".attention." + tail; };
    if (t.window > 0 && kind_ != "llama4") once(key("sliding_window"), t.window);
    if (t.kind == Attention::Kind::mla) once(key("kv_lora_rank"), t.kv_lora_rank);
    if (t.kind == Attention::Kind::kv_heads) {
      once(key("key_length"), t.head_dim);
      once(key("value_length"), t.value_dim);
    }
    if (!t.recurrent()) return;
    once(kind_ + ".ssm.group_count", t.linear_key_heads);
    once(kind_ + ".ssm.time_step_rank", t.linear_value_heads);
    once(kind_ + ".ssm.state_size", t.head_dim);
    once(kind_ + ".ssm.inner_size", t.linear_value_heads * t.value_dim);
    once(kind_ + ".ssm.conv_kernel", t.conv_kernel);
  }
  void once(const std::string& key, int value) {
    for (const std::string& known : written_)
      if (known == key) return;
    written_.push_back(key);
    file.integer(key, static_cast<std::uint32_t>(value));
  }

  void write_layer(const Layer& layer) {
    vector("attn_norm.weight", hidden());  // before whatever comes first
    if (layer.has_mixer() && layer.has_feed_forward()) vector("ffn_norm.weight", hidden());
    const Attention& t = layer.attention;
    if (t.kind == Attention::Kind::mla) write_mla(t);
    if (t.kind == Attention::Kind::linear) write_linear(t);
    if (t.kind == Attention::Kind::mamba2) write_mamba2(t);
    if (t.kind == Attention::Kind::kv_heads) write_kv_heads(t);
    if (layer.has_feed_forward()) write_feed_forward(layer.feed_forward);
  }
  void write_mla(const Attention& t) {
    const std::uint64_t queries = size(t.heads) * size(t.head_dim);
    if (t.q_lora_rank > 0) {
      matrix("attn_q_a", hidden(), size(t.q_lora_rank));
      vector("attn_q_a_norm.weight", size(t.q_lora_rank));
      matrix("attn_q_b", size(t.q_lora_rank), queries);
    } else {
      matrix("attn_q", hidden(), queries);
    }
    matrix("attn_kv_a_mqa", hidden(), size(t.kv_lora_rank + t.rope_dim));
    vector("attn_kv_a_norm.weight", size(t.kv_lora_rank));
    matrix("attn_k_b", size(t.head_dim - t.rope_dim), size(t.kv_lora_rank), size(t.heads));
    matrix("attn_v_b", size(t.kv_lora_rank), size(t.value_dim), size(t.heads));
    matrix("attn_output", size(t.heads) * size(t.value_dim), hidden());
  }
  void write_linear(const Attention& t) {
    const std::uint64_t keys = size(t.linear_key_heads) * size(t.head_dim);
    const std::uint64_t values = size(t.linear_value_heads) * size(t.value_dim);
    matrix("attn_qkv", hidden(), 2 * keys + values);
    matrix("attn_gate", hidden(), values);
    matrix("ssm_ba", hidden(), 2 * size(t.linear_value_heads));
    file.tensor(layer_ + "ssm_conv1d.weight", {size(t.conv_kernel), 2 * keys + values}, GgufText::kFp32);
    vector("ssm_dt.bias", size(t.linear_value_heads));
    vector("ssm_a", size(t.linear_value_heads));
    vector("ssm_norm.weight", size(t.value_dim));
    matrix("ssm_out", values, hidden());
  }
  /// As llama.cpp reads them: src/llama-model.cpp, LLM_ARCH_NEMOTRON_H_MOE and LLM_ARCH_GRANITE_HYBRID.
  void write_mamba2(const Attention& t) {
    const std::uint64_t heads = size(t.linear_value_heads), groups = size(t.linear_key_heads);
    const std::uint64_t inner = heads * size(t.value_dim);
    const std::uint64_t convolved = inner + 2 * groups * size(t.head_dim);
    matrix("ssm_in", hidden(), inner + convolved + heads);
    if (t.bias) vector("ssm_in.bias", inner + convolved + heads);
    file.tensor(layer_ + "ssm_conv1d.weight", {size(t.conv_kernel), convolved}, GgufText::kFp32);
    if (t.conv_bias) vector("ssm_conv1d.bias", convolved);
    vector("ssm_dt.bias", heads);
    file.tensor(layer_ + "ssm_a", {1, heads}, GgufText::kFp32);
    file.tensor(layer_ + "ssm_d", {1, heads}, GgufText::kFp32);
    file.tensor(layer_ + "ssm_norm.weight", {inner / groups, groups}, GgufText::kFp32);
    matrix("ssm_out", inner, hidden());
    if (t.output_bias) vector("ssm_out.bias", hidden());
  }
  void write_kv_heads(const Attention& t) {
    const std::uint64_t queries = size(t.heads) * size(t.head_dim);
    const std::uint64_t keys = size(t.kv_heads) * size(t.head_dim),
                        values = size(t.kv_heads) * size(t.value_dim);
    const std::uint64_t asked = t.output_gate ? 2 * queries : queries;
    matrix("attn_q", hidden(), asked);
    matrix("attn_k", hidden(), keys);
    matrix("attn_v", hidden(), values);
    matrix("attn_output", size(t.heads) * size(t.value_dim), hidden());
    if (t.bias) {
      vector("attn_q.bias", asked);
      vector("attn_k.bias", keys);
      vector("attn_v.bias", values);
    }
    if (t.output_bias) vector("attn_output.bias", hidden());
    if (t.sinks) vector("attn_sinks.weight", size(t.heads));
    if (!t.qk_norm) return;
    vector("attn_q_norm.weight", t.qk_norm_full ? queries : size(t.head_dim));
    vector("attn_k_norm.weight", t.qk_norm_full ? keys : size(t.head_dim));
  }
  void write_feed_forward(const FeedForward& ff) {
    const bool moe = ff.kind == FeedForward::Kind::moe;
    write_matrices(ff, moe ? "_exps" : "", ff.width, moe ? ff.experts : 0);
    if (!moe) return;
    file.tensor(layer_ + "ffn_gate_inp.weight", {hidden(), size(ff.experts)}, GgufText::kFp32);
    if (ff.gate_bias) vector("exp_probs_b.bias", size(ff.experts));
    if (ff.shared_width > 0) write_matrices(ff, "_shexp", ff.shared_width, 0);
    if (ff.shared_gate) vector("ffn_gate_inp_shexp.weight", hidden());
  }
  void write_matrices(const FeedForward& ff, const std::string& ending, int width, int experts) {
    const auto many = [&](std::uint64_t length) {
      return experts > 0 ? std::vector<std::uint64_t>{length, size(experts)}
                         : std::vector<std::uint64_t>{length};
    };
    if (ff.matrices == 3) matrix("ffn_gate" + ending, hidden(), size(width), size(experts));
    matrix("ffn_up" + ending, hidden(), size(width), size(experts));
    matrix("ffn_down" + ending, size(width), hidden(), size(experts));
    if (!ff.bias) return;
    if (ff.matrices == 3)
      file.tensor(layer_ + "ffn_gate" + ending + ".bias", many(size(width)), GgufText::kFp32);
    file.tensor(layer_ + "ffn_up" + ending + ".bias", many(size(width)), GgufText::kFp32);
    file.tensor(layer_ + "ffn_down" + ending + ".bias", many(hidden()), GgufText::kFp32);
  }

  const Architecture& a_;
  std::string kind_, layer_;
  std::vector<std::string> written_;
  std::size_t turn_ = 0;
};

}  // namespace moelab::test
