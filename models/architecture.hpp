// A model's architecture, of a Mixture-of-Experts or dense, and what each part of it weighs and computes.
//
// Layers are listed one by one, so that dense-first, interleaved, hybrid and encoder-decoder models are all
// the same thing to the rest of the program. Bytes are those of the weights as stored (2 a weight for BF16).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/units.hpp"
#include "models/weight_format.hpp"

namespace moelab {

class YamlDocument;
class YamlMap;

/// What mixes the tokens of one layer. The fields a kind does not use are zero.
///
/// Mamba-2 is said in the words of linear attention, of which it is a case by state space duality (Dao and
/// Gu, arXiv 2405.21060, section 4): its B are keys, C queries, x values. A group of B and C is a key head, a
/// head's state has head_dim x value_dim values, where the paper writes N x P.
struct Attention {
  enum class Kind : std::uint8_t {
    kv_heads,  // MHA, MQA and GQA: heads query heads share kv_heads key-value heads
    mla,       // multi-head latent attention: the KV cache holds kv_lora_rank + rope_dim values a token
    linear,    // gated delta net: constant state, no KV cache
    mamba2,    // Mamba-2: the same
    none       // the layer is a feed-forward part alone
  };
  Kind kind = Kind::kv_heads;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;      // per query and key head (mla: nope_dim + rope_dim; linear, mamba2: per key head)
  int value_dim = 0;     // per value head; always set, also where it equals head_dim
  int q_lora_rank = 0;   // mla; 0: queries are not factored
  int kv_lora_rank = 0;  // mla
  int rope_dim = 0;      // mla
  int linear_key_heads = 0;  // linear, mamba2
  int linear_value_heads = 0;
  int conv_kernel = 0;     // linear, mamba2; taps of the short convolution over queries, keys and values
  bool conv_bias = false;  // mamba2: the convolution has a bias
  bool bias = false;  // query, key and value projections have biases (Qwen1.5, Qwen2); mla: the two down ones
  bool output_bias = false;   // so has the output projection (gpt-oss)
  bool qk_norm = false;       // queries and keys are normalised, each head by itself (Qwen3)
  bool qk_norm_full = false;  // with qk_norm: over all heads at once, as many more scales (OLMoE)
  bool output_gate = false;   // queries carry a gate of the same width (Qwen3-Next)
  bool sinks = false;         // each head has a learned sink logit (gpt-oss)
  int window = 0;             // tokens; 0: full attention

  /// A state of constant size instead of a KV cache.
  bool recurrent() const { return kind == Kind::linear || kind == Kind::mamba2; }
  /// Reads keys and values, or the latent, of earlier tokens.
  bool cached() const { return kind == Kind::kv_heads || kind == Kind::mla; }

  bool operator==(const Attention&) const = default;
};

/// Feed-forward part of one layer.
struct FeedForward {
  enum class Kind : std::uint8_t {
    dense,
    moe,
    none  // the layer is attention alone, or a state space alone
  };
  Kind kind = Kind::dense;
  int width = 0;             // intermediate size of the dense FFN, or of one routed expert
  int matrices = 3;          // gate, up, down: 3; T5: 2
  int experts = 0;           // routed experts
  int top_k = 0;             // routed experts a token uses
  int shared_width = 0;      // intermediate size of all shared experts together; 0: none
  bool shared_gate = false;  // a sigmoid gate scales the shared expert (Qwen)
  bool bias = false;         // matrices have biases (gpt-oss)
  bool gate_bias = false;    // the router has one value an expert (gpt-oss, DeepSeek-V3's balance correction)

  bool operator==(const FeedForward&) const = default;
};

enum class Stack : std::uint8_t { encoder, decoder };

struct Layer {
  Stack stack = Stack::decoder;
  Attention attention;
  bool cross_attention = false;  // decoder layer that also attends to the encoder's output
  FeedForward feed_forward;

  bool has_mixer() const { return attention.kind != Attention::Kind::none; }
  bool has_feed_forward() const { return feed_forward.kind != FeedForward::Kind::none; }

  bool operator==(const Layer&) const = default;
};

struct Architecture {
  std::string name;    // "deepseek-v2-lite"
  std::string title;   // "DeepSeek-V2-Lite"
  std::string source;  // where the configuration is from
  int hidden = 0;
  int vocab = 0;
  int embedding_copies = 2;   // in the checkpoint; 1: input and output embeddings are tied
  StoredWeights stored;       // what each part is stored and served as
  std::vector<Layer> layers;  // encoder layers first
  double extra_weights =
      0;  // weights the formulas leave out (position biases, extra norms), with their reason in `source`
  std::optional<double> published_weights;  // what the authors say, for checking
  std::optional<double> published_active_weights;
  std::string published_source;

