#include "sim/advise/gpu_shares.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "models/tensor_parallel.hpp"

namespace moelab {
namespace {

/// Bytes on the GPUs of each layer with its keys and values, and of the head with what else there is.
std::vector<double> layer_sizes(const Architecture& model, const Split& split, const SplitMemory& memory,
                                double tokens, double sequences) {
  std::vector<double> sizes, kv;
  int moe_number = 0, number = 0;
  for (const Layer& layer : model.layers) {
    const bool in_host = split.in_host(number++);
    double bytes = in_host ? 0 : layer_non_routed_bytes(model, layer).value();
    if (layer.feed_forward.kind == FeedForward::Kind::moe) {
      const bool on_cpu = moe_number++ < split.cpu_expert_layers;
      if (!in_host && !on_cpu)
        bytes += split.gpu_expert_share * layer.feed_forward.experts * expert_bytes(model).value();
    }
    sizes.push_back(bytes);
    kv.push_back(number > split.cpu_layers ? kept_bytes(model, layer.attention, tokens, sequences) : 0);
  }
  const double weights = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  const double kept = std::accumulate(kv.begin(), kv.end(), 0.0);
  for (std::size_t i = 0; i < kv.size() && kept > 0; ++i) sizes[i] += memory.gpu_kv * kv[i] / kept;
  sizes.push_back(std::max(0.0, memory.gpu_weights - weights));
  return sizes;
}

/// Layers of each GPU where none takes more than `most` bytes, as many on each as fit; more GPUs than `gpus`
/// where they do not do.
std::vector<int> dealt(const std::vector<double>& sizes, double most) {
  std::vector<int> counts{0};
  double there = 0;
  for (const double size : sizes) {
    if (there + size > most && counts.back() > 0) {
      counts.push_back(0);
      there = 0;
    }
    there += size;
    ++counts.back();
  }
  return counts;
}

/// What each GPU has as much of as the next.
double others(const SplitMemory& memory) {
  return memory.gpu_compute + memory.gpu_context + memory.gpu_reserve;
}

/// The most bytes of a GPU, where that is least.
double least_most(const std::vector<double>& sizes, int gpus) {
  double low = *std::max_element(sizes.begin(), sizes.end());
  double high = std::accumulate(sizes.begin(), sizes.end(), 0.0) * (1 + 1e-9);
  const auto enough = [&](double most) {
    return dealt(sizes, most).size() <= static_cast<std::size_t>(gpus);
  };
  if (enough(low)) return low;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace

GpuShares gpu_shares(const Architecture& model, const Runtime& runtime, const Split& split,
                     const SplitMemory& memory, int gpus, double tokens, double sequences) {
  if (gpus <= 1 || split.cpu_only) return {memory.gpu(), {}};
  GpuShares shares;
  if (runtime.tensor_parallel > 0) {
    // Keys and values of fewer heads than GPUs are on each of them.
    const Architecture part = tensor_parallel_part(model, gpus);
    const double kv =
        kv_bytes_per_token(part).value() * tokens + state_bytes_per_request(part).value() * sequences;
    shares.most = (memory.gpu_weights + others(memory)) / gpus + kv;
    return shares;
  }
  const std::vector<double> sizes = layer_sizes(model, split, memory, tokens, sequences);
  const double most = least_most(sizes, gpus);
  shares.layers = dealt(sizes, most);
  shares.layers.resize(static_cast<std::size_t>(gpus));
  shares.most = most + others(memory) / gpus;
  return shares;
}

}  // namespace moelab
