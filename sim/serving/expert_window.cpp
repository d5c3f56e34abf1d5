#include "sim/serving/expert_window.hpp"

#include <algorithm>

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

const ExpertWindow::Half* ExpertWindow::find(std::uint32_t layer) const {
  for (const Half& half : halves_)
    if (half.layer == layer) return &half;
  return nullptr;
}

void ExpertWindow::load(std::uint32_t layer, std::span<const WindowStream> streams, ServingCounts& counts) {
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
    for (std::uint16_t type = 0; type < type_share_.size(); ++type) add_type(streams[gpu], graph, gpu, type);
    engine_.submit(graph.graph, engine::kPrefetch);
  }
  const bool alike = std::all_of(streams.begin(), streams.end(),
                                 [&](const WindowStream& stream) { return stream == streams.front(); });
  if (alike) return count(streams.front(), 1, counts);
  for (const WindowStream& stream : streams) count(stream, 1.0 / static_cast<double>(streams.size()), counts);
}

/// Bytes of one GPU, of which `part` counts.
void ExpertWindow::count(const WindowStream& stream, double part, ServingCounts& counts) const {
  const StorageShape& shape = plan_.split.shape();
  for (const double share : type_share_)
    for (std::size_t k = 0; k < shape.backends.size(); ++k) {
      const double bytes = stream.experts[k] * shape.expert_bytes * share * part;
      if (bytes == 0) continue;
      (plan_.codecs[k] != nullptr ? counts.decoded_bytes : counts.loaded_bytes) += bytes;
      if (!plan_.on_ssd[k]) continue;
      const double cached = stream.cached * shape.expert_bytes * share * part;
      counts.ssd_bytes += bytes - cached;
      counts.page_cache_bytes += cached;
    }
}

void ExpertWindow::add_type(const WindowStream& stream, LabelledGraph& out, std::size_t gpu,
                            std::uint16_t type) {
  const StorageShape& shape = plan_.split.shape();
  double streamed = 0;
  for (const std::uint32_t experts : stream.experts) streamed += experts;
  if (streamed == 0) return;
  const Bytes window(streamed * shape.expert_bytes * type_share_[type]);
  engine::check_invariant(streamed <= plan_.most_streamed,
                          "a layer has more experts than its half of the window");
  OpIndex mapped = engine::kNoOp;
  if (const double seconds = timing_.remap(window).value(); seconds > 0) {
    mapped =
        out.graph.add(out.graph.lane(resources_.gpus[gpu].pager), seconds + timing_.copy_hand_over().value());
    out.labels.push_back({OpKind::remap, Tier::none, type});
  }
  for (std::size_t k = 0; k < shape.backends.size(); ++k)
    if (stream.experts[k] > 0) add_backend(stream, out, gpu, k, mapped, type);
}

void ExpertWindow::add_backend(const WindowStream& stream, LabelledGraph& out, std::size_t gpu,
                               std::size_t backend, OpIndex after, std::uint16_t type) {
  const double expert_bytes = plan_.split.shape().expert_bytes;
  const auto bytes = [&](std::uint32_t experts) { return Bytes(experts * expert_bytes * type_share_[type]); };
  if (plan_.codecs[backend] != nullptr) {
    add_decoding(out, bytes(stream.experts[backend]), *plan_.codecs[backend], resources_.gpus[gpu], timing_,
                 after,
                 {.kind = OpKind::decode, .tensor = type, .backend = static_cast<std::uint16_t>(backend)});
    return;
  }
  const bool on_ssd = plan_.on_ssd[backend];
  const std::uint32_t cached = on_ssd ? stream.cached : 0, read = stream.experts[backend] - cached;
  const auto add = [&](std::uint32_t experts, bool from_ssd) {
    if (experts == 0) return;
    const ExpertLoad load{.bytes = bytes(experts),
                          .from_ssd = from_ssd,
                          .cached = on_ssd && !from_ssd,
                          .tensor = type,
                          .backend = static_cast<std::uint16_t>(backend)};
    add_expert_load(out, load, resources_, gpu, timing_, ranks_, after);
  };
  add(cached, false);
  add(read, on_ssd);
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
