#include "models/llama_memory.hpp"

#include <algorithm>
#include <cmath>

#include "models/stored_weights.hpp"

namespace moelab {
namespace {

constexpr double kFloat = 4;          // bytes of an activation: graphs compute in 32 bits
constexpr double kHalf = 2;           // bytes of a mask's entry and of a dequantised value
constexpr double kPadding = 256;      // tokens: caches are padded to it (llama_kv_cache, GGML_PAD)
constexpr double kHeadStates = 2;     // hidden states beside the logits; printed loads show 1 to 3
constexpr double kHostStates = 2;     // hidden states among the host's inputs: issue 23527, 2408 = 2344 + 64
constexpr double kDenseMatrices = 3;  // gate, up and their product
constexpr double kUnquantised = 16;   // bits of a cached value

double padded(double tokens) {
  return std::ceil(tokens / kPadding) * kPadding;
}

/// A load's amounts, once for all layers.
struct Load {
  double micro_batch, sequences;
  double caches;                          // one a sequence, or one for all
  double context;                         // tokens of a cache, padded
  double window = 0, window_context = 0;  // of layers with a window, 0: there are none
  bool full = false;                      // some layer attends to everything
  double kv_bits;
  bool flash_attention;

  double cached(const Attention& t) const { return t.window > 0 ? window_context : context; }
  /// Cached tokens that have an entry in a mask, for each token of a micro-batch.
  double masked() const { return (full ? context : 0) + window_context; }
};

Load load_of(const Architecture& model, const RuntimeCosts& runtime, double tokens, const LoadOptions& o) {
  Load load{.micro_batch = o.micro_batch.value_or(runtime.micro_batch),
            .sequences = o.sequences,
            .caches = o.unified ? 1 : o.sequences,
            .context = padded(tokens / (o.unified ? 1 : o.sequences)),
            .kv_bits = o.kv_bits.value_or(8 * model.stored.kv),
            .flash_attention = o.flash_attention};
  for (const Layer& layer : model.layers) {
    const Attention& t = layer.attention;
    if (!t.cached()) continue;
    load.full = load.full || t.window == 0;
    load.window = std::max<double>(load.window, t.window);
  }
  if (load.window > 0) load.window_context = llama_window_tokens(load.window, load.micro_batch, load.context);
  return load;
}

/// Activations of one token that live at once around a layer's attention: what goes in and what comes out;
/// MLA in its absorbed form, linear attention and Mamba-2 with the inputs before and after their convolution.
double attention_values(const Attention& t) {
  switch (t.kind) {
    case Attention::Kind::kv_heads:
      return 1.0 * t.heads * ((t.output_gate ? 2 : 1) * t.head_dim + t.value_dim);
    case Attention::Kind::mla:
      return 1.0 * t.heads * (2.0 * t.kv_lora_rank + t.rope_dim);
    case Attention::Kind::linear:
    case Attention::Kind::mamba2: {
      const double outputs = 1.0 * t.linear_value_heads * t.value_dim;
      return 2 * (2.0 * t.linear_key_heads * t.head_dim + outputs) + 2 * outputs;
    }
    case Attention::Kind::none:
      break;
  }
  return 0;
}

double attention_bytes(const Attention& t, const RuntimeCosts& runtime, const Load& load) {
  double bytes = attention_values(t) * load.micro_batch * kFloat;
  if (!t.cached()) return bytes;
  const double cached = load.cached(t);
  if (!load.flash_attention) return bytes + llama_score_bytes(cached, t.heads, load.micro_batch);
  // Kernels of flash attention read 16 bits: one layer's keys and values are dequantised for them, of all
  // sequences.
  if (load.kv_bits < kUnquantised && runtime.kv_copy > 0)
    bytes += kv_values_per_token(t) * cached * load.caches * kHalf;
  return bytes;
}

/// Of experts every token's top_k are computed at once: gate, up and their product, or the outputs, which are
/// kept while they are weighted (`expert_outputs` of them).
double feed_forward_bytes(const Architecture& model, const FeedForward& ff, const RuntimeCosts& runtime,
                          const Load& load) {
  double values = kDenseMatrices * ff.width;
  if (ff.kind == FeedForward::Kind::moe)
    values = std::max(ff.top_k * std::max(values, runtime.expert_outputs * model.hidden),
                      kDenseMatrices * ff.shared_width);
  return values * load.micro_batch * kFloat;
}

/// One GPU's part of the load.
struct Device {
  double copies = 1;  // of each input
  double staged = 0;  // bytes of weights copied there
  bool head = true;
};

double compute_bytes(const Architecture& model, const RuntimeCosts& runtime, const Load& load,
                     const Device& device) {
  const double entries = load.masked() * load.micro_batch;
  const double state = load.micro_batch * model.hidden * kFloat;
  const double states = runtime.hidden_states * state;
  // The mask that layers read; a 32-bit one (before pull request 23764) is let go once it is cast, unless
  // copies of it serve further micro-batches.
  const double inputs = runtime.mask_bytes * device.copies * entries;
  const double cast = runtime.mask_bytes > kHalf && load.flash_attention ? kHalf * entries : 0;
  const double mask = cast > 0 && device.copies == 1 ? cast : inputs + cast;
  double largest = cast > 0 ? inputs + cast + states + device.staged : 0;
  for (const Layer& layer : model.layers) {
    const double attention = attention_bytes(layer.attention, runtime, load);
    const FeedForward& ff = layer.feed_forward;
    const bool moe = ff.kind == FeedForward::Kind::moe;
    const double fed = feed_forward_bytes(model, ff, runtime, load) + (moe ? device.staged : 0);
    largest = std::max(largest, mask + states + std::max(attention, fed));
  }
  if (!device.head) return largest;
  // Since pull request 23861 a server makes logits for its sequences alone.
  const double rows = runtime.logits_rows > 0 ? load.micro_batch : load.sequences;
  return std::max(largest, llama_logits_bytes(rows, model.vocab, model.hidden, kHeadStates));
}

}  // namespace

double llama_logits_bytes(double rows, double vocab, double hidden, double hidden_states) {
  return rows * (vocab + hidden_states * hidden) * kFloat;
}

double llama_host_bytes(double masked, double micro_batch, double mask_bytes, double hidden,
                        double hidden_states) {
  return masked * micro_batch * mask_bytes + hidden_states * hidden * micro_batch * kFloat;
}

double llama_score_bytes(double cached, double heads, double micro_batch) {
  return cached * heads * micro_batch * kFloat;
}

double llama_window_tokens(double window, double micro_batch, double context) {
  return std::min(context, padded(window + micro_batch));
}

double llama_compute_bytes(const Architecture& model, const RuntimeCosts& runtime, double tokens,
                           const LoadOptions& options) {
  return compute_bytes(model, runtime, load_of(model, runtime, tokens, options), {});
}

LlamaBuffers llama_buffers(const Architecture& model, const RuntimeCosts& runtime, double tokens,
                           const LoadOptions& options, const LlamaPlacement& placement) {
  const Load load = load_of(model, runtime, tokens, options);
  LlamaBuffers b;
  for (const Layer& layer : model.layers) {
    if (layer.stack == Stack::encoder) continue;
    const Attention& t = layer.attention;
    b.kv += kv_values_per_token(t) * load.cached(t) * load.caches * load.kv_bits / 8;
    b.states += state_values(t) * load.sequences * kFloat;
  }
  // Several GPUs work on micro-batches one behind the other, and each has its own copies of the inputs; so
  // has the host of its masks (an input has all copies on its own backend too).
  const bool pipelined = placement.gpus > 1 && !placement.overridden;
  const double copies = pipelined ? std::max(1.0, runtime.input_copies) : 1;
  for (int gpu = 0; gpu < placement.gpus; ++gpu) {
    Device device;
    device.copies = copies;
    device.staged = gpu == 0 && placement.streaming ? largest_expert_tensor(model).value() : 0;
    device.head = gpu + 1 == placement.gpus;
    b.gpu_compute += compute_bytes(model, runtime, load, device);
  }
  b.host_compute = llama_host_bytes(load.masked() * copies, load.micro_batch, runtime.mask_bytes,
                                    model.hidden, kHostStates);
  return b;
}

}  // namespace moelab
