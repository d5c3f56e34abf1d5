#include "sim/sweep/cache_comparison.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
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

/// The parameter that "k=3" of "lru-k:k=3" is for.
const PolicyParameter& known_parameter(const std::string& name, const PolicyInfo& policy) {
  std::vector<std::string> known;
  for (const PolicyParameter& parameter : policy.parameters) {
    if (parameter.name == name) return parameter;
    known.emplace_back(parameter.name);
  }
  const std::string has = "policy '" + std::string(policy.name) + "' has no parameter";
  if (known.empty()) throw InputError("", has + "s");
  if (name.empty()) throw InputError("", "expected PARAMETER=NUMBER behind ':'" + suggestion(name, known));
  throw InputError("", has + " '" + shown_word(name) + "'" + suggestion(name, known));
}

/// Whether it is whole where it has to be, the run says.
void read_parameter(const std::string& text, const PolicyInfo& policy, PolicyParameters& parameters) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string value = text.substr(std::min(equals + 1, text.size()));
  const PolicyParameter& parameter = known_parameter(text.substr(0, equals), policy);
  const std::string name(parameter.name);
  double number = 0;
  const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || rest != value.data() + value.size() || !std::isfinite(number) ||
      number < parameter.low || number > parameter.high)
    throw InputError("", "expected a number from " + shortest_text(parameter.low) + " to " +
                             shortest_text(parameter.high) + " for '" + name + "', found '" +
                             shown_word(value) + "'");
  if (!parameters.emplace(name, number).second)
    throw InputError("", "parameter '" + name + "' is given twice");
}

/// "lru-k:k=3". Throws InputError, without a place, for what is no policy or none of its parameters.
ComparedCache read_cache(const std::string& text) {
  ComparedCache cache;
  std::size_t end = std::min(text.find(':'), text.size());
  cache.policy = text.substr(0, end);
  if (cache.policy == "all") throw InputError("", "stands alone");
  const CachePolicyEntry* const entry = find_cache_policy(cache.policy);
  if (entry == nullptr)
    throw InputError("", "is no cache policy" + suggestion(cache.policy, all_cache_names()));
  cache.knows_future = entry->needs_future;
  while (end < text.size()) {
    const std::size_t begin = end + 1;
    end = std::min(text.find(':', begin), text.size());
    read_parameter(text.substr(begin, end - begin), entry->info, cache.parameters);
  }
  cache.name = cache.policy;
  for (const auto& [name, value] : cache.parameters) cache.name += ":" + name + "=" + shortest_text(value);
  return cache;
}

/// With all parameters as it is run: of the policy `own` has, its values, else the defaults, but for those
/// given.
std::vector<double> parameters_of(const ComparedCache& cache, const PolicyChoice& own) {
  const PolicyInfo& info = find_cache_policy(cache.policy)->info;
  PolicyParameters values = cache.parameters;
  if (cache.policy == own.name) values.insert(own.parameters.begin(), own.parameters.end());
  std::vector<double> all;
  for (const PolicyParameter& p : info.parameters) all.push_back(parameter(info, values, p.name));
  return all;
}

bool is_bound(const ComparedCache& cache) {
  return cache.policy == kBound && cache.parameters.empty();
}

/// Those to run, the named ones or all, with the bound. `own`: the cache of the system.
std::vector<ComparedCache> caches_to_run(const std::vector<std::string>& named, const PolicyChoice& own) {
  std::vector<ComparedCache> caches;
  Problems problems;
  const auto add = [&](ComparedCache cache) {
    for (const ComparedCache& other : caches)
      if (other.policy == cache.policy && parameters_of(other, own) == parameters_of(cache, own))
        throw InputError("", "is named twice: it is '" + other.name + "'");
    caches.push_back(std::move(cache));
  };
  for (const std::string& text : named) {
    try {
      add(read_cache(text));
    } catch (const InputError& error) {
      problems.add({"--cache " + shown_word(text), 0, 0, error.problems().front().what});
    }
  }
  problems.throw_if_any();
  if (named.empty())
    for (const std::string& name : all_cache_names()) caches.push_back(read_cache(name));
  if (std::none_of(caches.begin(), caches.end(), is_bound)) caches.push_back(read_cache(kBound));
  return caches;
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
      : settings_(settings),
        scenario_(compared_scenario(settings)),
        caches_(caches_to_run(settings.caches, scenario_.systems.front().cache)) {
    if (settings.seeds > std::numeric_limits<std::int64_t>::max() - scenario_.seed)
      throw InputError("--seeds " + std::to_string(settings.seeds),
                       "from seed " + std::to_string(scenario_.seed) + " on there are not so many");
    const std::string document = scenario_document(scenario_, scenario_.systems.front());
    for (const ComparedCache& cache : caches_)
      documents_.push_back(document_with_cache(document, cache.policy, cache.parameters));
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
      budget.caches = caches_;
      for (ComparedCache& row : budget.caches) row.by_seed.resize(settings_.seeds);
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
    if (!settings_.caches.empty() && ask.cache < settings_.caches.size())  // named, not added as the bound
      throw InputError("--cache " + row.name, "cannot be run by system '" + result.system + "' at " +
                                                  budget.budget + ": " + row.refused);
  }

  /// Throws for a budget at which there is nothing to rank.
  [[noreturn]] static void fail_without_rivals(const ComparedBudget& budget) {
    for (const ComparedCache& cache : budget.caches)
      if (!cache.refused.empty() && !cache.knows_future)
        throw InputError("--cache", "none can be run at " + budget.budget + "; why not '" + cache.name +
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
  std::vector<ComparedCache> caches_;   // without what running them adds
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
    if (is_bound(cache) && cache.refused.empty()) return &cache;
  return nullptr;
}

CacheComparison compare_caches(const CompareSettings& settings,
                               const std::function<void(std::size_t, std::size_t)>& progress) {
  return Comparer(settings).compare(progress);
}

}  // namespace moelab
