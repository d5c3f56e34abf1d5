#include "models/gguf_import.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "models/gguf.hpp"
#include "models/gguf_layer.hpp"
#include "models/input_error.hpp"

namespace moelab {
namespace gguf {
namespace {

constexpr int kMostLayers = 10000;
constexpr int kMostHeads = 65536;
constexpr int kMostExperts = 65536;
constexpr int kMostPieces = 10000;
constexpr std::int64_t kMostWidth = 10'000'000;
constexpr std::int64_t kMostHidden = 1'000'000;

/// Layers with a window, for architectures whose files do not say which: of each `period` layers all but the
/// last (llama.cpp, src/llama-model.cpp, set_swa_pattern).
struct Windows {
  std::string_view architecture;
  int period;
  int window;  // 0: the file says it
};
constexpr std::array kWindows{Windows{"gpt-oss", 2, 0}, Windows{"llama4", 4, 8192}, Windows{"gemma2", 2, 0},
                              Windows{"gemma3", 6, 0},  Windows{"cohere2", 4, 0},   Windows{"exaone4", 4, 0}};

struct Sum {
  double weights = 0, bytes = 0;
  void add(const TensorInfo& tensor) {
    weights += tensor.weights();
    bytes += tensor.bytes();
  }
};

/// One file, or the pieces of one.
class Model {
 public:
  explicit Model(const std::string& path) { add(path); }

  Architecture architecture(const std::string& name);

 private:
  void add(const std::string& path);
  void add_pieces(const std::filesystem::path& path, std::int64_t count);
  void place_tensors();
  Layer layer_of(std::size_t i) const;
  Attention attention_of(std::size_t i) const;
  Attention mla_of(std::size_t i) const;
  Attention kv_heads_of(std::size_t i) const;
  Attention linear_of(std::size_t i) const;
  Attention mamba2_of(std::size_t i) const;
  Attention recurrent_of(std::size_t i) const;
  int window_of(std::size_t i) const;
  FeedForward experts_of(std::size_t i) const;
  FeedForward dense_of(std::size_t i) const;
  void set_bytes(Architecture& a) const;

  const Header& first() const { return pieces_.front(); }
  std::string key(std::string_view tail) const { return kind_ + "." + std::string(tail); }
  /// Of the whole model, or of layer i where the file has one a layer.
  std::optional<std::int64_t> number(std::string_view tail, std::size_t i, std::int64_t low,
                                     std::int64_t high) const;
  std::int64_t needed(std::string_view tail, std::size_t i, std::int64_t low, std::int64_t high) const;
  int size(const LayerTensors& layer, std::string_view stem, std::size_t dimension, std::int64_t most) const;
  [[noreturn]] void fail(const std::string& what) const { throw InputError(first().file, what); }
  [[noreturn]] void fail_in(std::size_t i, const std::string& what) const {
    fail("layer " + std::to_string(i) + ": " + what);
  }

