#include "models/hf_linear_layers.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace moelab::hf {
namespace {

using Words = std::vector<std::string>;

/// What families call the parts of a layer (transformers' modeling files). An unknown family may use any.
struct Spelling {
  Words mixer{"self_attn"};
  Words state_space{"mamba", "mixer"};
  Words feed_forward{"mlp"};
  Words shared{"shared_expert", "shared_experts", "shared_mlp"};
  bool expert_words = true;     // gate_proj, up_proj, down_proj
  bool expert_letters = false;  // w1, w3, w2
};

Spelling spelling_of(std::string_view type) {
  Spelling s;
  if (type == "mixtral" || type == "phimoe" || type == "minimax_m2") {
    s.feed_forward = {"block_sparse_moe"};
    s.expert_words = false;
    s.expert_letters = true;
  } else if (type == "nemotron_h") {
    s.mixer = s.state_space = s.feed_forward = {"mixer"};
  } else if (type == "llama4" || type == "llama4_text") {
    s.feed_forward = {"feed_forward"};
    s.shared = {"shared_expert"};
  } else if (type.starts_with("qwen")) {
    s.shared = {"shared_expert"};
  } else if (type.starts_with("deepseek") || type.starts_with("glm") || type.starts_with("kimi")) {
    s.shared = {"shared_experts"};
  } else if (type == "granitemoehybrid") {
    s.feed_forward = {"block_sparse_moe", "mlp"};
  } else {
    s.feed_forward = {"mlp", "block_sparse_moe", "feed_forward"};
    s.expert_letters = true;
  }
  return s;
}

Words layer_prefixes(const LayerNames& names) {
  if (names.model_type == "nemotron_h") return {"backbone.layers.", "model.layers."};
  if (names.text_part)
    return {"model.language_model.layers.", "language_model.model.layers.", "model.layers."};
  return {"model.layers."};
}

/// Every prefix with every ending.
Words crossed(const Words& prefixes, const Words& endings) {
  Words all;
  for (const std::string& prefix : prefixes)
    for (const std::string& ending : endings) all.push_back(prefix + "." + ending);
  return all;
}

/// The matrices of one layer, without its number.
class LayerReader {
 public:
  LayerReader(const Architecture& a, const LayerNames& names)
      : hidden_(a.hidden), spelling_(spelling_of(names.model_type)), each_expert_(names.each_expert) {}

  std::vector<LinearLayer> read(const Layer& layer) {
    found_.clear();
    switch (layer.attention.kind) {
      case Attention::Kind::kv_heads:
        kv_heads(layer.attention);
        break;
      case Attention::Kind::mla:
        mla(layer.attention);
        break;
      case Attention::Kind::linear:
        linear(layer.attention);
        break;
      case Attention::Kind::mamba2:
        mamba2(layer.attention);
        break;
      case Attention::Kind::none:
        break;
    }
    feed_forward(layer.feed_forward);
    return std::move(found_);
  }

 private:
  void add(WeightPart part, Words names, double rows, double columns, double count = 1) {
    found_.push_back({std::move(names), part, rows, columns, count});
  }
  void mix(const Words& names, double rows, double columns) {
    add(WeightPart::attention, crossed(spelling_.mixer, names), rows, columns);
  }

  void kv_heads(const Attention& t) {
    const double queries = 1.0 * t.heads * t.head_dim;
    mix({"q_proj", "qkv_proj"}, t.output_gate ? 2 * queries : queries, hidden_);
    mix({"k_proj", "qkv_proj"}, 1.0 * t.kv_heads * t.head_dim, hidden_);
    mix({"v_proj", "qkv_proj"}, 1.0 * t.kv_heads * t.value_dim, hidden_);
    mix({"o_proj"}, hidden_, 1.0 * t.heads * t.value_dim);
  }

  void mla(const Attention& t) {
    const double queries = 1.0 * t.heads * t.head_dim;
    if (t.q_lora_rank > 0) {
      mix({"q_a_proj", "fused_qkv_a_proj"}, t.q_lora_rank, hidden_);
      mix({"q_b_proj"}, queries, t.q_lora_rank);
    } else {
      mix({"q_proj"}, queries, hidden_);
    }
    mix({"kv_a_proj_with_mqa", "fused_qkv_a_proj"}, 1.0 * t.kv_lora_rank + t.rope_dim, hidden_);
    mix({"kv_b_proj"}, 1.0 * t.heads * (t.head_dim - t.rope_dim + t.value_dim), t.kv_lora_rank);
    mix({"o_proj"}, hidden_, 1.0 * t.heads * t.value_dim);
  }

  // Qwen3-Next has one projection for what Qwen3.5 has two of.
  void linear(const Attention& t) {
    const double keys = 1.0 * t.linear_key_heads * t.head_dim;
    const double values = 1.0 * t.linear_value_heads * t.value_dim;
    const double heads = t.linear_value_heads;
    const auto one = [&](const Words& names, double rows, double columns) {
      add(WeightPart::attention, crossed({"linear_attn"}, names), rows, columns);
    };
    one({"in_proj_qkv", "in_proj_qkvz"}, 2 * keys + values, hidden_);
    one({"in_proj_z", "in_proj_qkvz"}, values, hidden_);
    one({"in_proj_b", "in_proj_ba"}, heads, hidden_);
    one({"in_proj_a", "in_proj_ba"}, heads, hidden_);
    one({"out_proj"}, hidden_, values);
  }