  bool has_encoder() const;
  /// Indices into `layers` of the MoE layers, in order. A routing trace's layer axis runs over exactly these.
  std::vector<int> moe_layers() const;
  /// By layer: its number among those, -1: it is dense.
  std::vector<std::int32_t> moe_numbers() const;
  /// The feed-forward part that all MoE layers share (every model known today has one shape); throws
  /// InputError otherwise.
  const FeedForward& moe() const;
  /// The same; of a dense model a part of no experts, for what serves both.
  const FeedForward& experts_or_none() const;
  bool is_moe() const;

  bool operator==(const Architecture&) const = default;

  // Compiled once: copying the members is most of what a source that takes one by value compiles.
  Architecture();
  Architecture(const Architecture&);
  Architecture(Architecture&&) noexcept;
  Architecture& operator=(const Architecture&);
  Architecture& operator=(Architecture&&) noexcept;
  ~Architecture();
};

/// What contradicts itself in a description, wherever it is from: heads that do not divide, more experts a
/// token than there are, or more weights than a double counts exactly. `key` is the model file's.
struct Fault {
  std::string key;
  std::string what;  // a sentence
};
std::optional<Fault> fault(const Attention& attention);
std::optional<Fault> fault(const FeedForward& ff);
std::optional<Fault> fault(const Layer& layer);     // its parts, and what they are together
std::optional<Fault> fault(const Architecture& a);  // of the whole, its layers left to the three above

// Weights (number of parameters). Integers held exactly in a double for every description without a fault.
// The layer's norms (one before attention, one before the feed-forward part, one before cross-attention; of a
// part that the layer does not have, none) count as attention.
double attention_weights(const Architecture& a,
                         const Layer& layer);  // projections and the layer's norms, cross-attention included
double feed_forward_dense_weights(const Architecture& a,
                                  const Layer& layer);  // dense FFN, or shared experts with their gate
double gate_weights(const Architecture& a, const Layer& layer);  // router of an MoE layer
/// Which part feed_forward_dense_weights() belongs to: a dense layer's FFN or shared experts.
WeightPart dense_part(const Layer& layer);
double expert_tensor_weights(const Architecture& a,
                             const FeedForward& ff);                  // one matrix of one routed expert
double expert_weights(const Architecture& a, const FeedForward& ff);  // all matrices (and biases) of one
double embedding_weights(const Architecture& a);                      // one copy
double total_weights(const Architecture& a);
double active_weights(const Architecture& a);  // used for one token, all embedding copies counted
double routed_weights(const Architecture& a);  // all routed experts of all layers

// Bytes.
Bytes expert_tensor_bytes(const Architecture& a);  // one matrix of one routed expert, as served
Bytes expert_bytes(const Architecture& a);
Bytes expert_bytes_or_none(const Architecture& a);  // 0 of a dense model
Bytes non_expert_bytes(const Architecture& a);      // everything but the routed experts
/// One layer without its routed experts, and with them.
Bytes layer_non_routed_bytes(const Architecture& a, const Layer& layer);
Bytes layer_bytes(const Architecture& a, const Layer& layer);
Bytes routed_bytes(const Architecture& a);  // all routed experts of all layers
Bytes total_bytes(const Architecture& a);   // all weights as stored
/// What one token reads: every part but the input embedding, and top_k experts a layer.
Bytes active_bytes(const Architecture& a);
/// Keys and values, or the latent, that one layer keeps of a token; 0 for linear attention and Mamba-2.
double kv_values_per_token(const Attention& t);
/// What one layer of linear attention or Mamba-2 keeps of a request: the state and the last inputs of the
/// convolution; 0 for others.
double state_values(const Attention& t);
/// Bytes that one layer keeps of `requests` requests that have `tokens` tokens in all: of each token that its
/// window leaves the keys and values, of each request the state.
double kept_bytes(const Architecture& a, const Attention& t, double tokens, double requests);
/// KV cache of one token of the decoder over its layers: keys and values (mla: the latent) in the cache's
/// format.
Bytes kv_bytes_per_token(const Architecture& a);
/// KV cache of one token of the *encoder*: what the cross-attention of all decoder layers keeps of it. 0
/// where there is no encoder.
Bytes cross_kv_bytes_per_token(const Architecture& a);
/// Of the decoder's layers with a window of at most `longest` tokens: what they would keep of every token,
/// and what a request has there instead where blocks of `block_tokens` tokens are freed once the window has
/// left them: those of the window, and one that it is half in.
struct WindowedKv {
  Bytes per_token, per_request;
};
WindowedKv windowed_kv(const Architecture& a, int longest, std::uint32_t block_tokens);
/// What a request keeps however long it is: the states of linear attention and Mamba-2, and the last inputs
/// of their convolutions, 2 bytes a value.
Bytes state_bytes_per_request(const Architecture& a);

/// Work of one pass over a layer's non-routed part: attention (projections, scores against `context` tokens a
/// query token), gate, norms, and separately the dense or shared FFN. `weight_bytes` are read once however
/// many tokens there are; no tokens are no work at all. Activations are left out: they are small beside
/// weights at the batch sizes of decoding.
struct Work {
  Flops flops;
  Bytes weight_bytes;
  Bytes kv_bytes;  // keys and values read
  int kernels =
      0;  // launches, about: what a serving engine with the usual fusions makes (architecture_work.cpp)
  Flops mixing{};      // of `flops`: scores and weighted values
  Flops recurrence{};  // of `flops`: updates of a state of linear attention or Mamba-2
  int biases = 0;      // additions of biases, where they are kernels of their own

