// What llama.cpp allocates beside weights: KV cache, recurrent states, and the compute buffers of GPUs and
// host, as its graphs make them.
//
// A compute buffer is as large as the graph's largest moment, not the sum over it: the attention or the
// feed-forward part of a layer, or the logits. Ground: printed buffers of published loads (issue 23527, pull
// requests 23764 and 23861, gguf-parser-go issue 45, unsloth pull requests 6718 and 7637), which
// experiments/world/memory.sh holds the law against.
#pragma once

#include <optional>

#include "models/architecture.hpp"
#include "models/runtime_costs.hpp"

namespace moelab {

/// What a server is started with, beyond model, split and the tokens that its caches have room for.
struct LoadOptions {
  std::optional<double> micro_batch{};  // --ubatch-size; absent: the runtime's
  double sequences = 1;                 // --parallel: each has its share of the context
  bool unified = false;                 // --kv-unified: instead of that they share one cache
  std::optional<double>
      kv_bits{};  // of a cached value: 8.5 for q8_0, 4.5 for q4_0; absent: the model's (StoredWeights::kv)
  bool flash_attention = true;
};

/// Which GPUs the buffers are on.
struct LlamaPlacement {
  int gpus = 1;  // each holds layers of its own, the last one the head too
  /// Experts of the host are copied for batches: all of them to the first GPU, whichever has the layer
  /// (ggml_backend_sched_backend_id_from_cur takes the first backend that offers to).
  bool streaming = false;
  bool overridden = false;  // some layers' experts lie on the host: then inputs are copied once
};

/// Bytes of all GPUs together.
struct LlamaBuffers {
  double kv = 0;      // of attention, in the cache's type
  double states = 0;  // of linear attention and Mamba-2, 32-bit
  double gpu_compute = 0;
  double host_compute = 0;
};
LlamaBuffers llama_buffers(const Architecture& model, const RuntimeCosts& runtime, double tokens,
                           const LoadOptions& options, const LlamaPlacement& placement);

/// The compute buffer of a processor that computes all of the model: what `-ngl 0` without a GPU takes.
double llama_compute_bytes(const Architecture& model, const RuntimeCosts& runtime, double tokens,
                           const LoadOptions& options);

/// Logits of so many tokens, with hidden states beside them (`hidden_states` 1 or 2).
double llama_logits_bytes(double rows, double vocab, double hidden, double hidden_states);
/// Inputs that the host holds for the GPU: the attention masks of `masked` cached tokens, in `mask_bytes` an
/// entry, and hidden states of the micro-batch.
double llama_host_bytes(double masked, double micro_batch, double mask_bytes, double hidden,
                        double hidden_states);
/// Scores of all heads, where there is no flash attention.
double llama_score_bytes(double cached, double heads, double micro_batch);
/// Tokens that the cache of layers with a window has room for (llama_kv_cache_iswa): the window and what a
/// micro-batch adds, in whole 256s, never more than `context`.
double llama_window_tokens(double window, double micro_batch, double context);

}  // namespace moelab
