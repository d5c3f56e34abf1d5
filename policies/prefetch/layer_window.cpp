// Whole layers through a sliding window, whatever the gates say.
//
//   after the gate of layer l:
//     for each layer m of l+1 .. l+depth that this step has not wished yet, nearest first:
//       wish every expert of m, in expert order
//
// Source: DeepSpeed ZeRO-3 / ZeRO-Infinity (Rajbhandari et al. 2021, arXiv 2104.07857), the parameter
// coordinator of its code. A recorded forward pass gives the order of parameters; as each module runs, the
// parameters that come next are fetched until `prefetch_bucket_size` elements are asked for or
// `max_live_parameters` are held. An MoE layer is one unit there (a "leaf module"), since the order of its
// experts differs from pass to pass and would invalidate the recording: so all its experts are fetched.
//
// Deviations:
// - `depth` counts layers; there it is min(bucket, max live - live) elements, which is depth * experts *
//   elements of an expert for equal layers. How much is held at once is the cache's affair here.
// - `wrap` 0 (default) is what the code does: the queue is refilled from the start of the recording at the
// end
//   of every forward pass, so a pass never fetches for the next one and its first layers are always demanded.
//   `wrap` 1 closes the ring, as a decode loop allows: the last layers wish the first ones of the next step,
//   and what was wished for it is not wished again once it begins.
#include <algorithm>
#include <cassert>

#include "policies/checked_parameter.hpp"
#include "policies/prefetch/prefetch.hpp"

namespace moelab {
namespace {

class LayerWindow final : public PrefetchPolicy {
 public:
  LayerWindow(const PrefetchShape& shape, std::uint32_t depth, bool wrap)
      : shape_(shape), depth_(std::min(depth, shape.layers - 1)), wrap_(wrap) {}

  void begin_step() override { wished_ = wished_ > shape_.layers ? wished_ - shape_.layers : 0; }

  void after_gate(std::uint32_t layer, std::span<const ExpertUse>, std::vector<Fetch>& fetches) override {
    assert(layer < shape_.layers);
    const std::uint32_t end = wrap_ ? layer + depth_ + 1 : std::min(layer + depth_ + 1, shape_.layers);
    for (std::uint32_t m = std::max(layer + 1, wished_); m < end; ++m)
      for (std::uint32_t expert = 0; expert < shape_.experts; ++expert)
        fetches.push_back({m % shape_.layers, expert});
    wished_ = std::max(wished_, end);
  }

 private:
  const PrefetchShape shape_;
  const std::uint32_t depth_;  // below the number of layers: the running layer is never in its own window
  const bool wrap_;
  std::uint32_t wished_ = 0;  // layers below this one are wished; from shape_.layers on, of the next step
};

PolicyInfo layer_window_info() {
  return {.name = "layer-window",
          .help = "all experts of the next `depth` MoE layers",
          .source = "DeepSpeed ZeRO-3 / ZeRO-Infinity (arXiv 2104.07857)",
          .parameters = {{.name = "depth",
                          .unit = "layers",
                          .default_value = 1,
                          .low = 0,
                          .high = 1e6,
                          .help = "how many layers ahead of the running one the window reaches"},
                         {.name = "wrap",
                          .unit = "",
                          .default_value = 0,
                          .low = 0,
                          .high = 1,
                          .help = "1: the window runs on into the next step's first layers"}}};
}

std::unique_ptr<PrefetchPolicy> make_layer_window(const PrefetchShape& shape,
                                                  const PolicyParameters& parameters) {
  assert(shape.layers > 0);
  const PolicyInfo info = layer_window_info();
  return std::make_unique<LayerWindow>(shape, checked_count(info, parameters, "depth"),
                                       checked_count(info, parameters, "wrap") != 0);
}

}  // namespace

PrefetchPolicyEntry layer_window_entry() {
  return {.info = layer_window_info(), .make = make_layer_window};
}

}  // namespace moelab
