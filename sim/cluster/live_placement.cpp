#include "sim/cluster/live_placement.hpp"

#include <algorithm>

#include "sim/engine/invariant.hpp"

namespace moelab {

LivePlacement::LivePlacement(const PlacementShape& shape, Placement start)
    : shape_(shape), placement_(std::move(start)), calls_(placement_.gpus()) {
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer)
    for (std::uint32_t expert = 0; expert < shape.experts; ++expert)
      if (placement_.copies(layer, expert) == 0) ++uncovered_;
}

void LivePlacement::arrive(std::uint32_t gpu, std::uint32_t layer, std::uint32_t expert) {
  engine::check_invariant(!placement_.on_gpu(gpu, layer, expert), "an expert comes once to a GPU");
  if (placement_.copies(layer, expert) == 0) --uncovered_;
  placement_.place(gpu, layer, expert);
}

void LivePlacement::leave(std::uint32_t gpu, std::uint32_t layer, std::uint32_t expert) {
  engine::check_invariant(placement_.on_gpu(gpu, layer, expert), "an expert leaves where it is");
  placement_.remove(gpu, layer, expert);
  if (placement_.copies(layer, expert) == 0) ++uncovered_;
}

void LivePlacement::clear(std::uint32_t server) {
  const std::uint32_t first = placement_.first_gpu(server);
  const std::uint32_t gpus = static_cast<std::uint32_t>(shape_.servers[server].gpu_bytes.size());
  for (std::uint32_t gpu = first; gpu < first + gpus; ++gpu)
    for (std::uint32_t layer = 0; layer < shape_.layers; ++layer)
      for (std::uint32_t expert = 0; expert < shape_.experts; ++expert)
        if (placement_.on_gpu(gpu, layer, expert)) leave(gpu, layer, expert);
}

void LivePlacement::end_call(std::uint32_t gpu, LabelledGraph& call) {
  std::vector<LabelledGraph*>& calls = calls_[gpu];
  const auto found = std::find(calls.begin(), calls.end(), &call);
  engine::check_invariant(found != calls.end(), "a call ends once");
  *found = calls.back();
  calls.pop_back();
}

}  // namespace moelab
