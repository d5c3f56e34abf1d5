// What each of several GPUs holds of a model: slices of every layer, or layers of its own.
#pragma once

#include <vector>

#include "models/serving_estimate.hpp"

namespace moelab {

/// Bytes of all GPUs are in `memory`, with keys and values of `tokens`.
struct GpuShares {
  double most = 0;  // bytes on the GPU that has most of them
  std::vector<int>
      layers;  // of each, where it has layers of its own: llama.cpp's -ts; the head counts as one
};

/// On `gpus` GPUs. Layers of their own are shared out in their order so that the fullest GPU has least.
GpuShares gpu_shares(const Architecture& model, const Runtime& runtime, const Split& split,
                     const SplitMemory& memory, int gpus, double tokens, double sequences);

}  // namespace moelab