  std::vector<Header> pieces_;
  std::string kind_;  // general.architecture
  int hidden_ = 0;
  std::vector<LayerTensors> layers_;
  std::array<Sum, kWeightParts> sums_;
  Sum& sum(WeightPart part) { return sums_[static_cast<std::size_t>(part)]; }
  bool tied_ = true;
  double left_out_ = 0;  // bytes of tensors that predict further tokens
};

void Model::add(const std::string& path) {
  Header header = read_header(path);
  const std::int64_t count = header.integer("split.count", 0, kMostPieces).value_or(0);
  if (count > 1) {
    add_pieces(path, count);
    return;
  }
  pieces_.push_back(std::move(header));
}

void Model::add_pieces(const std::filesystem::path& path, std::int64_t count) {
  const auto five = [](std::int64_t n) {
    std::string digits = std::to_string(n);
    return std::string(5 - std::min<std::size_t>(5, digits.size()), '0') + digits;
  };
  const std::string name = path.filename().string();
  const std::string ending = "-of-" + five(count) + ".gguf";
  if (!name.ends_with(ending) || name.size() < ending.size() + 6)
    throw InputError(path.string(), "is one of " + std::to_string(count) +
                                        " pieces: they have to be called NAME-00001" + ending + " and so on");
  const std::string stem = name.substr(0, name.size() - ending.size() - 5);
  for (std::int64_t n = 1; n <= count; ++n) {
    const std::filesystem::path piece = path.parent_path() / (stem + five(n) + ending);
    if (!std::filesystem::exists(piece))
      throw InputError(path.string(), "is one of " + std::to_string(count) + " pieces, and " +
                                          piece.filename().string() + " is not beside it");
    pieces_.push_back(read_header(piece.string()));
  }
}

std::optional<std::int64_t> Model::number(std::string_view tail, std::size_t i, std::int64_t low,
                                          std::int64_t high) const {
  const auto found = first().values.find(key(tail));
  if (found == first().values.end()) return std::nullopt;
  const auto* array = std::get_if<Array>(&found->second);
  if (array == nullptr) return first().integer(key(tail), low, high);
  if (array->numbers.size() <= i) fail("'" + key(tail) + "' has no value for layer " + std::to_string(i));
  const double value = array->numbers[i];
  if (!(value >= static_cast<double>(low) && value <= static_cast<double>(high)))
    fail_in(i, "'" + key(tail) + "' is not from " + std::to_string(low) + " to " + std::to_string(high));
  return std::llround(value);
}

std::int64_t Model::needed(std::string_view tail, std::size_t i, std::int64_t low, std::int64_t high) const {
  const std::optional<std::int64_t> value = number(tail, i, low, high);
  if (!value) fail("the header does not say '" + key(tail) + "'");
  return *value;
}

int Model::size(const LayerTensors& layer, std::string_view stem, std::size_t dimension,
                std::int64_t most) const {
  const TensorInfo* tensor = layer.weight(stem);
  if (tensor == nullptr) fail("a layer without the tensor '" + std::string(stem) + ".weight'");
  if (tensor->shape[dimension] > most)
    fail("tensor '" + tensor->name + "' has a dimension of " + std::to_string(tensor->shape[dimension]));
  return static_cast<int>(tensor->shape[dimension]);
}

void Model::place_tensors() {
  const auto predicting = static_cast<std::size_t>(number("nextn_predict_layers", 0, 0, 64).value_or(0));
  const auto blocks = static_cast<std::size_t>(needed("block_count", 0, 1, kMostLayers));
  if (predicting >= blocks) fail("no layer but those that predict further tokens");
  layers_.resize(blocks - predicting);
  std::set<std::string> seen;
  std::vector<const TensorInfo*> loose;
  for (const Header& piece : pieces_)
    for (const TensorInfo& tensor : piece.tensors) {
      if (!seen.insert(tensor.name).second)
        throw InputError(piece.file, "tensor '" + tensor.name + "' is in another piece as well");
      const auto place = in_layer(tensor.name);
      if (!place) {
        loose.push_back(&tensor);
      } else if (static_cast<std::size_t>(place->first) < layers_.size()) {
        layers_[static_cast<std::size_t>(place->first)].tensors.emplace(place->second, &tensor);
      } else if (static_cast<std::size_t>(place->first) < blocks) {
        left_out_ += tensor.bytes();
      } else {
        fail("tensor '" + tensor.name + "' is of a layer beyond the " + std::to_string(blocks) +
             " there are");
      }
    }
  for (std::size_t i = 0; i < layers_.size(); ++i)
    for (const auto& [name, tensor] : layers_[i].tensors) {
      const std::optional<WeightPart> part = layers_[i].part_of(name);
      if (!part)
        fail("tensor '" + tensor->name + "': layers of this kind (architecture '" + kind_ +
             "') are not covered");
      sum(*part).add(*tensor);
    }
  for (const TensorInfo* tensor : loose) {
    const std::string& name = tensor->name;
    if (name == "output.weight" || name == "output.bias") {
      tied_ = false;
      sum(WeightPart::head).add(*tensor);
    } else if (name == "token_embd.weight") {
      sum(WeightPart::embedding).add(*tensor);
    } else if (is_loose(name)) {
      sum(WeightPart::attention).add(*tensor);
    } else {
      fail("tensor '" + name.substr(0, 80) + "' is of no part that is covered");
    }
  }
  if (tied_) std::swap(sum(WeightPart::head), sum(WeightPart::embedding));
}

Attention Model::mla_of(std::size_t i) const {
  const LayerTensors& layer = layers_[i];
  Attention t;
  t.kind = Attention::Kind::mla;
  t.heads = static_cast<int>(needed("attention.head_count", i, 1, kMostHeads));
  t.kv_lora_rank = static_cast<int>(needed("attention.kv_lora_rank", i, 1, kMostWidth));
  t.rope_dim = size(layer, "attn_kv_a_mqa", 1, kMostWidth) - t.kv_lora_rank;
  if (layer.has_weight("attn_q_a")) t.q_lora_rank = size(layer, "attn_q_a", 1, kMostWidth);
  t.head_dim = size(layer, t.q_lora_rank > 0 ? "attn_q_b" : "attn_q", 1, kMostWidth) / t.heads;
  t.value_dim = size(layer, "attn_output", 0, kMostWidth) / t.heads;
  if (t.rope_dim < 0 || t.head_dim <= t.rope_dim || t.value_dim < 1)
    fail_in(i, "ranks and heads of the latent attention contradict its tensors");
  return t;
}

Attention Model::kv_heads_of(std::size_t i) const {
  const LayerTensors& layer = layers_[i];
  Attention t;
  t.heads = static_cast<int>(needed("attention.head_count", i, 0, kMostHeads));
  t.kv_heads = static_cast<int>(number("attention.head_count_kv", i, 0, kMostHeads).value_or(t.heads));
  if (t.heads < 1 || t.kv_heads < 1) fail_in(i, "attention without heads");
  t.head_dim = static_cast<int>(
      number("attention.key_length", i, 1, kMostWidth).value_or(std::max(1, hidden_ / t.heads)));
  t.value_dim = static_cast<int>(number("attention.value_length", i, 1, kMostWidth).value_or(t.head_dim));
  const std::int64_t queries = std::int64_t{t.heads} * t.head_dim;
  const std::int64_t rest = std::int64_t{t.kv_heads} * (t.head_dim + t.value_dim);
  if (layer.has_weight("attn_qkv")) {
    if (size(layer, "attn_qkv", 1, kMostWidth) != queries + rest)
      fail_in(i, "'attn_qkv.weight' is not as wide as heads and their lengths say");
    t.bias = layer.has("attn_qkv.bias");
  } else {
    const std::int64_t wide = size(layer, "attn_q", 1, kMostWidth);
    t.output_gate = wide == 2 * queries;
    if (!layer.has_weight("attn_k") || !layer.has_weight("attn_v"))
      fail_in(i, "attention without keys or values of its own is not covered");
    if ((wide != queries && !t.output_gate) ||
        std::int64_t{size(layer, "attn_k", 1, kMostWidth)} + size(layer, "attn_v", 1, kMostWidth) != rest)
      fail_in(i, "its tensors are not as wide as heads and their lengths say");
    t.bias = layer.has("attn_q.bias");
  }
  t.output_bias = layer.has("attn_output.bias");
  t.sinks = layer.has("attn_sinks.weight") || layer.has("attn_sinks");
  t.qk_norm = layer.has_weight("attn_q_norm");
  t.qk_norm_full = t.qk_norm && size(layer, "attn_q_norm", 0, kMostWidth) == queries && t.heads > 1;
  t.window = window_of(i);
  return t;
}

/// What gated delta nets and Mamba-2 say by the same keys.
Attention Model::recurrent_of(std::size_t i) const {
  Attention t;
  t.linear_key_heads = static_cast<int>(needed("ssm.group_count", i, 1, kMostHeads));
  t.linear_value_heads = static_cast<int>(needed("ssm.time_step_rank", i, 1, kMostHeads));
  t.head_dim = static_cast<int>(needed("ssm.state_size", i, 1, kMostWidth));
  const auto inner = static_cast<int>(needed("ssm.inner_size", i, 1, kMostWidth));
  if (inner % t.linear_value_heads != 0)
    fail_in(i, "'" + key("ssm.inner_size") + "' " + std::to_string(inner) + " is not shared evenly by " +
                   std::to_string(t.linear_value_heads) + " heads ('" + key("ssm.time_step_rank") + "')");
  t.value_dim = inner / t.linear_value_heads;
  t.conv_kernel = static_cast<int>(needed("ssm.conv_kernel", i, 1, 1024));
  return t;
}

Attention Model::linear_of(std::size_t i) const {
  Attention t = recurrent_of(i);
  t.kind = Attention::Kind::linear;
  return t;
}

Attention Model::mamba2_of(std::size_t i) const {
  const LayerTensors& layer = layers_[i];
  if (layer.has_attention())
    fail_in(i, "attention and a state space side by side in one layer are not covered (architecture '" +
                   kind_ + "')");
  Attention t = recurrent_of(i);
  t.kind = Attention::Kind::mamba2;
  t.conv_bias = layer.has("ssm_conv1d.bias");
  t.bias = layer.has("ssm_in.bias");
  t.output_bias = layer.has("ssm_out.bias");
  return t;
}

int Model::window_of(std::size_t i) const {
  const auto known = std::find_if(kWindows.begin(), kWindows.end(),
                                  [&](const Windows& w) { return w.architecture == kind_; });
  const bool listed = known != kWindows.end();
  const auto window = static_cast<int>(
      number("attention.sliding_window", i, 0, 1'000'000'000).value_or(listed ? known->window : 0));
  const auto pattern = first().values.find(key("attention.sliding_window_pattern"));
  if (pattern != first().values.end() && std::holds_alternative<Array>(pattern->second))
    return number("attention.sliding_window_pattern", i, 0, 1) == 1 ? window : 0;
  const auto period = static_cast<std::size_t>(
      number("attention.sliding_window_pattern", i, 1, kMostLayers).value_or(listed ? known->period : 1));
  return period > 1 && i % period == period - 1 ? 0 : window;
}

Attention Model::attention_of(std::size_t i) const {
  const LayerTensors& layer = layers_[i];
  if (layer.is_mamba2()) return mamba2_of(i);
  if (layer.has_weight("attn_kv_a_mqa")) return mla_of(i);
  if (layer.has_weight("ssm_conv1d")) return linear_of(i);
  if (layer.has_weight("attn_output")) return kv_heads_of(i);
  if (layer.has_attention() || layer.has_any("ssm_"))
    fail_in(i,
            "attention without an output: this kind of layers is not covered (architecture '" + kind_ + "')");
  Attention none;
  none.kind = Attention::Kind::none;
  return none;
}

FeedForward Model::experts_of(std::size_t i) const {
  const LayerTensors& layer = layers_[i];
  FeedForward ff;
  ff.kind = FeedForward::Kind::moe;
  ff.experts = size(layer, "ffn_gate_inp", 1, kMostExperts);
  ff.top_k = static_cast<int>(needed("expert_used_count", i, 1, kMostExperts));
  const bool fused = layer.has_weight("ffn_gate_up_exps");
  const bool apart = layer.has("ffn_down.0.weight");
  const std::string down = apart ? "ffn_down.0" : "ffn_down_exps";
  ff.width = size(layer, down, 0, kMostWidth);
  ff.matrices = fused || layer.has_weight(apart ? "ffn_gate.0" : "ffn_gate_exps") ? 3 : 2;
  ff.bias = layer.has(down + ".bias");
  ff.gate_bias = layer.has("ffn_gate_inp.bias") || layer.has("exp_probs_b.bias") || layer.has("exp_probs_b");
  if (layer.has_weight("ffn_down_shexp")) ff.shared_width = size(layer, "ffn_down_shexp", 0, kMostWidth);
  ff.shared_gate = ff.shared_width > 0 && layer.has_weight("ffn_gate_inp_shexp");
  return ff;
}

FeedForward Model::dense_of(std::size_t i) const {
  const LayerTensors& layer = layers_[i];
  if (!layer.has_any("ffn_gate") && !layer.has_any("ffn_up") && !layer.has_any("ffn_down"))
    return {.kind = FeedForward::Kind::none};
  if (!layer.has_weight("ffn_down"))
    fail_in(i, "a feed-forward part without 'ffn_down.weight': this kind of layers is not covered");
  FeedForward ff;
  ff.width = size(layer, "ffn_down", 0, kMostWidth);
  // Without a gate of its own an up-projection twice as wide holds it (Phi-3).
  const bool fused = !layer.has_weight("ffn_gate") && size(layer, "ffn_up", 1, kMostWidth) == 2 * ff.width;
  ff.matrices = fused || layer.has_weight("ffn_gate") ? 3 : 2;
  ff.bias = layer.has("ffn_down.bias");
  return ff;
}

Layer Model::layer_of(std::size_t i) const {
  Layer layer;
  layer.attention = attention_of(i);
  layer.feed_forward = layers_[i].has_weight("ffn_gate_inp") ? experts_of(i) : dense_of(i);
  if (const std::optional<Fault> found = fault(layer)) fail_in(i, found->what);
  return layer;
}

/// Bytes a weight by part, so that the parts' bytes are the file's; what the formulas of attention leave out
/// counts as such.
void Model::set_bytes(Architecture& a) const {
  std::array<double, kWeightParts> formula{};
  const auto at = [&](WeightPart part) -> double& { return formula[static_cast<std::size_t>(part)]; };
  at(WeightPart::attention) = a.hidden;  // the final norm
  at(WeightPart::head) = embedding_weights(a);
  at(WeightPart::embedding) = (a.embedding_copies - 1) * embedding_weights(a);
  at(WeightPart::experts) = routed_weights(a);
  for (const Layer& layer : a.layers) {
    at(WeightPart::attention) += attention_weights(a, layer);
    at(dense_part(layer)) += feed_forward_dense_weights(a, layer);
    at(WeightPart::router) += gate_weights(a, layer);
  }
  for (std::size_t p = 0; p < kWeightParts; ++p) {
    const auto part = static_cast<WeightPart>(p);
    const Sum& file = sums_[p];
    if (part == WeightPart::attention && file.weights > formula[p]) {
      a.extra_weights = file.weights - formula[p];
      formula[p] = file.weights;
    }
    if (std::abs(file.weights - formula[p]) > 0.01 * formula[p] + 1)
      fail("the tensors of '" + std::string(to_string(part)) + "' have " +
           std::to_string(std::llround(file.weights)) + " weights, its shapes and counts say " +
           std::to_string(std::llround(formula[p])));
    if (formula[p] > 0) a.stored.set(part, file.bytes / formula[p]);
  }
}

Architecture Model::architecture(const std::string& name) {
  kind_ = first().text("general.architecture");
  if (kind_.empty()) fail("the header does not say 'general.architecture'");
  if (kind_.size() > 60 || kind_ != model_file_name(kind_))
    fail("'general.architecture' is no name (a-z, 0-9, '.', '_' and '-', at most 60)");
  hidden_ = static_cast<int>(needed("embedding_length", 0, 1, kMostHidden));
  place_tensors();
  Architecture a;
  a.title = name;
  a.name = model_file_name(name);
  a.hidden = hidden_;
  const Sum& embedding = sums_[static_cast<std::size_t>(tied_ ? WeightPart::head : WeightPart::embedding)];
  a.vocab = static_cast<int>(std::llround(std::min(1e8, embedding.weights / hidden_)));
  if (a.vocab < 1) fail("no tensor 'token_embd.weight'");
  a.embedding_copies = tied_ ? 1 : 2;
  for (std::size_t i = 0; i < layers_.size(); ++i) a.layers.push_back(layer_of(i));
  if (const std::optional<Fault> found = fault(a)) fail(found->what);
  a.stored.name = first().weights_name();
  set_bytes(a);
  a.source = std::filesystem::path(first().file).filename().string() + ", GGUF, architecture " + kind_;
  if (left_out_ > 0)
    a.source += "; layers that predict further tokens are left out (" + to_string(Bytes(left_out_)) + ")";
  return a;
}

}  // namespace
}  // namespace gguf

Architecture import_gguf(const std::string& path, const std::string& name) {
  return gguf::Model(path).architecture(name.empty() ? std::filesystem::path(path).stem().string() : name);
}

}  // namespace moelab
