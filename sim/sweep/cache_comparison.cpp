#include "sim/sweep/cache_comparison.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "policies/cache/cache.hpp"
#include "sim/results/request_latencies.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario/scenario_document.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/sweep/point_workers.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kBound = "belady";

std::vector<std::string> all_cache_names() {
  std::vector<std::string> names;
  for (const CachePolicyEntry& entry : cache_policies()) names.emplace_back(entry.info.name);
  return names;
}

/// Those to run: the named ones, or all; with the bound.
std::vector<std::string> caches_to_run(const std::vector<std::string>& named) {
  std::vector<std::string> names;
  Problems problems;
  for (const std::string& name : named) {
    if (find_cache_policy(name) == nullptr)
      problems.add({"--cache " + name, 0, 0, "is no cache policy" + suggestion(name, all_cache_names())});
    else if (std::find(names.begin(), names.end(), name) != names.end())
      problems.add({"--cache " + name, 0, 0, "is named twice"});
    names.push_back(name);
  }
  problems.throw_if_any();
  if (named.empty()) names = all_cache_names();
  if (std::find(names.begin(), names.end(), kBound) == names.end()) names.emplace_back(kBound);
  return names;
}

/// The scenario with the system that is to be compared as its only one.
Scenario compared_scenario(const CompareSettings& asked) {
  std::vector<std::string> only;
  if (!asked.system.empty()) only.push_back(asked.system);
  Scenario s = load_scenario(asked.scenario, asked.settings, only);
  check_listed(s, only, "--system");
  if (s.cluster) throw InputError(s.name, "is served by a cluster; expected a scenario on one machine");
  const SystemConfig& system = s.systems.front();
  if (system.placed || (system.paging && system.paging->pinned == 0))
    throw InputError("system " + system.name,
                     "keeps experts by no cache policy; expected a system with a cache, by --system");
  s.systems.resize(1, system);
  return s;
}

/// A run: all by its place.
struct CompareAsk {
  std::size_t budget = 0, cache = 0, seed = 0;
};

/// What a run of the document's system came to, between processes; of one that could not be made, why.
std::string pack_compared(const std::string& name, const std::string& document, const Settings& changes) {
  try {
    const Scenario s = scenario_of_document(name, document, changes);
    const RoutingTrace trace = scenario_trace(s);
    const std::optional<RankInclusion> statistics = check_scenario(s, trace);
    RunOptions options;
    if (statistics) options.statistics = &*statistics;
    const SystemConfig& system = s.systems.front();
    const RunResult result = run_system(s, system, trace, options);
    check_fits(result);
    const RequestLatencies latencies = request_latencies(result.metrics);
    if (latencies.of(Latency::tpot).empty())
      throw InputError(s.name,
                       "no request has a second output token: there is no time per output token to compare");
    const auto& found = result.metrics.decode_hits;
    const std::uint64_t all = std::accumulate(found.begin(), found.end(), std::uint64_t{0});
    const std::uint64_t hits = found[index(system.kept_as)];
    const auto share = [all](std::uint64_t part) {
      return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
    };
    return Json{{"tpot_s", mean(latencies.of(Latency::tpot))},
                {"hits", share(hits)},
                {"parts", share(all - found[index(State::M)] - hits)}}
        .dump();
  } catch (const InputError& error) {
    return Json{{"refused", error.problems().front().what}}.dump(-1, ' ', false,
                                                                 Json::error_handler_t::replace);
  }
}

class Comparer {
 public:
  explicit Comparer(const CompareSettings& settings)
      : settings_(settings), scenario_(compared_scenario(settings)), caches_(caches_to_run(settings.caches)) {
    if (settings.seeds > std::numeric_limits<std::int64_t>::max() - scenario_.seed)
      throw InputError("--seeds " + std::to_string(settings.seeds),
                       "from seed " + std::to_string(scenario_.seed) + " on there are not so many");
    const std::string document = scenario_document(scenario_, scenario_.systems.front());
    for (const std::string& cache : caches_) documents_.push_back(document_with_cache(document, cache));
    budgets_ = settings.budgets;
    if (budgets_.empty()) budgets_.emplace_back();
  }

  CacheComparison compare(const std::function<void(std::size_t, std::size_t)>& progress) {
    CacheComparison result = frame();
    std::vector<CompareAsk> asks;
    for (std::size_t b = 0; b < budgets_.size(); ++b)
      for (std::size_t c = 0; c < caches_.size(); ++c)
        for (std::size_t s = 0; s < settings_.seeds; ++s) asks.push_back({b, c, s});
    std::vector<ChildOutcome> outcomes(asks.size());
    ForkedWorkers workers(settings_.jobs, {});
    for (std::size_t next = 0, done = 0; done < asks.size();) {
      for (; next < asks.size() && workers.room() > 0; ++next)
        workers.start_work(next, [&, ask = asks[next]] { return one(ask); });
      for (auto& [number, outcome] : workers.wait(1)) {
        ++done;
        outcomes[number] = std::move(outcome.child);
        if (progress) progress(done, asks.size());
      }
    }
    // In the order asked for: what is said does not depend on which ended first.
    for (std::size_t i = 0; i < asks.size(); ++i) enter(asks[i], outcomes[i], result);
    for (ComparedBudget& budget : result.budgets) rank(budget);
    return result;
  }