  bool operator==(const Work&) const = default;
  /// Of two works that follow each other.
  Work& operator+=(const Work& more) {
    flops += more.flops;
    weight_bytes += more.weight_bytes;
    kv_bytes += more.kv_bytes;
    kernels += more.kernels;
    mixing += more.mixing;
    recurrence += more.recurrence;
    biases += more.biases;
    return *this;
  }
};
/// FLOPs: 2 a weight and token, and for each query token 2 * heads * (head_dim + value_dim) * context.
/// `context` is what a query token attends to in this layer, mean over them, itself included: where the layer
/// has a window, of each what the window leaves, so never more than the window. MLA runs in the absorbed form
/// (DeepSeek-V2, arXiv 2405.04434, section 2.1.2): its projections cost the same, its scores 2 * heads * (2 *
/// kv_lora_rank + rope_dim) * context. Linear attention costs 7 * value heads * head_dim * value_dim a token
/// (gated delta rule, arXiv 2412.06464, equation 10: decay 1, and 2 each for recall, update and read-out) and
/// reads its state instead of a cache; Mamba-2 does without the recall and costs 5 of
/// them (arXiv 2405.21060, equation 1: h = A h + B x, y = C h). `queries_per_read`: query tokens that share
/// one read of keys and values: 1 when decoding, the tile or the chunk of one prompt when prefilling. A
/// decoder layer with cross-attention attends to `encoded` tokens of the encoder as well (mean over query
/// tokens), whose keys and values cross_cache_work() made before.
Work attention_work(const Architecture& a, const Layer& layer, double tokens, double context,
                    double queries_per_read = 1, double encoded = 0);
/// Tokens that `rows` query tokens attend to in one layer through a sliding window of so many (0: none),
/// summed over them: the first to `first` tokens, itself included, each further one to one more. That is the
/// sum of min(first + i, window) over i = 0 .. rows - 1; exact below 2^53 where `first` is a whole number or
/// a half.
double attended_tokens(double first, double rows, int window);
/// Query tokens of a prompt that share one read of keys and values in a tiled attention kernel.
inline constexpr double kPromptTile = 128;
/// Keys and values of `encoder_tokens` for one decoder layer's cross-attention, once a request. Nothing for
/// other layers.
Work cross_cache_work(const Architecture& a, const Layer& layer, double encoder_tokens);
Work dense_work(const Architecture& a, const Layer& layer, double tokens);  // dense FFN, or shared experts
Work head_work(const Architecture& a, double tokens);                       // final norm and output embedding
Work expert_work(const Architecture& a, const FeedForward& ff,
                 double tokens);  // one routed expert, its weights as served read once

/// Reads one model file (configs/models/*.yaml; architecture_yaml.cpp says what it holds). What is wrong goes
/// to the document's Problems; the result is to be used only when there are none.
Architecture read_architecture(const YamlDocument& document);
Architecture read_architecture(const YamlMap& root);
/// A model file that reads back to the same Architecture. Throws InputError where a file cannot say it (dense
/// layers of several widths, a decoder that attends to its encoder in some layers only).
std::string architecture_to_yaml(const Architecture& a);
/// A title as the name of a model file: at most 100 characters, lower case, '-' for every other character
/// that a name cannot have.
std::string model_file_name(std::string_view title);
/// By name or path, through the configuration store. Throws InputError, also for a model without experts.
Architecture load_architecture(std::string_view name, const std::string& base = {});
/// The same, dense models too.
Architecture load_any_architecture(std::string_view name, const std::string& base = {});
/// What is said of a dense model where experts are needed.
std::optional<Fault> lack_of_experts(const Architecture& a);

}  // namespace moelab
