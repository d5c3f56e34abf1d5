#include "hw/validate/window_record.hpp"

#include <algorithm>

namespace moelab {
namespace {

std::string name_of(const WindowEvent& event) {
  const std::string layer = " MoE layer " + std::to_string(event.layer);
  if (event.what == WindowEvent::What::load)
    return "load" + layer + " into half " + std::to_string(event.half);
  return (event.what == WindowEvent::What::compute ? "compute" : "release") + layer;
}

/// Plain bytes of one expert; of one tensor type of it, where `type` is given.
std::uint64_t expert_bytes_of(const ExpertWeights& weights, std::optional<std::uint16_t> type) {
  std::uint64_t bytes = 0;
  for (std::uint32_t kind = 0; kind < weights.kinds.size(); ++kind)
    if (!type || (kind + 1 < weights.kinds.size() ? 0 : 1) == *type)
      bytes += 2 * weights.kinds[kind].elements();
  return bytes;
}

std::uint64_t experts_on(const engine::StoredExperts& stored, std::uint32_t layer, std::size_t backend) {
  const auto first = stored.places.begin() + static_cast<std::ptrdiff_t>(std::size_t{layer} * stored.experts);
  return static_cast<std::uint64_t>(std::count(first, first + stored.experts, backend));
}

}  // namespace

void WindowRecord::store(const engine::StoredExperts& experts) {
  stored_ = experts;
  if (next_ != nullptr) next_->store(experts);
}

void WindowRecord::load(std::uint32_t layer, std::uint32_t half) {
  events_.push_back({WindowEvent::What::load, layer, half});
  if (next_ != nullptr) next_->load(layer, half);
}

void WindowRecord::compute(std::uint32_t layer, std::span<const std::uint32_t> tokens) {
  events_.push_back({WindowEvent::What::compute, layer, 0, {tokens.begin(), tokens.end()}});
  if (next_ != nullptr) next_->compute(layer, tokens);
}

void WindowRecord::release(std::uint32_t layer) {
  events_.push_back({WindowEvent::What::release, layer});
  if (next_ != nullptr) next_->release(layer);
}

std::vector<std::uint32_t> WindowRecord::unused() const {
  std::vector<std::uint32_t> layers;
  for (const WindowEvent& event : events_) {
    if (event.what == WindowEvent::What::load) layers.push_back(event.layer);
    if (event.what == WindowEvent::What::release) std::erase(layers, event.layer);
  }
  return layers;
}

std::optional<std::string> first_difference(const WindowRecord& predicted, const WindowRecord& measured) {
  if (predicted.stored().places != measured.stored().places) return "experts lie on other backends";
  const std::vector<WindowEvent>&one = predicted.events(), &other = measured.events();
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i)
    if (one[i] != other[i])
      return "the simulator's window is to " + name_of(one[i]) + ", the one on hardware to " +
             name_of(other[i]) + (name_of(one[i]) == name_of(other[i]) ? " for other tokens" : "");
  if (one.size() == other.size()) return std::nullopt;
  return std::to_string(one.size()) + " times the window changes or computes in the simulator, " +
         std::to_string(other.size()) + " on hardware";
}

StreamedBytes streamed_bytes_named(const RunRecord& run, const WindowRecord& window,
                                   const ExpertWeights& weights) {
  StreamedBytes bytes;
  for (const RecordedGraph& graph : run.graphs())
    for (const RecordedOperation& operation : graph.operations) {
      const OpLabel& label = operation.label;
      if (label.kind != OpKind::load && label.kind != OpKind::decode) continue;
      (label.kind == OpKind::load ? bytes.loaded : bytes.decoded) +=
          experts_on(window.stored(), graph.moe_layer, label.backend) *
          expert_bytes_of(weights, label.tensor);
    }
  return bytes;
}

StreamedBytes streamed_bytes_of(std::uint32_t layer, const WindowRecord& window,
                                const ExpertWeights& weights) {
  StreamedBytes bytes;
  const engine::StoredExperts& stored = window.stored();
  for (std::size_t k = 0; k < stored.backends.size(); ++k) {
    if (stored.backends[k] == "resident") continue;
    (stored.backends[k] == "host" ? bytes.loaded : bytes.decoded) +=
        experts_on(stored, layer, k) * expert_bytes_of(weights, std::nullopt);
  }
  return bytes;
}

}  // namespace moelab
