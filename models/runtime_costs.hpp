// What software costs apart from the machine, as numbers: what the timing model charges.
#pragma once

namespace moelab {

/// Shares are of the data sheet's figures; with a profile that says what is achieved they are 1. Times in
/// seconds.
struct RuntimeCosts {
  double launch = 0;               // one kernel on the GPU, with what stands idle around it
  double step = 0;                 // one step: scheduling, sampling
  double dense_bandwidth = 1;      // of the GPU's memory: attention, dense and shared matrices, head
  double expert_bandwidth = 1;     // of the GPU's memory: experts for one token
  double batched_bandwidth = 1;    // of the GPU's memory: experts for several tokens
  double attention_bandwidth = 1;  // of the GPU's memory: keys and values
  double dense_peak = 1;           // of the GPU's peak
  double expert_peak = 1;
  double attention_peak = 1;
  double overlap = 1;        // of experts for several tokens, 1: memory and arithmetic at once; 0: one by one
  double cpu_bandwidth = 1;  // of the host's memory, one socket: what the CPU computes
  double second_socket = 1;  // bandwidth and arithmetic of two sockets, as a share of twice one's
  double cpu_peak = 1;       // of FP32 arithmetic of all cores, for several tokens
  double cpu_layer = 0;      // handing one layer's experts to the CPU and back
  double cpu_launch = 0;     // one kernel where the CPU computes everything
  double link = 1;           // of the link's rate: experts that a prompt has copied to the GPU
  double stream_from = 0;    // tokens of a batch from which on experts are copied so; 0: never
  double micro_batch = 512;  // tokens of a prompt that go through the layers at once
  double all_reduce = 0;     // one sum over GPUs; there are two a layer
  double tensor_parallel = 0;  // 1: several GPUs share each layer; 0: each has layers of its own
  double bias_kernels = 0;     // 1: each addition of a bias is a kernel of its own; 0: part of the product
  double gpu_reserve = 0;      // bytes that context, driver and workspaces take of a GPU
  double expert_host = 0;      // of the host: each expert of a layer that ran, when all of them have
  double call = 0;             // of the host: one message to another server, before it goes
  double launch_each = 0;      // 1: kernels of their own for each expert; 0: one product for a layer's

  bool operator==(const RuntimeCosts&) const = default;

  /// For a machine whose profile says what is achieved of its rates, whatever the software: times alone.
  RuntimeCosts times_alone() const;
};

}  // namespace moelab
