#include "traces/law/holdout.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <thread>
#include <utility>

#include "models/input_error.hpp"
#include "traces/model_title.hpp"
#include "traces/statistics/cache_curves.hpp"
#include "traces/statistics/routing_statistics.hpp"
#include "traces/trace_slice.hpp"

namespace moelab {
namespace {

RoutingTrace every_other(const RoutingTrace& trace, std::uint32_t first) {
  std::vector<std::uint32_t> requests;
  for (std::uint32_t r = first; r < trace.requests().size(); r += 2) requests.push_back(r);
  return slice(trace, requests);
}

constexpr double kAim = 0.03;  // of hit rates and shares; of the transitions' recall 0.05
constexpr double kRecallAim = 0.05, kGateAim = 0.1;

/// Parts of the experts that caches hold; of those that come to as many experts, the last counts.
constexpr std::array<double, 10> kParts = {0.0625, 0.125, 0.1875, 0.25, 0.3125,
                                           0.375,  0.5,   0.625,  0.75, 0.875};

struct CacheSize {
  std::uint32_t places = 0;
  std::string title;  // "12.5 %"
};

std::vector<CacheSize> cache_sizes(std::uint32_t experts) {
  std::vector<CacheSize> sizes;
  for (const double part : kParts) {
    const auto places = static_cast<std::uint32_t>(std::max(1L, std::lround(part * experts)));
    if (!sizes.empty() && sizes.back().places == places) sizes.pop_back();
    char title[16];
    std::snprintf(title, sizeof title, "%g %%", 100 * part);
    sizes.push_back({places, title});
  }
  return sizes;
}

/// Reuse from the token before among rows of one phase, by layer; NaN where there are not two.
std::vector<double> reuse_in(const RoutingTrace& trace, Phase phase) {
  std::vector<double> by_layer;
  for (std::uint32_t l = 0; l < trace.layers(); ++l) {
    UseStatistics uses(trace.experts(), trace.top_k());
    for (const TraceRequest& request : trace.requests()) {
      uses.begin_request();
      for (std::uint64_t t = request.begin; t < request.end; ++t)
        if (const auto ids = trace.experts_of(t, l); trace.phase_of(t) == phase && ids[0] != kNoExpert)
          uses.add_token(ids);
    }
    by_layer.push_back(uses.reuse());
  }
  return by_layer;
}

/// All that is compared of one trace.
struct Measured {
  RoutingStatistics statistics;
  std::vector<LayerCacheHits> hits;
  std::vector<double> prompt_reuse, decode_reuse;  // by layer

  double rate(std::uint32_t layer, std::uint64_t found) const {
    return hits[layer].lookups == 0 ? kNoStatistic
                                    : static_cast<double>(found) / static_cast<double>(hits[layer].lookups);
  }
};

Measured measured(const RoutingTrace& trace) {
  StatisticsOptions quick;
  quick.curves = false;
  CacheCurveChoice choice;
  choice.lru = choice.belady = true;
  for (const CacheSize& size : cache_sizes(trace.experts())) choice.fifo.push_back(size.places);
  choice.forgetting_lfu = choice.fifo;
  return {routing_statistics(trace, quick), cache_curves(trace, choice, std::thread::hardware_concurrency()),
          reuse_in(trace, Phase::prefill), reuse_in(trace, Phase::decode)};
}

/// A figure of a layer.
using Figure = std::function<double(const Measured&, std::uint32_t layer)>;

struct Comparison {
  Measured fitted_to, held_out, drawn;

  std::uint32_t layers() const { return static_cast<std::uint32_t>(held_out.statistics.layers.size()); }

  double mean(const Measured& of, const Figure& figure) const {
    double sum = 0, known = 0;
    for (std::uint32_t l = 0; l < layers(); ++l)
      if (const double value = figure(of, l); std::isfinite(value)) sum += value, ++known;
    return known > 0 ? sum / known : kNoStatistic;
  }

  void add(std::vector<HoldoutRow>& rows, const std::string& name, const Figure& figure, double limit,
           bool relative = false) const {
    HoldoutRow row{.name = name, .limit = limit, .relative = relative};
    row.fitted_to = mean(fitted_to, figure);
    row.held_out = mean(held_out, figure);
    row.drawn = mean(drawn, figure);
    double of_drawn = 0, of_halves = 0, known = 0;
    for (std::uint32_t l = 0; l < layers(); ++l) {
      const double x = figure(drawn, l), y = figure(held_out, l), z = figure(fitted_to, l);
      if (!std::isfinite(x) || !std::isfinite(y) || !std::isfinite(z)) continue;
      const double difference = std::abs(x - y) / (relative ? y : 1);
      if (known == 0 || difference > row.worst_difference) {
        row.worst_difference = difference;
        row.worst_layer = l;
      }
      of_drawn += difference;
      of_halves += std::abs(z - y) / (relative ? y : 1);
      ++known;
    }
    row.drawn_difference = known > 0 ? of_drawn / known : kNoStatistic;
    row.halves_difference = known > 0 ? of_halves / known : kNoStatistic;
    if (known == 0) row.worst_difference = kNoStatistic;
    rows.push_back(std::move(row));
  }

