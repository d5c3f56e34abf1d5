#include "sim/serving/expert_fetches.hpp"

#include <algorithm>

#include "sim/engine/invariant.hpp"
#include "sim/serving/expert_load.hpp"

namespace moelab {

using engine::OpIndex;

OpIndex add_fetch(LabelledGraph& out, const ExpertFetch& fetch, const PagedPlan& plan,
                  const PagedResources& resources, std::size_t gpu, const TimingModel& timing, int ranks) {
  const Bytes bytes(plan.split.shape().expert_bytes);
  OpIndex mapped = engine::kNoOp;
  if (const double seconds = timing.remap(bytes).value(); seconds > 0) {
    mapped = out.graph.add(out.graph.lane(resources.gpus[gpu].pager), seconds);
    out.labels.push_back({OpKind::remap, Tier::none, kWholeExpert, 0, fetch.number});
  }
  const OpLabel decode{OpKind::decode, Tier::none, kWholeExpert, 0, fetch.number};
  if (const GpuCodecProfile* const codec = plan.codecs[fetch.backend]; codec != nullptr)
    return add_decoding(out, bytes, *codec, resources.gpus[gpu], timing, mapped, decode);
  const ExpertLoad load{.bytes = bytes,
                        .from_ssd = plan.on_ssd[fetch.backend] && !fetch.cached,
                        .cached = fetch.cached,
                        .tensor = kWholeExpert,
                        .expert = fetch.number};
  const OpIndex last = add_expert_load(out, load, resources, gpu, timing, ranks, mapped);
  return last != engine::kNoOp ? last : mapped;
}

ExpertFetches::ExpertFetches(engine::Engine& engine, const PagedResources& resources,
                             const TimingModel& timing, const PagedPlan& plan, WindowExperts& experts,
                             int ranks, Metrics& metrics)
    : engine_(engine),
      resources_(resources),
      timing_(timing),
      plan_(plan),
      experts_(experts),
      ranks_(ranks),
      metrics_(metrics) {
  for (Half& half : halves_) half.slots.resize(resources.gpus.size() * experts.experts());
}

const ExpertFetches::Half* ExpertFetches::find(std::uint32_t layer) const {
  for (const Half& half : halves_)
    if (half.layer == layer) return &half;
  return nullptr;
}

ExpertFetches::Half& ExpertFetches::half_of(std::uint32_t layer) {
  Half& half = halves_[0].layer == layer ? halves_[0] : halves_[1];
  engine::check_invariant(half.layer == layer, "a layer computes whose pages are not mapped");
  return half;
}

void ExpertFetches::begin(const StorageSplit& split, std::uint32_t layer,
                          std::span<const std::vector<std::uint32_t>> order) {
  engine::check_invariant(find(layer) == nullptr, "a layer's pages are mapped twice");
  Half& half = halves_[0].layer == kFree ? halves_[0] : halves_[1];
  engine::check_invariant(half.layer == kFree, "a load into blocks that are still read");
  half.layer = layer;
  before_.clear();
  for (const Leaving& left : leaving_)
    if (left.second == (&half == &halves_[1]) && !left.slot.graph->graph.finished())
      before_.push_back(&left.slot.graph->graph);
  for (std::size_t gpu = 0; gpu < resources_.gpus.size(); ++gpu) {
    std::uint32_t come = 0;
    for (const std::uint32_t expert : order[gpu]) {
      if (experts_.plain(split, gpu, layer, expert)) continue;
      add(split, half, gpu, expert);
      ++come;
    }
    engine::check_invariant(come <= plan_.most_streamed,
                            "a layer has more experts than its half of the window");
  }
}

void ExpertFetches::add(const StorageSplit& split, Half& half, std::size_t gpu, std::uint32_t expert) {
  Slot& to = slot(half, gpu, expert);
  if (spare_.empty()) {
    to.graph = std::make_unique<LabelledGraph>();
  } else {
    to.graph = std::move(spare_.back());
    spare_.pop_back();
  }
  to.graph->clear();
  to.graph->layer = half.layer;
  const std::size_t backend = experts_.backend(split, gpu, half.layer, expert);
  const bool on_ssd = plan_.on_ssd[backend];
  const ExpertFetch fetch{backend, on_ssd && experts_.read(gpu, half.layer, expert),
                          experts_.first(gpu) + expert};
  to.expert = expert;
  to.gpu = gpu;
  to.from_ssd = on_ssd && !fetch.cached;
  to.cached = fetch.cached;
  to.unused = false;
  add_fetch(*to.graph, fetch, plan_, resources_, gpu, timing_, ranks_);
  if (to.graph->graph.size() > 0)
    for (engine::Graph* const before : before_) to.graph->graph.depend_on(0, *before);
  engine_.submit(to.graph->graph, engine::kPrefetch);
}

bool ExpertFetches::arrived(std::uint32_t layer, std::size_t gpu, std::uint32_t expert) const {
  const Half* const half = find(layer);
  if (half == nullptr) return false;
  const Slot& of = half->slots[gpu * experts_.experts() + expert];
  return of.graph != nullptr && of.graph->graph.finished();
}

void ExpertFetches::settle(std::uint32_t layer, std::size_t gpu, std::span<const std::uint8_t> chosen,
                           std::vector<engine::Graph*>& awaited) {
  Half& half = half_of(layer);
  for (std::uint32_t expert = 0; expert < experts_.experts(); ++expert) {
    Slot& of = slot(half, gpu, expert);
    if (of.graph == nullptr) continue;
    if (chosen[expert] == 0) {
      count_unused(of);
      continue;
    }
    engine::Graph& graph = of.graph->graph;
    if (counts(gpu)) {
      ++metrics_.prefetch.fetched;
      ++(graph.finished() ? metrics_.prefetch.used : metrics_.prefetch.late);
    }
    if (graph.finished()) continue;
    engine_.set_priority(graph, engine::kDemand);
    awaited.push_back(&graph);
  }
}

/// Of no use: what has begun ends, what has not is cancelled.
void ExpertFetches::count_unused(Slot& of) {
  of.unused = true;
  engine::Graph& graph = of.graph->graph;
  PrefetchCounts& c = metrics_.prefetch;
  const bool began = graph.started() > 0;
  if (counts(of.gpu)) {
    ++(began ? c.fetched : c.cancelled);
    if (began) ++c.unused;
  }
  if (!graph.finished()) engine_.cancel(graph);
  if (!of.from_ssd) return;
  for (OpIndex op = 0; op < graph.size(); ++op)
    if (of.graph->labels[op].tier == Tier::ssd && !graph.was_started(op))
      experts_.forget_read(of.gpu, of.graph->layer, of.expert);
}

// What has begun to be read or decoded counts as brought, also where it was cancelled before it crossed the
// link.
void ExpertFetches::count_bytes(const Slot& of) {
  const double bytes = plan_.split.shape().expert_bytes / static_cast<double>(resources_.gpus.size());
  ServingCounts& c = metrics_.serving;
  bool decodes = false, loads = false, reads = false;
  for (OpIndex op = 0; op < of.graph->graph.size(); ++op) {
    if (!of.graph->graph.was_started(op)) continue;
    const OpLabel& label = of.graph->labels[op];
    decodes = decodes || label.kind == OpKind::decode;
    loads = loads || label.kind == OpKind::load;
    reads = reads || label.tier == Tier::ssd;
  }
  if (decodes) c.decoded_bytes += bytes;
  if (loads) c.loaded_bytes += bytes;
  if (reads) c.ssd_bytes += bytes;
  if (loads && of.cached) c.page_cache_bytes += bytes;
  if (of.unused && (decodes || loads)) metrics_.prefetch.wasted_bytes += bytes;
}

void ExpertFetches::close(Leaving& left) {
  count_bytes(left.slot);
  spare_.push_back(std::move(left.slot.graph));
}

LabelledGraph* ExpertFetches::any() {
  for (Half& half : halves_) {
    if (half.layer == kFree) continue;
    for (Slot& of : half.slots) {
      if (of.graph == nullptr) continue;
      count_unused(of);
      leaving_.push_back({std::move(of), half.layer, &half == &halves_[1]});
    }
    half.layer = kFree;
  }
  for (const Leaving& left : leaving_)
    if (!left.slot.graph->graph.finished()) return left.slot.graph.get();
  return nullptr;
}

}  // namespace moelab