 private:
  CacheComparison frame() const {
    CacheComparison result;
    const SystemConfig& system = scenario_.systems.front();
    result.scenario = scenario_.name;
    result.system = system.name;
    result.model = scenario_.model.title;
    result.device = scenario_.device.title;
    result.own_policy = system.cache.name;
    result.first_seed = scenario_.seed;
    result.seeds = settings_.seeds;
    for (const std::string& text : budgets_) {
      ComparedBudget budget;
      const Bytes bytes = text.empty() ? scenario_.budget : parsed_budget(text);
      budget.budget = text.empty() ? to_string(bytes) : text;
      budget.bytes = bytes.value();
      for (const std::string& cache : caches_) {
        ComparedCache row;
        row.policy = cache;
        row.knows_future = find_cache_policy(cache)->needs_future;
        row.by_seed.resize(settings_.seeds);
        budget.caches.push_back(row);
      }
      result.budgets.push_back(budget);
    }
    return result;
  }
  static Bytes parsed_budget(const std::string& text) {
    Bytes bytes;
    std::string expected;
    if (!parse(text, bytes, expected)) throw InputError("--budget " + text, "expected " + expected);
    return bytes;
  }

  std::string one(const CompareAsk& ask) const {
    Settings changes = {{"seed", std::to_string(scenario_.seed + ask.seed)}};
    if (!budgets_[ask.budget].empty()) changes.emplace_back("budget", budgets_[ask.budget]);
    return pack_compared(scenario_.name, documents_[ask.cache], changes);
  }

  void enter(const CompareAsk& ask, const ChildOutcome& outcome, CacheComparison& result) const {
    if (outcome.kind != ChildOutcome::Kind::done)
      throw InputError(settings_.scenario, "a run cannot be made: " + outcome.text);
    ComparedBudget& budget = result.budgets[ask.budget];
    ComparedCache& row = budget.caches[ask.cache];
    const Json json = Json::parse(outcome.text);
    if (!json.contains("refused")) {
      row.by_seed[ask.seed] = {json["tpot_s"], json["hits"], json["parts"]};
      return;
    }
    row.refused = json["refused"].get<std::string>();
    const auto& named = settings_.caches;
    if (std::find(named.begin(), named.end(), row.policy) != named.end())
      throw InputError("--cache " + row.policy, "cannot be run by system '" + result.system + "' at " +
                                                    budget.budget + ": " + row.refused);
  }

  /// Throws for a budget at which there is nothing to rank.
  [[noreturn]] static void fail_without_rivals(const ComparedBudget& budget) {
    for (const ComparedCache& cache : budget.caches)
      if (!cache.refused.empty() && !cache.knows_future)
        throw InputError("--cache", "none can be run at " + budget.budget + "; why not '" + cache.policy +
                                        "': " + cache.refused);
    throw InputError("--cache", "expected a policy besides belady, which knows the future and is the bound");
  }

  static void rank(ComparedBudget& budget) {
    const auto rivals = [](const ComparedCache& c) { return c.refused.empty() && !c.knows_future; };
    const auto part = std::stable_partition(budget.caches.begin(), budget.caches.end(), rivals);
    std::stable_partition(part, budget.caches.end(), [](const auto& c) { return c.refused.empty(); });
    if (part == budget.caches.begin()) fail_without_rivals(budget);
    std::vector<std::vector<double>> times;
    for (auto row = budget.caches.begin(); row != part; ++row) {
      times.emplace_back();
      for (const CacheSample& sample : row->by_seed) times.back().push_back(sample.tpot_s);
    }
    const std::vector<PairedRank> ranks = rank_paired(times);
    for (std::size_t i = 0; i < ranks.size(); ++i) budget.caches[i].rank = ranks[i];
    std::sort(budget.caches.begin(), part,
              [](const auto& a, const auto& b) { return a.rank.rank < b.rank.rank; });
  }

  const CompareSettings& settings_;
  Scenario scenario_;
  std::vector<std::string> caches_;
  std::vector<std::string> documents_;  // of each cache
  std::vector<std::string> budgets_;    // "": the scenario's
};

}  // namespace

double ComparedCache::mean_of(double CacheSample::*figure) const {
  std::vector<double> values;
  for (const CacheSample& sample : by_seed) values.push_back(sample.*figure);
  return mean(values);
}

const ComparedCache* ComparedBudget::bound() const {
  for (const ComparedCache& cache : caches)
    if (cache.policy == kBound && cache.refused.empty()) return &cache;
  return nullptr;
}

CacheComparison compare_caches(const CompareSettings& settings,
                               const std::function<void(std::size_t, std::size_t)>& progress) {
  return Comparer(settings).compare(progress);
}

}  // namespace moelab
