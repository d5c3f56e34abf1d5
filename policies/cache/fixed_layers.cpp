// fixed-layers: all experts of some layers are on the GPU, those of the others are not; never changes.
//
//   held = layer by layer, from the last one down (`from_last` 1) or from the first one up (0), each whole,
//          while the next one fits
//
// Sources:
// - llama.cpp (ggml-org/llama.cpp), option --n-cpu-moe N: "keep the Mixture of Experts (MoE) weights of the
//   first N layers in the CPU"; with all layers else on the GPU, the experts of the others are there. Here N
//   is the least for which these fit. Layers without experts, which N counts too, are on the GPU.
// - Hugging Face Accelerate, device_map="auto": modules go to the GPU in their order until it is full, then
//   to host memory; a model's no-split modules, its decoder layers, are not taken apart: `from_last` 0.
//   It places a layer's attention with its experts: here that is always on the GPU.
// `partial` 1 fills what is left with the first experts of the next layer in order. llama.cpp keeps the
// experts of a layer in one tensor a matrix, and Accelerate does not split layers: both have 0.
#include <cassert>

#include "policies/cache/cache.hpp"
#include "policies/cache/fixed_set.hpp"
#include "policies/checked_parameter.hpp"

namespace moelab {
namespace {

PolicyInfo fixed_layers_info() {
  return {.name = "fixed-layers",
          .help = "all experts of as many layers as fit are there from the start; nothing ever changes",
          .source = "llama.cpp, option --n-cpu-moe; Hugging Face Accelerate, device_map=\"auto\"",
          .parameters = {{.name = "from_last",
                          .unit = "",
                          .default_value = 1,
                          .low = 0,
                          .high = 1,
                          .help = "1: the last layers, 0: the first ones"},
                         {.name = "partial",
                          .unit = "",
                          .default_value = 0,
                          .low = 0,
                          .high = 1,
                          .help = "1: what is left holds a part of the next layer's experts"}}};
}

std::unique_ptr<CachePolicy> make_fixed_layers(const CacheShape& shape, const PolicyParameters& parameters) {
  const PolicyInfo info = fixed_layers_info();
  const bool from_last = checked_count(info, parameters, "from_last") != 0;
  const bool partial = checked_count(info, parameters, "partial") != 0;
  assert(shape.layers > 0 && shape.objects % shape.layers == 0);
  const std::uint32_t experts = shape.objects / shape.layers;
  std::uint32_t held =
      experts_that_fit(shape.capacity_bytes, shape.bytes[index(shape.kept_as)], shape.objects);
  if (!partial && experts > 0) held -= held % experts;
  std::vector<std::uint32_t> objects;
  for (std::uint32_t i = 0; i < held; ++i) {
    const std::uint32_t layer = i / experts;
    objects.push_back((from_last ? shape.layers - 1 - layer : layer) * experts + i % experts);
  }
  return std::make_unique<FixedSet>(shape, objects);
}

}  // namespace

CachePolicyEntry fixed_layers_entry() {
  return {.info = fixed_layers_info(), .per_model = true, .preloads = true, .make = make_fixed_layers};
}

}  // namespace moelab
