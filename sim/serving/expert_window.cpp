#include "sim/serving/expert_window.hpp"

#include <algorithm>
#include <cmath>

#include "sim/engine/invariant.hpp"
#include "sim/serving/expert_load.hpp"

namespace moelab {

using engine::OpIndex;

ExpertWindow::ExpertWindow(engine::Engine& engine, const PagedResources& resources, const TimingModel& timing,
                           const PagedPlan& plan, int matrices, int ranks, engine::WindowMirror* mirror)
    : engine_(engine),
      resources_(resources),
      timing_(timing),
      plan_(plan),
      ranks_(ranks),
      mirror_(mirror),
      type_share_{(matrices - 1.0) / matrices, 1.0 / matrices},
      halves_{Half(resources.gpus.size()), Half(resources.gpus.size())} {}

bool ExpertWindow::streams(const StorageSplit& split, std::uint32_t layer) const {
  return split.load_seconds(layer) > 0;
}

const ExpertWindow::Half* ExpertWindow::find(std::uint32_t layer) const {
  for (const Half& half : halves_)
    if (half.layer == layer) return &half;
  return nullptr;
}

void ExpertWindow::load(const StorageSplit& split, std::uint32_t layer, ServingCounts& counts) {
  engine::check_invariant(find(layer) == nullptr, "a layer's pages are mapped twice");
  Half& half = halves_[0].layer == kFree ? halves_[0] : halves_[1];
  engine::check_invariant(half.layer == kFree && half.read_until <= engine_.now(),
                          "a load into blocks that are still read");
  half.layer = layer;
  half.dropped = 0;
  if (mirror_ != nullptr) mirror_->load(layer, &half == &halves_[0] ? 0 : 1);
  for (std::size_t gpu = 0; gpu < half.graphs.size(); ++gpu) {
    LabelledGraph& graph = half.graphs[gpu];
    graph.clear();
    graph.layer = layer;
    for (std::uint16_t type = 0; type < type_share_.size(); ++type) add_type(split, half, gpu, type);
    engine_.submit(graph.graph, engine::kPrefetch);
  }
  count(split, layer, counts);
}

/// Bytes of one GPU.
void ExpertWindow::count(const StorageSplit& split, std::uint32_t layer, ServingCounts& counts) const {
  const StorageShape& shape = split.shape();
  for (const double share : type_share_)
    for (std::size_t k = 0; k < shape.backends.size(); ++k) {
      const Bytes bytes(split.experts(layer, k) * shape.expert_bytes * share);
      if (bytes == Bytes(0) || std::isinf(shape.backends[k].bytes_per_second)) continue;
      (plan_.codecs[k] != nullptr ? counts.decoded_bytes : counts.loaded_bytes) += bytes.value();
      if (plan_.on_ssd[k]) counts.ssd_bytes += bytes.value();
    }
}

void ExpertWindow::add_type(const StorageSplit& split, Half& half, std::size_t gpu, std::uint16_t type) {
  const StorageShape& shape = split.shape();
  const double share = type_share_[type];
  LabelledGraph& out = half.graphs[gpu];
  double streamed = 0;
  for (std::size_t k = 0; k < shape.backends.size(); ++k)
    if (std::isfinite(shape.backends[k].bytes_per_second)) streamed += split.experts(half.layer, k);
  const Bytes window(streamed * shape.expert_bytes * share);
  OpIndex mapped = engine::kNoOp;
  if (const double seconds = timing_.remap(window).value(); seconds > 0) {
    mapped =
        out.graph.add(out.graph.lane(resources_.gpus[gpu].pager), seconds + timing_.copy_hand_over().value());
    out.labels.push_back({OpKind::remap, Tier::none, type});
  }
  for (std::size_t k = 0; k < shape.backends.size(); ++k) {
    const Bytes bytes(split.experts(half.layer, k) * shape.expert_bytes * share);
    if (bytes == Bytes(0) || std::isinf(shape.backends[k].bytes_per_second)) continue;
    add_backend(out, gpu, k, bytes, mapped, type);
  }
}

void ExpertWindow::add_backend(LabelledGraph& out, std::size_t gpu, std::size_t backend, Bytes bytes,
                               OpIndex after, std::uint16_t type) {
  const GpuCodecProfile* const codec = plan_.codecs[backend];
  if (codec == nullptr) {
    const ExpertLoad load{.bytes = bytes,
                          .from_ssd = plan_.on_ssd[backend],
                          .tensor = type,
                          .backend = static_cast<std::uint16_t>(backend)};
    add_expert_load(out, load, resources_, gpu, timing_, ranks_, after);
    return;
  }
  engine::Graph& graph = out.graph;
  const double seconds = timing_.decode(*codec, bytes).value();
  const PagedGpu& r = resources_.gpus[gpu];
  const OpIndex op = graph.add(graph.lane(r.decode), seconds + timing_.copy_hand_over().value());
  if (r.memory != engine::kNoCapacity)
    graph.share(op, r.memory, seconds, bytes.value() * (1 + codec->ratio.value));
  if (r.cpu != engine::kNoCapacity) graph.share(op, r.cpu, seconds);
  out.labels.push_back(
      {.kind = OpKind::decode, .tensor = type, .backend = static_cast<std::uint16_t>(backend)});
  if (after != engine::kNoOp) graph.depend(op, after);
}

ExpertWindow::Half& ExpertWindow::half_of(std::uint32_t layer) {
  Half& half = halves_[0].layer == layer ? halves_[0] : halves_[1];
  engine::check_invariant(half.layer == layer, "a layer computes whose pages are not mapped");
  return half;
}

LabelledGraph& ExpertWindow::loading(std::uint32_t layer, std::size_t gpu) {
  return half_of(layer).graphs[gpu];
}

void ExpertWindow::release(std::uint32_t layer, double started, double ended, std::size_t gpu) {
  Half& half = half_of(layer);
  const engine::Graph& load = half.graphs[gpu].graph;
  engine::check_invariant(load.finished() && load.finished_at() <= started,
                          "experts compute before they are loaded");
  half.read_until = gpu == 0 ? ended : std::max(half.read_until, ended);
  if (gpu + 1 < half.graphs.size()) return;
  half.layer = kFree;
  if (mirror_ != nullptr) mirror_->release(layer);
}

LabelledGraph* ExpertWindow::any() {
  for (Half& half : halves_)
    if (half.layer != kFree) return &half.graphs[half.dropped];
  return nullptr;
}

void ExpertWindow::drop(const LabelledGraph& graph) {
  for (Half& half : halves_) {
    if (half.layer == kFree || &half.graphs[half.dropped] != &graph) continue;
    if (++half.dropped == half.graphs.size()) half.layer = kFree;
  }
}

}  // namespace moelab
