// The figures that are published of models, counted of what a law draws.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "traces/law/best_experts.hpp"
#include "traces/law/law_generator.hpp"
#include "traces/law/normal.hpp"
#include "traces/law/published_figures.hpp"
#include "traces/statistics/cache_curves.hpp"
#include "traces/statistics/use_statistics.hpp"

namespace moelab {
namespace {

constexpr std::uint32_t kPopularityTokens = 8192;  // of the popularity that a layer's biases give
constexpr std::uint64_t kPopularityStream = 0x70;

std::uint32_t capacity_of(double places, std::uint32_t experts) {
  return std::clamp(static_cast<std::uint32_t>(std::lround(places * experts)), 1U, experts);
}

/// Hits of one policy at one capacity, in all layers.
double hits_of(const std::vector<LayerCacheHits>& layers, FigureKind kind, std::uint32_t capacity,
               std::size_t lfu_place) {
  double hits = 0;
  for (const LayerCacheHits& layer : layers)
    hits += static_cast<double>(kind == FigureKind::lru ? layer.lru[capacity - 1]
                                                        : layer.forgetting_lfu[lfu_place]);
  return hits;
}

/// Figures of sequences of one length, with caches that start alike. Of LFU the one that forgets is counted
/// (lfu:forget=1), though published figures are of the other: the laws of configs/laws were fitted so.
class SequenceFigures {
 public:
  SequenceFigures(const RoutingLaw& law, const std::vector<PublishedFigure>& figures,
                  std::vector<std::size_t> which)
      : law_(law), which_(std::move(which)), figures_(figures), hits_(which_.size()) {
    choice_.lru = true;
    for (const std::size_t i : which_)
      if (figures[i].kind == FigureKind::lfu)
        choice_.forgetting_lfu.push_back(capacity_of(figures[i].places, law.experts));
  }

  /// values[i] of each figure i of these.
  void count(std::uint64_t seed, std::uint64_t tokens, std::vector<double>& values) {
    const PublishedFigure& alike = figures_[which_.front()];
    LawGenerator generator(law_, seed);
    const auto layers = static_cast<std::uint32_t>(law_.layers.size());
    const std::uint64_t sequences = std::max<std::uint64_t>(4, tokens / alike.tokens);
    std::vector<UseStatistics> uses(layers, UseStatistics(law_.experts, law_.top_k));
    auto curves = std::make_unique<CacheCurves>(layers, law_.experts, choice_);
    for (std::uint64_t s = 0; s < sequences; ++s) {
      generator.begin_request(s, generator.domain_of(s));
      for (UseStatistics& u : uses) u.begin_request();
      for (std::uint32_t t = 0; t < alike.tokens; ++t) {
        const TraceRow row = generator.next(Phase::decode);
        for (std::uint32_t l = 0; l < layers; ++l) {
          const auto ids = row.ids.subspan(std::size_t{l} * law_.top_k, law_.top_k);
          if (ids.front() == kNoExpert) continue;
          uses[l].add_token(ids);
          curves->add_token(l, ids);
        }
      }
      if (!alike.cold) continue;
      add(curves->finish());
      curves = std::make_unique<CacheCurves>(layers, law_.experts, choice_);
    }
    if (!alike.cold) add(curves->finish());
    double reuse = 0, running = 0;
    for (const UseStatistics& u : uses)
      if (u.tokens() > 1) reuse += u.reuse(), ++running;
    for (std::size_t i = 0; i < which_.size(); ++i)
      values[which_[i]] =
          figures_[which_[i]].kind == FigureKind::reuse ? reuse / running : hits_[i] / lookups_;
  }

 private:
  void add(const std::vector<LayerCacheHits>& layers) {
    std::size_t lfu_place = 0;
    for (std::size_t i = 0; i < which_.size(); ++i) {
      const PublishedFigure& figure = figures_[which_[i]];
      if (figure.kind == FigureKind::reuse) continue;
      hits_[i] += hits_of(layers, figure.kind, capacity_of(figure.places, law_.experts), lfu_place);
      lfu_place += figure.kind == FigureKind::lfu;
    }
    for (const LayerCacheHits& layer : layers) lookups_ += static_cast<double>(layer.lookups);
  }

  const RoutingLaw& law_;
  std::vector<std::size_t> which_;
  const std::vector<PublishedFigure>& figures_;
  CacheCurveChoice choice_;
  std::vector<double> hits_;
  double lookups_ = 0;
};

/// Share of a layer's uses that its `places` most popular experts have, of tokens that know of no others.
double popular_share(const LayerLaw& layer, std::uint32_t k, std::uint32_t places) {
  const Normal& normal = Normal::instance();
  Random random(kPopularityStream, layer.bias.size(), k);
  std::vector<float> logits(layer.bias.size());
  std::vector<std::uint32_t> best(k);
  std::uint64_t found = 0;
  for (std::uint32_t t = 0; t < kPopularityTokens; ++t) {
    for (std::size_t e = 0; e < logits.size(); ++e)
      logits[e] = static_cast<float>(layer.bias[e] + normal.draw(random));
    best_experts(logits, best);
    found += static_cast<std::uint64_t>(
        std::count_if(best.begin(), best.end(), [places](std::uint32_t e) { return e < places; }));
  }
  return static_cast<double>(found) / (double{kPopularityTokens} * k);
}

double popular_share(const RoutingLaw& law, double places) {
  double sum = 0;
  const LayerLaw* before = nullptr;
  double last = 0;
  for (const LayerLaw& layer : law.layers) {
    if (before == nullptr || before->bias != layer.bias)
      last = popular_share(layer, law.top_k, capacity_of(places, law.experts));
    before = &layer;
    sum += last;
  }
  return sum / static_cast<double>(law.layers.size());
}

}  // namespace

std::vector<double> drawn_figures(const RoutingLaw& law, const std::vector<PublishedFigure>& figures,
                                  std::uint64_t seed, std::uint64_t tokens) {
  std::vector<double> values(figures.size());
  std::vector<bool> done(figures.size());
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (done[i]) continue;
    if (figures[i].kind == FigureKind::popular) {
      values[i] = popular_share(law, figures[i].places);
      continue;
    }
    std::vector<std::size_t> alike;
    for (std::size_t j = i; j < figures.size(); ++j)
      if (figures[j].kind != FigureKind::popular && figures[j].tokens == figures[i].tokens &&
          figures[j].cold == figures[i].cold) {
        alike.push_back(j);
        done[j] = true;
      }
    SequenceFigures(law, figures, alike).count(seed, tokens, values);
  }
  return values;
}

}  // namespace moelab
