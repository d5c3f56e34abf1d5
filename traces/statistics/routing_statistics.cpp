#include "traces/statistics/routing_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <thread>

#include "models/input_error.hpp"
#include "traces/model_title.hpp"
#include "traces/statistics/cache_curves.hpp"
#include "traces/statistics/transition_statistics.hpp"
#include "traces/statistics/use_statistics.hpp"

namespace moelab {
namespace {

constexpr std::uint64_t kBlock = 4096;  // tokens whose rows stay in a core's cache while its layers read them

/// Everything that one layer gathers on its way through the trace.
class LayerPass {
 public:
  LayerPass(const RoutingTrace& trace, std::uint32_t layer)
      : trace_(trace),
        layer_(layer),
        experts_(trace.experts()),
        use_(experts_, trace.top_k()),
        transition_(experts_, trace.top_k()),
        prompts_(experts_),
        gates_(trace.has_scores() ? trace.top_k() : 0),
        domain_uses_(trace.description().domains.size(), std::vector<std::uint64_t>(experts_)),
        request_uses_(experts_) {}

  /// Tokens [begin, end), which are of one request.
  void add(std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t token = begin; token < end; ++token) {
      const auto ids = trace_.experts_of(token, layer_);
      if (ids[0] == kNoExpert) continue;
      use_.add_token(ids);
      for (const std::uint16_t id : ids) ++request_uses_[id];
      if (layer_ > 0) {
        const auto before = trace_.experts_of(token, layer_ - 1);
        if (before[0] != kNoExpert) transition_.add_token(before, ids);
      }
      if (!gates_.empty()) add_gates(trace_.scores_of(token, layer_));
    }
  }

  void begin_request() { use_.begin_request(); }
  void end_request(std::size_t request) {
    prompts_.add_group(request_uses_);
    if (!domain_uses_.empty()) {
      std::vector<std::uint64_t>& domain = domain_uses_[trace_.domain_of(request)];
      for (std::uint32_t e = 0; e < experts_; ++e) domain[e] += request_uses_[e];
    }
    std::fill(request_uses_.begin(), request_uses_.end(), 0);
  }

  LayerStatistics finish() const {
    LayerStatistics s;
    s.tokens = use_.tokens();
    s.uses.assign(use_.uses().begin(), use_.uses().end());
    s.top_quarter = use_.top_quarter();
    s.entropy = use_.entropy();
    s.reuse = use_.reuse();
    s.independent_reuse = use_.independent_reuse();
    for (std::size_t w = 0; w < UseStatistics::kWindows.size(); ++w) s.distinct.push_back(use_.distinct(w));
    s.transition_recall = transition_.recall();
    s.popularity_recall = transition_.popularity_recall();
    for (const double sum : gates_) s.gates.push_back(sum / static_cast<double>(s.tokens));
    s.prompt_divergence = prompts_.bits();
    s.prompt_chance = prompts_.chance_bits();
    GroupDivergence domains(experts_);
    for (const auto& uses : domain_uses_) domains.add_group(uses);
    s.domain_divergence = domain_uses_.empty() ? kNoStatistic : domains.bits();
    s.domain_chance = domain_uses_.empty() ? kNoStatistic : domains.chance_bits();
    return s;
  }

 private:
  void add_gates(std::span<const float> scores) {
    if (!std::is_sorted(scores.begin(), scores.end(), std::greater<>())) {  // most are
      sorted_.assign(scores.begin(), scores.end());
      std::sort(sorted_.begin(), sorted_.end(), std::greater<>());
      scores = sorted_;
    }
    for (std::size_t r = 0; r < scores.size(); ++r) gates_[r] += scores[r];
  }

