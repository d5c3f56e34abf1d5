// How long a step takes where it is settled before a run which parts of a model lie and are computed where:
// the closed form of what llama.cpp, vLLM, KTransformers and their like do. What a cache decides as it runs,
// sim/ simulates.
//
// A step is the sum over its layers of what each part of a layer takes: on a GPU max(FLOPs / peak, bytes /
// bandwidth) with the runtime's shares of the data sheet's figures, and so much a kernel launch; experts of
// several tokens in one grouped product, of which the weights of each distinct expert are read once. n tokens
// that choose k of E experts are taken to touch E (1 - (1 - k / E)^m) distinct ones, m = n^0.8: as many as
// fewer tokens would that choose evenly and each for itself, since tokens have preferences in common (0.8 is
// assumed).
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "models/architecture.hpp"
#include "models/llama_memory.hpp"
#include "models/machine_parts.hpp"
#include "models/runtime.hpp"

namespace moelab {

/// What lies and is computed where.
struct Split {
  bool cpu_only = false;
  int cpu_expert_layers = 0;    // the experts of so many MoE layers, the first, on the CPU
  double gpu_expert_share = 1;  // of the experts of each other MoE layer, on the GPU; the rest on the CPU
  int cpu_layers = 0;           // so many layers, the first, whole on the CPU, their keys and values too
  int link_layers = 0;  // so many layers, the first, computed by the GPU from weights in the host's memory:
                        // every pass loads them whole over the link
  /// Whether a layer's weights all lie in the host's memory.
  bool in_host(int layer) const { return layer < std::max(cpu_layers, link_layers); }
  bool operator==(const Split&) const = default;
};

/// Seconds of one step by what takes them.
struct StepEstimate {
  double gpu_memory =
      0;  // weights that come from the GPU's memory, where that takes longer than their arithmetic
  double gpu_products = 0;  // the GPU's arithmetic with weights, where that takes longer
  double attention = 0;     // keys and values, scores
  double launches = 0;      // of kernels, and the runtime's own time a step
  double cpu = 0;           // what the CPU computes, beyond what the GPU does meanwhile
  double handing_over = 0;  // between GPU and CPU
  double copies = 0;        // of weights to the GPU, beyond what it computes meanwhile
  double reduces = 0;       // sums over GPUs

  StepEstimate& operator+=(const StepEstimate& more);
  StepEstimate& operator*=(double factor);
  double total() const {
    return gpu_memory + gpu_products + attention + launches + cpu + handing_over + copies + reduces;
  }
  /// The largest part, as a phrase: "attention", "sums over GPUs", ...
  std::string bound() const;
  /// The same in a word or two: "GPU memory", "launches", ...
  std::string bound_word() const;
};

/// Memory that a split takes. Bytes of all GPUs together, and of the host.
struct SplitMemory {
  double gpu_weights = 0;
  double gpu_experts = 0;  // of gpu_weights, those of routed experts
  double gpu_kv = 0;       // keys and values, states of linear attention
  double gpu_compute = 0;  // compute buffers
  double gpu_context = 0;  // driver, libraries and pools, which no log of the runtime accounts for
  double gpu_reserve = 0;  // of a runtime without a law for the two above, instead of them
  double host = 0;         // weights; with nothing on the GPU the caches too
  double host_compute = 0;
  double gpu() const { return gpu_weights + gpu_kv + gpu_compute + gpu_context + gpu_reserve; }
  double host_total() const { return host + host_compute; }
};

class ServingEstimate {
 public:
  /// Keeps references to the first two.
  ServingEstimate(const Architecture& model, const MachineParts& machine, const Runtime& runtime,
                  const Split& split);

  /// One token for each of `sequences`, each of which attends to `context` tokens.
  StepEstimate decode(double sequences, double context) const;
  /// A prompt of so many tokens alone, in the runtime's micro-batches or in those of `micro_batch` tokens,
  /// behind `before` tokens whose keys and values are there.
  StepEstimate prompt(double tokens, std::optional<double> micro_batch = {}, double before = 0) const;
  /// With the keys and values of `tokens` in all sequences together. Options beside the sequences count for
  /// runtimes with a law for their buffers alone (RuntimeCosts::has_buffers).
  SplitMemory memory(double tokens, const LoadOptions& options = {}) const;
  /// Why the machine cannot do it: no GPU, not enough memory; empty where it can.
  std::string impossible(double tokens, const LoadOptions& options = {}) const;

 private:
  struct Pass {
    double tokens, context, queries_per_read;
    bool prompt;
  };
  /// Layers that are alike, of whose experts the same share is on the CPU, and that lie in the same place.
  struct Kind {
    const Layer* layer;
    double on_cpu;
    bool of_cpu, of_link;  // of cpu_layers, of link_layers
    int count;
  };
  /// Where a layer is computed, and from where: `link` is on the GPU, from the host's memory.
  enum class Place { gpu, cpu, link };
  Place place_of(const Kind& kind, const Pass& pass) const;
  void add_pass(const Pass& pass, StepEstimate& out) const;
  void add_layer(const Kind& kind, const Pass& pass, StepEstimate& out) const;
  void add_experts(const Kind& kind, Place place, const Pass& pass, StepEstimate& out) const;
  void add_gpu_experts(const FeedForward& ff, double copied, const Pass& pass, StepEstimate& out) const;
  void add_work(const Work& work, double tokens, Place place, StepEstimate& out) const;
  /// The GPU's work with weights: seconds, and which part of a step they count to.
  struct Computed {
    double seconds = 0;
    double StepEstimate::*bound = &StepEstimate::gpu_memory;
  };
  Computed gpu_experts(const FeedForward& ff, double distinct, double pairs, bool single) const;
  double cpu_experts_s(const FeedForward& ff, double distinct, double pairs) const;
  double kernel_s(bool single, double rows) const;
  double cpu_share_of(int moe_number) const;
  bool experts_on_host() const;
  double kv_share_of_cpu(double tokens, double sequences) const;
  LlamaPlacement llama_placement(double micro_batch) const;
  void add_weights(SplitMemory& out) const;
  void add_llama_buffers(double tokens, const LoadOptions& options, SplitMemory& out) const;
  int ranks() const;  // GPUs that share a layer

  const Architecture& model_;
  const MachineParts& machine_;
  RuntimeCosts runtime_;  // on this machine
  Split split_;
  std::vector<Kind> kinds_;
  Curve all_reduce_;  // of the GPUs that share a layer, where there are several
  double gpu_bandwidth_ = 0, gpu_peak_ = 0, link_ = 0;  // of the GPUs that share a layer
  double cpu_bandwidth_ = 0, cpu_peak_ = 0;             // as the runtime gets them
};

}  // namespace moelab
