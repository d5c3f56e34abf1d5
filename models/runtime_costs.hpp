// What software costs apart from the machine, as numbers: what the timing model charges.
#pragma once

#include <algorithm>

namespace moelab {

/// Shares are of the data sheet's figures; with a profile that says what is achieved they are 1. Times in
/// seconds.
struct RuntimeCosts {
  double slowdown = 1;  // of the GPU's kernels beside those that its constants describe: launches, arithmetic
  double launch = 0;    // one kernel for one token on the GPU, with what stands idle around it
  double launch_batched = 0;       // one for several tokens: runtimes replay graphs of kernels for one alone
  double eager_layer = 0;          // at least, a layer's attention where prompts run: launched one by one
  double step = 0;                 // one step: scheduling, sampling
  double activation_bytes = 0;     // that a kernel for several tokens moves, by token and hidden value
  double dense_bandwidth = 1;      // of the GPU's memory: attention, dense and shared matrices, head
  double expert_bandwidth = 1;     // of the GPU's memory: experts for one token
  double batched_bandwidth = 1;    // of the GPU's memory: experts for several tokens
  double attention_bandwidth = 1;  // of the GPU's memory: keys and values
  double dense_peak = 1;           // of the GPU's peak
  double expert_peak = 1;          // of the GPU's peak, where each expert has many tokens
  double expert_tokens = 0;        // an expert, at which its products reach half of that
  double gpu_bytes = 0;            // 1: it has the GPU's 8-bit products for quantised weights, 0: it has not
  double attention_peak = 1;       // of the GPU's peak: scores and weighted values
  double recurrence_peak = 1;      // of the GPU's peak: updates of states (linear attention, Mamba-2)
  double overlap = 1;        // of experts for several tokens, 1: memory and arithmetic at once; 0: one by one
  double dense_overlap = 1;  // of dense products for several tokens, likewise
  double mixed_tile = 1;  // rows that attention computes for a row that decodes beside rows of a prompt: its
                          // kernel for prompts works by tiles of query rows
  double request = 0;     // of each request that gets a token from a step: sampling, bookkeeping
  double all_reduce_bandwidth = 0;  // of the link's rate: sums over GPUs; 0: half of what copies get
  double peer_bandwidth = 1;        // of the rate between GPUs that have links of their own: a ring's sums
  double cpu_bandwidth = 1;    // of the host's memory, one socket of 90 GB/s or less: what the CPU computes
  double cpu_doubling = 1;     // of that share, what is left of it at each doubling of a socket's bandwidth
  double second_socket = 1;    // bandwidth and arithmetic of two sockets, as a share of twice one's
  double cpu_peak = 1;         // of FP32 arithmetic of all cores, for several tokens
  double cpu_bytes = 0;        // 1: it has the CPU's instructions for 8-bit products (VNNI), 0: it has not
  double cpu_layer = 0;        // handing one layer's experts to the CPU and back
  double cpu_launch = 0;       // one kernel where the CPU computes everything
  double link = 1;             // of the link's rate: experts that a prompt has copied to the GPU
  double stream_from = 0;      // tokens of a batch from which on experts are copied so; 0: never
  double micro_batch = 512;    // tokens of a prompt that go through the layers at once
  double all_reduce = 0;       // one sum over GPUs; there are two a layer
  double peer_all_reduce = 0;  // likewise, of four GPUs that have links of their own; 0: all_reduce
  double tensor_parallel = 0;  // 1: several GPUs share each layer; 0: each has layers of its own
  double bias_kernels = 0;  // 1: each addition of a bias, in a step of one token, is a kernel of its own; 0:
                            // part of the product
  double bias_kernels_batched = 0;  // likewise in a step of several tokens
  double gpu_reserve = 0;           // bytes that context, driver and workspaces take of a GPU
  double expert_host = 0;           // of the host: each expert of a layer that ran, when all of them have
  double call = 0;                  // of the host: one message to another server, before it goes
  double launch_each = 0;           // 1: kernels of their own for each expert; 0: one product for a layer's

  // Memory by llama.cpp's rules (models/llama_memory.hpp), where mask_bytes is not 0.
  double mask_bytes = 0;      // of an attention mask's entry: 2; 4 before llama.cpp's pull request 23764
  double logits_rows = 0;     // 1: logits of a whole micro-batch are reserved; 0: of the sequences alone
  double kv_copy = 0;         // 1: quantised keys and values of one layer are copied in 16 bits
  double hidden_states = 0;   // that live at once while a layer is computed
  double expert_outputs = 0;  // of all chosen experts, that live at once
  double input_copies = 0;    // on each of several GPUs that work one behind the other
  double gpu_context = 0;     // bytes of driver, libraries and pools on each GPU

  bool operator==(const RuntimeCosts&) const = default;

  /// Seconds of one kernel of the GPU whose rows are `rows` hidden states of `hidden` values, beside the
  /// weights that it reads and what it computes on them. `single`: in a step of one token.
  double kernel_s(bool single, double rows, double hidden, double gpu_bytes_per_second) const {
    if (single) return launch;
    const double moved = activation_bytes * rows * hidden / (gpu_bytes_per_second * dense_bandwidth);
    return moved > launch_batched ? moved : launch_batched;
  }

  /// Launches of `kernels` products and what else there is, and of `biases` additions. `single`: as above.
  double launches(double kernels, double biases, bool single) const {
    return kernels + (single ? bias_kernels : bias_kernels_batched) * biases;
  }

  /// Seconds of grouped products of several tokens: memory and arithmetic at once, one by one, or between.
  double overlapped(double memory_s, double arithmetic_s) const {
    return overlapped(memory_s, arithmetic_s, overlap);
  }
  static double overlapped(double memory_s, double arithmetic_s, double share) {
    const auto [less, more] = std::minmax(memory_s, arithmetic_s);
    return more + (1 - share) * less;
  }

  /// Of the rates of one CPU socket times their number, what is achieved.
  double share_of_sockets(int sockets) const { return sockets > 1 ? second_socket : 1; }
  /// Of a CPU socket's bandwidth, what is left of a share of smaller ones.
  double share_at(double socket_bytes_per_second) const;
  /// Whether buffers are by llama.cpp's rules; else gpu_reserve stands for all of them.
  bool has_buffers() const { return mask_bytes > 0; }

  /// For a machine whose profile says what products of matrices achieve of its rates, whatever the software:
  /// times, and how much slower than products attention computes.
  RuntimeCosts times_alone() const;
};

}  // namespace moelab