  void mamba2(const Attention& t) {
    const double values = 1.0 * t.linear_value_heads * t.value_dim;
    const double projected = 2 * values + 2.0 * t.linear_key_heads * t.head_dim + t.linear_value_heads;
    add(WeightPart::attention, crossed(spelling_.state_space, {"in_proj"}), projected, hidden_);
    add(WeightPart::attention, crossed(spelling_.state_space, {"out_proj"}), hidden_, values);
  }

  /// Gate, up and down of one feed-forward part by their words, each below every prefix.
  void matrices(WeightPart part, const Words& prefixes, double width, int n) {
    if (n > 2) add(part, crossed(prefixes, {"gate_proj", "gate_up_proj", "input_linear"}), width, hidden_);
    add(part, crossed(prefixes, {"up_proj", "gate_up_proj", "input_linear"}), width, hidden_);
    add(part, crossed(prefixes, {"down_proj", "output_linear"}), hidden_, width);
  }

  void feed_forward(const FeedForward& ff) {
    if (ff.kind == FeedForward::Kind::none) return;
    if (ff.kind == FeedForward::Kind::dense) {
      Words prefixes = spelling_.feed_forward;
      prefixes.emplace_back("shared_mlp");  // Granite's
      matrices(WeightPart::dense, prefixes, ff.width, ff.matrices);
      return;
    }
    if (ff.shared_width > 0) {
      Words prefixes = crossed(spelling_.feed_forward, spelling_.shared);
      prefixes.emplace_back("shared_mlp");
      matrices(WeightPart::shared, prefixes, ff.shared_width, ff.matrices);
    }
    if (!each_expert_) expert(ff, 0, ff.experts);
    for (int e = 0; each_expert_ && e < ff.experts; ++e) expert(ff, e, 1);
  }

  /// An expert by its number, or all of a layer in one tensor.
  void expert(const FeedForward& ff, int number, double count) {
    const std::string one = "experts." + std::to_string(number) + ".";
    const auto names = [&](const char* word, const char* letter, const Words& fused) {
      Words all;
      if (spelling_.expert_words) all.push_back(one + word);
      if (spelling_.expert_letters) all.push_back(one + letter);
      all.insert(all.end(), fused.begin(), fused.end());
      return crossed(spelling_.feed_forward, all);
    };
    const Words up_fused{"experts.gate_up_proj", "input_linear"};
    if (ff.matrices > 2)
      add(WeightPart::experts, names("gate_proj", "w1", up_fused), ff.width, hidden_, count);
    add(WeightPart::experts, names("up_proj", "w3", up_fused), ff.width, hidden_, count);
    add(WeightPart::experts, names("down_proj", "w2", {"experts.down_proj", "output_linear"}), hidden_,
        ff.width, count);
  }

  double hidden_;
  Spelling spelling_;
  bool each_expert_;
  std::vector<LinearLayer> found_;
};

}  // namespace

double LinearFormat::bytes(double rows, double columns) const {
  const double weights = rows * columns;
  double all = weights * bits / 8 + columns * column_bits / 8 + matrix_bytes;
  if (flat_block > 0) {
    const double blocks = std::ceil(weights / flat_block);
    all += blocks * scale_bits / 8;
    if (nested_block > 0) all += std::ceil(blocks / nested_block) * 4;
  } else if (scale_bits > 0) {
    const double down = block_rows > 0 ? std::ceil(rows / block_rows) : 1;
    const double across = block_columns > 0 ? std::ceil(columns / block_columns) : 1;
    all += down * across * scale_bits / 8;
  }
  return all;
}

void for_each_linear(const Architecture& a, const LayerNames& names,
                     const std::function<bool(const LinearLayer&)>& visit) {
  const Words prefixes = layer_prefixes(names);
  LayerReader reader(a, names);
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    Words numbered;
    for (const std::string& prefix : prefixes) numbered.push_back(prefix + std::to_string(i));
    for (LinearLayer& layer : reader.read(a.layers[i])) {
      layer.names = crossed(numbered, layer.names);
      if (!visit(layer)) return;
    }
  }
  if (a.embedding_copies < 2) return;
  const LinearLayer embedding{
      {"model.embed_tokens", "model.language_model.embed_tokens", "backbone.embeddings"},
      WeightPart::embedding,
      1.0 * a.vocab,
      1.0 * a.hidden,
      a.embedding_copies - 1.0,
      false};
  const LinearLayer head{{"lm_head", "language_model.lm_head", "model.lm_head"},
                         WeightPart::head,
                         1.0 * a.vocab,
                         1.0 * a.hidden};
  if (visit(embedding)) visit(head);
}

}  // namespace moelab::hf
