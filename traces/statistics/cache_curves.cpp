#include "traces/statistics/cache_curves.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <future>
#include <limits>
#include <numeric>

#include "models/input_error.hpp"
#include "traces/statistics/belady_marks.hpp"
#include "traces/statistics/cache_fifo.hpp"
#include "traces/statistics/cache_lfu.hpp"
#include "traces/statistics/cache_lru_ranks.hpp"

namespace moelab {
namespace {

/// Lookups of a layer that are counted together: they and the state of one cache stay in the first-level
/// memory of the processor.
constexpr std::size_t kWaitingTokens = 1536;

/// Ids in ascending order behind `out`.
class AscendingIds {
 public:
  explicit AscendingIds(std::uint32_t experts) : bits_(experts / 64 + 1, 0) {}
  void append(std::span<const std::uint16_t> ids, std::vector<std::uint16_t>& out) {
    if (bits_.size() > kFewWords) {
      out.insert(out.end(), ids.begin(), ids.end());
      std::sort(out.end() - static_cast<std::ptrdiff_t>(ids.size()), out.end());
      return;
    }
    for (const std::uint16_t id : ids) bits_[id / 64] |= std::uint64_t{1} << id % 64;
    for (std::size_t word = 0; word < bits_.size(); ++word)
      for (std::uint64_t& bits = bits_[word]; bits != 0; bits &= bits - 1)
        out.push_back(static_cast<std::uint16_t>(64 * word + static_cast<unsigned>(std::countr_zero(bits))));
  }

 private:
  static constexpr std::size_t kFewWords = 16;
  std::vector<std::uint64_t> bits_;  // a sort without branches
};

/// All caches of up to BeladyMarks::kLanes layers.
class LayerGroup {
 public:
  virtual ~LayerGroup() = default;
  virtual void add_token(std::size_t lane, std::span<const std::uint16_t> ids) = 0;
  virtual void finish(std::span<LayerCacheHits> layers) = 0;
};

/// `Rank` is as narrow as the number of experts allows: twice as many to an instruction.
template <typename Rank>
class RankedGroup final : public LayerGroup {
 public:
  RankedGroup(std::size_t lanes, std::uint32_t experts, const CacheCurveChoice& choice)
      : choice_(choice), ascending_(experts), marks_(experts) {
    assert(lanes <= BeladyMarks<Rank>::kLanes);
    for (std::size_t l = 0; l < lanes; ++l) lanes_.emplace_back(experts, choice);
  }

  void add_token(std::size_t lane, std::span<const std::uint16_t> ids) override {
    if (ids.empty() || ids.front() == kNoExpert) return;
    ascending_.append(ids, lanes_[lane].waiting);
    if (lanes_[lane].waiting.size() >= kWaitingTokens) count_waiting();
  }

  void finish(std::span<LayerCacheHits> layers) override {
    count_waiting();
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      const Lane& lane = lanes_[l];
      LayerCacheHits& hits = layers[l];
      hits.lookups = lane.lookups;
      if (choice_.lru) std::partial_sum(lane.by_rank.begin(), lane.by_rank.end(), back_inserter(hits.lru));
      if (choice_.belady)
        std::partial_sum(lane.by_smaller.begin(), lane.by_smaller.end(), back_inserter(hits.belady));
      for (const std::uint64_t misses : lane.fifo.misses()) hits.fifo.push_back(lane.lookups - misses);
      for (const auto& cache : lane.lfu) hits.lfu.push_back(lane.lookups - cache.misses());
      for (const auto& cache : lane.forgetting_lfu)
        hits.forgetting_lfu.push_back(lane.lookups - cache.misses());
    }
  }

 private:
  struct Lane {
    Lane(std::uint32_t experts, const CacheCurveChoice& choice)
        : ranks(experts), by_rank(experts, 0), by_smaller(experts, 0), fifo(experts, choice.fifo) {
      for (const std::uint32_t capacity : choice.lfu) lfu.emplace_back(experts, capacity);
      for (const std::uint32_t capacity : choice.forgetting_lfu)
        forgetting_lfu.emplace_back(experts, capacity);
    }
    std::vector<std::uint16_t> waiting;  // lookups, in order, that are not counted yet
    std::uint64_t lookups = 0;
    CacheLruRanks<Rank> ranks;
    std::vector<std::uint64_t> by_rank;     // lookups by LRU rank: how many capacities are too small for LRU
    std::vector<std::uint64_t> by_smaller;  // lookups by how many capacities are too small for Belady
    CacheFifos fifo;
    std::vector<CacheLfu<false>> lfu;
    std::vector<CacheLfu<true>> forgetting_lfu;
  };
  using Steps = typename BeladyMarks<Rank>::Lanes;

  void count_waiting() {
    std::size_t longest = 0;
    for (Lane& lane : lanes_) {
      longest = std::max(longest, lane.waiting.size());
      lane.lookups += lane.waiting.size();
      lane.fifo.look_up(lane.waiting);
      for (auto& cache : lane.lfu) cache.look_up(lane.waiting);
      for (auto& cache : lane.forgetting_lfu) cache.look_up(lane.waiting);
    }
    if (choice_.lru || choice_.belady) count_stacks(longest);
    for (Lane& lane : lanes_) lane.waiting.clear();
  }