  const RoutingTrace& trace_;
  std::uint32_t layer_, experts_;
  UseStatistics use_;
  TransitionStatistics transition_;
  GroupDivergence prompts_;
  std::vector<double> gates_;  // sums by rank
  std::vector<std::vector<std::uint64_t>> domain_uses_;
  std::vector<std::uint64_t> request_uses_;
  std::vector<float> sorted_;
};

void walk(const RoutingTrace& trace, std::span<LayerPass> passes,
          const std::function<void(std::uint64_t)>& done) {
  for (std::size_t r = 0; r < trace.requests().size(); ++r) {
    const TraceRequest& request = trace.requests()[r];
    for (LayerPass& pass : passes) pass.begin_request();
    for (std::uint64_t begin = request.begin; begin < request.end; begin += kBlock) {
      const std::uint64_t end = std::min(begin + kBlock, request.end);
      for (LayerPass& pass : passes) pass.add(begin, end);
      done(end);
    }
    for (LayerPass& pass : passes) pass.end_request(r);
  }
}

std::vector<double> rates(std::span<const std::uint64_t> hits, std::uint64_t lookups) {
  std::vector<double> rates;
  for (const std::uint64_t n : hits)
    rates.push_back(lookups == 0 ? kNoStatistic : static_cast<double>(n) / static_cast<double>(lookups));
  return rates;
}

void add_curves(RoutingStatistics& statistics, const RoutingTrace& trace, unsigned threads) {
  for (const double part : {0.125, 0.25, 0.5, 0.75})
    statistics.capacities.push_back(
        std::max(1u, static_cast<std::uint32_t>(std::lround(part * trace.experts()))));
  const auto hits = cache_curves(
      trace, {.lru = true, .belady = true, .fifo = statistics.capacities, .lfu = statistics.capacities},
      threads);
  for (std::size_t l = 0; l < hits.size(); ++l) {
    LayerStatistics& layer = statistics.layers[l];
    layer.lru = rates(hits[l].lru, hits[l].lookups);
    layer.belady = rates(hits[l].belady, hits[l].lookups);
    layer.fifo = rates(hits[l].fifo, hits[l].lookups);
    layer.lfu = rates(hits[l].lfu, hits[l].lookups);
  }
}

/// Pairs of experts are counted, and uses by domain: for sizes that no model has, but a file may claim, that
/// is more than there is memory.
void check_size(const RoutingTrace& trace) {
  constexpr double kMost = 4 * 1024.0 * 1024 * 1024;  // bytes
  const auto experts = static_cast<double>(trace.experts());
  const double row = experts * sizeof(std::int32_t) +
                     static_cast<double>(trace.description().domains.size()) * sizeof(std::uint64_t);
  if (trace.layers() * experts * row <= kMost) return;
  throw InputError("trace of " + model_title(trace),
                   std::to_string(trace.layers()) + " layers of " + std::to_string(trace.experts()) +
                       " experts with " + std::to_string(trace.description().domains.size()) +
                       " domains are too many for its statistics: they would take more than 4 GiB of memory");
}

}  // namespace

RoutingStatistics routing_statistics(const RoutingTrace& trace, const StatisticsOptions& options) {
  check_size(trace);
  RoutingStatistics statistics;
  statistics.description = trace.description();
  statistics.tokens = trace.tokens();
  statistics.requests = trace.requests().size();
  for (const TraceRequest& request : trace.requests())
    statistics.prompt_tokens += request.decode_begin - request.begin;
  std::vector<LayerPass> passes;
  for (std::uint32_t layer = 0; layer < trace.layers(); ++layer) passes.emplace_back(trace, layer);
  unsigned threads =
      options.threads > 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  threads = std::min<unsigned>(threads, trace.layers());
  {
    std::vector<std::jthread> others;
    const auto share = [&](unsigned t) {
      const std::size_t begin = passes.size() * t / threads, end = passes.size() * (t + 1) / threads;
      return std::span(passes).subspan(begin, end - begin);
    };
    for (unsigned t = 1; t < threads; ++t)
      others.emplace_back([&, mine = share(t)] { walk(trace, mine, [](std::uint64_t) {}); });
    walk(trace, share(0), [&](std::uint64_t token) {
      if (options.progress) options.progress(token, trace.tokens());
    });
  }
  for (const LayerPass& pass : passes) statistics.layers.push_back(pass.finish());
  if (options.curves) add_curves(statistics, trace, threads);
  return statistics;
}

}  // namespace moelab
