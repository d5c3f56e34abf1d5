// What a runtime costs apart from the machine: launches, synchronisation, and which share of a data sheet's
// bandwidth and peak its kernels get (configs/runtimes/*.yaml).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/device.hpp"

namespace moelab {

class YamlMap;

/// Shares are of the data sheet's figures. Times in seconds.
struct Runtime : SourcedNumbers {
  std::string name;      // "llama.cpp-cuda"
  std::string title;     // "llama.cpp (CUDA)"
  std::string based_on;  // the runtime whose constants it takes where it has none of its own; empty: none

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

  /// What Runtime's constants are called in files, their unit and what they mean.
  struct Constant {
    std::string_view name;
    double Runtime::*value;
    enum class Unit { share, seconds, count, bytes } unit;
    double low, high;
    std::string_view what;
  };
  static std::span<const Constant> constants();
  /// Constants of its own that were fitted to published runs (their source is called `world`), not taken from
  /// elsewhere.
  std::vector<const Constant*> fitted() const;
  std::vector<std::string> own;             // names of the constants that its own file gives
  std::vector<std::string> sources_of_own;  // by those, the keys of their sources
};

Runtime read_runtime(const YamlMap& root);
/// By name or path, through the configuration store. Throws InputError.
Runtime load_runtime(std::string_view name);

}  // namespace moelab