  /// A lookup of every layer at a time: each waits for the layer's last one, but not for the other layers'.
  void count_stacks(std::size_t longest) {
    for (std::size_t i = 0; i < longest; ++i) {
      Steps ranks{}, smaller;
      for (std::size_t l = 0; l < lanes_.size(); ++l)
        if (i < lanes_[l].waiting.size()) ranks[l] = lanes_[l].ranks.look_up(lanes_[l].waiting[i]);
      if (choice_.belady) marks_.look_up(ranks, smaller);
      for (std::size_t l = 0; l < lanes_.size(); ++l) {
        if (i >= lanes_[l].waiting.size() || ranks[l] == CacheLruRanks<Rank>::kUnseen) continue;
        ++lanes_[l].by_rank[ranks[l]];
        if (choice_.belady) ++lanes_[l].by_smaller[smaller[l]];
      }
    }
  }

  CacheCurveChoice choice_;
  AscendingIds ascending_;
  BeladyMarks<Rank> marks_;
  std::vector<Lane> lanes_;
};

std::unique_ptr<LayerGroup> layer_group(std::size_t lanes, std::uint32_t experts,
                                        const CacheCurveChoice& choice) {
  if (experts <= std::numeric_limits<std::uint8_t>::max())
    return std::make_unique<RankedGroup<std::uint8_t>>(lanes, experts, choice);
  return std::make_unique<RankedGroup<std::uint16_t>>(lanes, experts, choice);
}

/// Experts of all layers: a hostile file of a megabyte may speak of more than any memory holds. About 1 GiB.
constexpr std::uint64_t kMostCounters = std::uint64_t{1} << 24;
constexpr std::uint32_t kGroupLayers = BeladyMarks<std::uint8_t>::kLanes;

void check_size(std::uint32_t layers, std::uint32_t experts) {
  if (std::uint64_t{layers} * experts > kMostCounters)
    throw InputError("cache hits", std::to_string(layers) + " layers of " + std::to_string(experts) +
                                       " experts are more than can be counted: at most " +
                                       std::to_string(kMostCounters) + " in all");
}

}  // namespace

struct CacheCurves::Impl {
  std::uint32_t layers;
  std::uint32_t group_layers;
  std::vector<std::unique_ptr<LayerGroup>> groups;
};

CacheCurves::CacheCurves(std::uint32_t layers, std::uint32_t experts, const CacheCurveChoice& choice)
    : impl_(std::make_unique<Impl>()) {
  check_size(layers, experts);
  const std::uint32_t groups = (layers + kGroupLayers - 1) / kGroupLayers;
  impl_->layers = layers;
  impl_->group_layers = (layers + groups - 1) / groups;
  for (std::uint32_t first = 0; first < layers; first += impl_->group_layers)
    impl_->groups.push_back(layer_group(std::min(impl_->group_layers, layers - first), experts, choice));
}

CacheCurves::~CacheCurves() = default;

void CacheCurves::add_token(std::uint32_t layer, std::span<const std::uint16_t> ids) {
  assert(layer < impl_->layers);
  impl_->groups[layer / impl_->group_layers]->add_token(layer % impl_->group_layers, ids);
}

std::vector<LayerCacheHits> CacheCurves::finish() {
  std::vector<LayerCacheHits> hits(impl_->layers);
  std::span<LayerCacheHits> rest = hits;
  for (const auto& group : impl_->groups) {
    const std::size_t here = std::min<std::size_t>(impl_->group_layers, rest.size());
    group->finish(rest.first(here));
    rest = rest.subspan(here);
  }
  return hits;
}

namespace {

std::vector<LayerCacheHits> curves_of_layers(const RoutingTrace& trace, const CacheCurveChoice& choice,
                                             std::uint32_t begin, std::uint32_t end) {
  CacheCurves curves(end - begin, trace.experts(), choice);
  std::uint64_t released = 0;
  for (std::uint64_t token = 0; token < trace.tokens(); ++token) {
    for (std::uint32_t layer = begin; layer < end; ++layer)
      curves.add_token(layer - begin, trace.experts_of(token, layer));
    if (trace.worth_releasing(token - released)) {
      trace.release_rows(released, token);
      released = token;
    }
  }
  return curves.finish();
}

}  // namespace

std::vector<LayerCacheHits> cache_curves(const RoutingTrace& trace, const CacheCurveChoice& choice,
                                         unsigned threads) {
  check_size(trace.layers(), trace.experts());
  const std::uint32_t parts = std::clamp<std::uint32_t>(threads, 1, trace.layers());
  const auto first_layer = [&](std::uint64_t part) {
    return static_cast<std::uint32_t>(part * trace.layers() / parts);
  };
  std::vector<std::future<std::vector<LayerCacheHits>>> others;
  for (std::uint32_t part = 1; part < parts; ++part)
    others.push_back(std::async(std::launch::async, [&, part] {
      return curves_of_layers(trace, choice, first_layer(part), first_layer(part + 1));
    }));
  std::vector<LayerCacheHits> hits = curves_of_layers(trace, choice, 0, first_layer(1));
  for (auto& other : others)
    for (LayerCacheHits& layer : other.get()) hits.push_back(std::move(layer));
  return hits;
}

}  // namespace moelab