  void add(std::vector<HoldoutRow>& rows, const std::string& name, double LayerStatistics::*member,
           double limit) const {
    add(
        rows, name, [member](const Measured& m, std::uint32_t l) { return m.statistics.layers[l].*member; },
        limit);
  }
};

void add_hit_rates(std::vector<HoldoutRow>& rows, const Comparison& c) {
  const std::vector<CacheSize> sizes = cache_sizes(c.held_out.statistics.description.experts);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::string at = " hit rate, " + sizes[i].title + " of the experts cached";
    const std::size_t place = sizes[i].places - 1;
    const auto add = [&](const char* policy, auto counts, std::size_t at_place) {
      c.add(
          rows, policy + at,
          [counts, at_place](const Measured& m, std::uint32_t l) {
            return m.rate(l, (m.hits[l].*counts)[at_place]);
          },
          kAim);
    };
    add("LRU", &LayerCacheHits::lru, place);
    add("lfu:forget=1", &LayerCacheHits::forgetting_lfu, i);
    add("FIFO", &LayerCacheHits::fifo, i);
    add("Belady", &LayerCacheHits::belady, place);
  }
}

/// Distinct experts of so many tokens in a row, as a share of all.
void add_working_sets(std::vector<HoldoutRow>& rows, const Comparison& c) {
  const double experts = c.held_out.statistics.description.experts;
  for (std::size_t i = 0; i < UseStatistics::kWindows.size(); ++i)
    c.add(
        rows, "experts of " + std::to_string(UseStatistics::kWindows[i]) + " tokens, share of all",
        [i, experts](const Measured& m, std::uint32_t l) {
          return m.statistics.layers[l].distinct[i] / experts;
        },
        kAim);
}

void add_phases(std::vector<HoldoutRow>& rows, const Comparison& c) {
  c.add(
      rows, "reuse from the token before, in prompts",
      [](const Measured& m, std::uint32_t l) { return m.prompt_reuse[l]; }, kAim);
  c.add(
      rows, "reuse from the token before, generated",
      [](const Measured& m, std::uint32_t l) { return m.decode_reuse[l]; }, kAim);
}

}  // namespace

const HoldoutRow* worst_of(const std::vector<HoldoutRow>& rows) {
  const HoldoutRow* worst = nullptr;
  for (const HoldoutRow& row : rows) {
    if (row.limit == 0 || row.relative || !std::isfinite(row.worst_difference)) continue;
    if (worst == nullptr || row.worst_difference / row.limit > worst->worst_difference / worst->limit)
      worst = &row;
  }
  return worst;
}

std::vector<HoldoutRow> holdout(const RoutingTrace& trace, const FitOptions& options, std::uint64_t seed) {
  if (trace.requests().size() < 2 || (options.gates != nullptr && options.gates->requests().size() < 2))
    throw InputError("trace of " + model_title(trace), "has one request; every other one is held out");
  const RoutingTrace ours = every_other(trace, 0), others = every_other(trace, 1);
  FitOptions half = options;
  RoutingTrace our_gates, other_gates;
  if (options.gates != nullptr) {
    our_gates = every_other(*options.gates, 0);
    other_gates = every_other(*options.gates, 1);
    half.gates = &our_gates;
  }
  const RoutingLaw law = fit_routing_law(ours, half);
  Comparison c{measured(ours), measured(others), measured(drawn_like(law, others, seed))};
  std::vector<HoldoutRow> rows;
  c.add(rows, "share of the busiest quarter", &LayerStatistics::top_quarter, kAim);
  c.add(rows, "reuse from the token before", &LayerStatistics::reuse, kAim);
  add_phases(rows, c);
  add_hit_rates(rows, c);
  add_working_sets(rows, c);
  c.add(rows, "transition recall", &LayerStatistics::transition_recall, kRecallAim);
  c.add(rows, "recall by popularity alone", &LayerStatistics::popularity_recall, 0);
  c.add(rows, "divergence of prompts, bits", &LayerStatistics::prompt_divergence, 0);
  c.add(rows, "divergence of domains, bits", &LayerStatistics::domain_divergence, 0);
  if (options.gates != nullptr) {
    StatisticsOptions quick;
    quick.curves = false;
    c.fitted_to.statistics = routing_statistics(our_gates, quick);
    c.held_out.statistics = routing_statistics(other_gates, quick);
  }
  for (std::size_t r = 0; law.has_gates() && r < law.top_k; ++r)
    c.add(
        rows, "gate of rank " + std::to_string(r + 1),
        [r](const Measured& m, std::uint32_t l) { return m.statistics.layers[l].gates[r]; }, kGateAim, true);
  return rows;
}

}  // namespace moelab
