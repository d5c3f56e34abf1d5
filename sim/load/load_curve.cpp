#include "sim/load/load_curve.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace moelab {
namespace {

bool meets_level(const LoadSample& sample, const LevelRule& rule) {
  if (rule.share) return sample.met_share() >= *rule.share;
  return std::ranges::all_of(sample.holding, [](bool held) { return held; });
}

/// Between rates that are known to be met and not to be met.
struct Search {
  LoadAsk next;  // what to run
  double met = 0;
  RateMissed missed = {.rate = std::numeric_limits<double>::infinity()};
  bool started = false, over = false, refused = false;
  std::string why = {};  // it is refused
};

/// Halvings below the rate at which all were there at once, after which no rate will do.
constexpr double kLeastPart = 0x1p-24;

/// Of the time in which a run's requests come, in s: a tenth of what a workload may last.
constexpr double kLongest = 1e11;

/// `least`: a rate below which no rate will do.
void take(Search& search, const LoadPoint& point, double least, double tolerance) {
  if (point.meets_level) {
    search.met = point.rate;
  } else {
    search.missed = {point.rate, point.verdict, point.samples.front()};
  }
  if (search.met == 0)
    search.next.rate = search.missed.rate / 2;
  else if (search.missed.rate == std::numeric_limits<double>::infinity())
    search.next.rate = search.met * 2;
  else
    search.next.rate = (search.met + search.missed.rate) / 2;
  search.over = search.next.rate > kAtOnce || (search.met == 0 && search.next.rate < least) ||
                (search.met > 0 && search.missed.rate <= search.met * (1 + tolerance));
}

/// Where a search begins: at the rate of a run whose requests were all there at once.
void begin_search(Search& search, const LoadSample& sample) {
  search.refused = search.over = !sample.refusal.empty() || sample.answered == 0;
  search.why = sample.refusal.empty() ? "answers no request" : sample.refusal;
  search.next.rate = sample.answered_per_s();
  search.started = true;
}

}  // namespace

LoadPoint load_point(const LoadRuns& runs, const LevelRule& rule, std::size_t system, double rate,
                     std::vector<LoadSample> samples) {
  LoadPoint point{.system = system, .rate = rate, .samples = std::move(samples)};
  std::vector<LoadVerdict> verdicts;
  bool met = true;
  for (const LoadSample& sample : point.samples) {
    if (sample.refusal.empty()) verdicts.push_back(sample.verdict(runs.offered(rate)));
    met = met && sample.refusal.empty() && meets_level(sample, rule);
  }
  if (!verdicts.empty()) point.verdict = verdict_of_seeds(verdicts);
  point.meets_level = met && point.verdict == LoadVerdict::steady;
  return point;
}

std::optional<double> mean_over_seeds(const LoadPoint& point,
                                      const std::function<std::optional<double>(const LoadSample&)>& value) {
  double sum = 0;
  for (const LoadSample& sample : point.samples) {
    const std::optional<double> one = sample.refusal.empty() ? value(sample) : std::nullopt;
    if (!one) return std::nullopt;
    sum += *one;
  }
  return sum / static_cast<double>(point.samples.size());
}

std::vector<LoadPoint> load_curve(LoadRuns& runs, const LevelRule& rule,
                                  std::vector<std::vector<double>> rates_by_system,
                                  const LoadProgress& progress) {
  std::vector<LoadAsk> asks;
  for (std::size_t system = 0; system < runs.systems(); ++system) {
    std::vector<double>& rates = rates_by_system[system];
    std::sort(rates.begin(), rates.end());
    rates.erase(std::unique(rates.begin(), rates.end()), rates.end());
    for (const double rate : rates)
      for (std::size_t seed = 0; seed < runs.seeds(); ++seed) asks.push_back({system, rate, seed});
  }
  const std::vector<LoadSample> samples = runs.run(asks, progress);
  std::vector<LoadPoint> points;
  for (std::size_t i = 0; i < asks.size(); i += runs.seeds()) {
    const auto first = samples.begin() + static_cast<std::ptrdiff_t>(i);
    points.push_back(load_point(runs, rule, asks[i].system, asks[i].rate,
                                {first, first + static_cast<std::ptrdiff_t>(runs.seeds())}));
  }
  return points;
}

double HighestRate::median() const {
  std::vector<double> sorted = by_seed;
  std::sort(sorted.begin(), sorted.end());
  return sorted.empty() ? 0 : sorted[(sorted.size() - 1) / 2];
}

const LoadSample* HighestRate::at_median() const {
  const double rate = median();
  const auto seed = std::ranges::find(by_seed, rate);
  return rate > 0 ? &at[static_cast<std::size_t>(seed - by_seed.begin())] : nullptr;
}

double HighestRate::low() const {
  return by_seed.empty() ? 0 : *std::ranges::min_element(by_seed);
}

double HighestRate::high() const {
  return by_seed.empty() ? 0 : *std::ranges::max_element(by_seed);
}

std::vector<HighestRate> find_highest_rates(LoadRuns& runs, const LevelRule& rule, double tolerance,
                                            const LoadProgress& progress) {
  std::vector<Search> searches;
  for (std::size_t system = 0; system < runs.systems(); ++system)
    for (std::size_t seed = 0; seed < runs.seeds(); ++seed)
      searches.push_back({.next = {system, kAtOnce, seed}});
  std::vector<double> least(searches.size(), 0);
  for (;;) {
    std::vector<LoadAsk> asks;
    std::vector<std::size_t> asking;
    for (std::size_t i = 0; i < searches.size(); ++i) {
      if (searches[i].over) continue;
      asks.push_back(searches[i].next);
      asking.push_back(i);
    }
    if (asks.empty()) break;
    const std::vector<LoadSample> samples = runs.run(asks, progress);
    for (std::size_t k = 0; k < asks.size(); ++k) {
      Search& search = searches[asking[k]];
      if (!search.started) {
        begin_search(search, samples[k]);
        least[asking[k]] =
            std::max(search.next.rate * kLeastPart, static_cast<double>(runs.requests()) / kLongest);
      } else {
        take(search, load_point(runs, rule, asks[k].system, asks[k].rate, {samples[k]}), least[asking[k]],
             tolerance);
      }
    }
  }
  std::vector<HighestRate> found(runs.systems());
  for (std::size_t i = 0; i < searches.size(); ++i) {
    HighestRate& of = found[i / runs.seeds()];
    of.system = i / runs.seeds();
    if (searches[i].refused) {
      of.refusal = searches[i].why;
      continue;
    }
    of.by_seed.push_back(searches[i].met);
    const LoadAsk ask = {of.system, searches[i].met, i % runs.seeds()};
    of.at.push_back(ask.rate > 0 ? runs.run({ask}, {}).front() : LoadSample{});
    of.above.push_back(std::move(searches[i].missed));
  }
  return found;
}

}  // namespace moelab
