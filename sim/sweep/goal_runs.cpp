#include "sim/sweep/goal_runs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/json.hpp"
#include "models/nothing_fits.hpp"
#include "models/units.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/simgrid_module.hpp"
#include "sim/sweep/point_workers.hpp"
#include "sim/sweep/refused_run.hpp"
#include "sim/sweep/run_answer.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

/// What stands under a dotted path in a scenario's document, where overrides are applied already; null: none.
Json value_at(const Json& document, std::string path) {
  // The document has the one system that is run.
  if (const std::string list = "systems."; path.starts_with(list))
    path = list + "0" + path.substr(std::min(path.find('.', list.size()), path.size()));
  for (const auto& [prefix, place] :
       {std::pair<std::string, std::string>{"overrides.system.", "systems.0."}, {"overrides.", ""}})
    if (path.starts_with(prefix)) {
      path = place + path.substr(prefix.size());
      break;
    }
  const Json* at = &document;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string key = path.substr(begin, end - begin);
    const bool number = !key.empty() && key.find_first_not_of("0123456789") == key.npos && key.size() < 6;
    if (at->is_object() && at->contains(key))
      at = &(*at)[key];
    else if (at->is_array() && number && std::stoul(key) < at->size())
      at = &(*at)[std::stoul(key)];
    else
      return nullptr;
    begin = end + 1;
  }
  return at->is_object() && at->contains("value") ? (*at)["value"] : *at;
}

/// Whether a setting is refused for its key, not for its value.
bool leads_nowhere(const Problem& problem) {
  const std::string& what = problem.what;
  return what.starts_with("unknown key ") || what.find("has no such key") != what.npos ||
         what.find("; it has no '") != what.npos || what.starts_with("changes a profile");
}

/// With the requests of a run set, where they are not the scenario's own.
GoalSettings with_requests(GoalSettings asked) {
  if (asked.requests > 0 && asked.path == "workload.requests")
    throw InputError("--requests " + std::to_string(asked.requests),
                     "is the key that is searched; expected one of the two");
  std::optional<std::uint64_t> requests;
  if (asked.requests > 0) requests = asked.requests;
  if (is_request_rate(asked.path))
    requests = requests_at_rate(load_scenario(asked.scenario, asked.settings).workload, asked.requests);
  if (requests) asked.settings.emplace_back("workload.requests", std::to_string(*requests));
  return asked;
}

class GoalRuns {
 public:
  GoalRuns(const GoalSettings& asked, const std::function<void(std::size_t, std::size_t)>& progress)
      : asked_(with_requests(asked)), progress_(progress), scenario_(read(asked_.settings)) {
    if (scenario_.cluster) engine::load_simgrid();
    if (asked.seeds > std::numeric_limits<std::int64_t>::max() - scenario_.seed)
      throw InputError("--seeds " + std::to_string(asked.seeds),
                       "from seed " + std::to_string(scenario_.seed) + " on there are not so many");
    system_ = scenario_.systems.front().name;
    check_path();
    found_.scenario = scenario_.name;
    found_.system = system_;
    found_.path = asked.path;
    found_.model = scenario_.model.title;
    found_.device = scenario_.cluster ? scenario_.cluster->profile.title : scenario_.device.title;
    found_.first_seed = scenario_.seed;
    found_.requests = scenario_.workload.requests;
    found_.as_load = is_request_rate(asked.path) && asked.condition && asked.condition->below &&
                     asked.condition->metric.kind == GoalMetric::Kind::latency;
    const AskedDomain domain = asked_domain();
    if (domain.now.empty()) check_leads();
    found_.domain = goal_domain(domain);
    keep_possible();
    check_ends();
  }

  GoalFound search() {
    if (asked_.condition)
      search_threshold();
    else
      search_best(asked_.smallest ? -1 : 1);
    return std::move(found_);
  }

 private:
  /// A seed is no goal's key, and a system of the scenario by its number is the one that is run.
  void check_path() const {
    if (asked_.path == "seed") throw InputError("key 'seed'", "is what chance draws from; expected --seeds");
    const std::string list = "systems.";
    if (!asked_.path.starts_with(list)) return;
    const std::string number =
        asked_.path.substr(list.size(), asked_.path.find('.', list.size()) - list.size());
    const Scenario all = load_scenario(asked_.scenario, asked_.settings);
    for (std::size_t i = 0; i < all.systems.size(); ++i)
      if (std::to_string(i) == number && all.systems[i].name != system_)
        throw InputError("key '" + shown_word(asked_.path) + "'",
                         "is of system '" + all.systems[i].name + "', and '" + system_ +
                             "' is run; expected --system " + all.systems[i].name);
  }

  /// A key that leads nowhere is refused as --set refuses it, before any range is asked for.
  void check_leads() const {
    auto settings = asked_.settings;
    settings.emplace_back(asked_.path, "1");
    try {
      read(settings);
    } catch (const InputError& error) {
      Problems nowhere;  // of a key that there is, "1" may be refused for want of a unit
      for (const Problem& problem : error.problems())
        if (leads_nowhere(problem)) nowhere.add(problem);
      nowhere.throw_if_any();
    }
  }

  Scenario read(const std::vector<std::pair<std::string, std::string>>& settings) const {
    std::vector<std::string> only;
    if (!asked_.system.empty()) only.push_back(asked_.system);
    Scenario s = load_scenario(asked_.scenario, settings, only);
    check_listed(s, only, "--system");
    const SystemConfig system = s.systems.front();
    s.systems.resize(1, system);
    return s;
  }

  /// From one GPU to all that the device has.
  void add_gpus(AskedDomain& domain) const {
    if (!scenario_.device.gpu || !scenario_.device.gpu->node) return;
    if (domain.from.empty()) domain.from = "1";
    domain.most = shortest_text(scenario_.device.gpu->node->gpus.value);
    if (domain.to.empty()) domain.to = domain.most;
  }

  AskedDomain asked_domain() const {
    AskedDomain domain = asked_.domain;
    domain.key = asked_.path;
    const Json now = value_at(Json::parse(scenario_.document), asked_.path);
    if (now.is_number() || now.is_string())
      domain.now = now.is_string() ? now.get<std::string>() : now.dump();
    domain.whole |= now.is_number_integer() && domain.step.find('.') == domain.step.npos &&
                    domain.from.find('.') == domain.from.npos && domain.to.find('.') == domain.to.npos;
    if (asked_.path == "tensor_parallel" || asked_.path == "data_parallel") add_gpus(domain);
    if (asked_.path == "budget" && !scenario_.cluster)
      domain.most = to_exact_string(scenario_.device.usable_memory());
    return domain;
  }

  std::vector<std::pair<std::string, std::string>> with_value(std::size_t place) const {
    auto settings = asked_.settings;
    settings.emplace_back(asked_.path, found_.domain.text(place));
    return settings;
  }

  /// Of whole numbers that divide something (GPUs, heads) few are possible: the others, which reading the
  /// scenario refuses, are left out. Of more than kLookedAt values only where one of a few is refused.
  void keep_possible() {
    constexpr std::size_t kLookedAt = 64, kMost = 1024;
    const std::size_t last = found_.domain.last();
    if (!found_.domain.whole || last >= kMost) return;
    std::map<std::size_t, std::string> refused;
    const auto look_at = [&](std::size_t place) {
      try {
        read(with_value(place));
      } catch (const InputError& error) {
        refused[place] = error.problems().front().what;
      }
    };
    if (last >= kLookedAt) {
      for (std::size_t i = 0; i < asked_.points; ++i) look_at(i * last / (asked_.points - 1));
      if (refused.empty()) return;
    }
    refused.clear();
    for (std::size_t place = 0; place <= last; ++place) look_at(place);
    if (refused.empty() || refused.size() > last) return;  // all: check_ends() says why
    std::vector<double> possible;
    for (std::size_t place = 0; place <= last; ++place)
      if (const auto found = refused.find(place); found != refused.end())
        found_.not_possible.emplace_back(found_.domain.at(place), found->second);
      else
        possible.push_back(found_.domain.at(place));
    found_.domain.values = std::move(possible);
  }

  /// A key that is none, or takes no such value, is refused before anything runs; a value that only one end
  /// may not have is a point that cannot be run.
  void check_ends() const {
    try {
      read(with_value(0));
    } catch (const InputError& low) {
      try {
        read(with_value(found_.domain.last()));
      } catch (const InputError&) {
        throw InputError(low);
      }
    }
  }

  std::string one(std::size_t place, std::uint64_t seed) const {
    try {
      auto settings = with_value(place);
      settings.emplace_back("seed", std::to_string(scenario_.seed + seed));
      const Scenario s = read(settings);
      const RoutingTrace trace = scenario_trace(s);
      const std::optional<RankInclusion> statistics = check_scenario(s, trace);
      RunOptions options;
      if (statistics) options.statistics = &*statistics;
      if (s.cluster) options.executor = ExecutorKind::simgrid;
      const SystemConfig& system = s.systems.front();
      const RunResult result = run_system(s, system, trace, options);
      check_fits(result);
      const std::optional<double> value = value_of(asked_.metric, result, system.kept_as);
      if (!value)
        throw InputError(s.name, "no request has a " + asked_.metric.text + ", or nothing is counted there");
      const RequestCounts requests = request_counts(result.cluster);
      Json json{{"value", *value},
                {"page_cache", page_cache_beside_budget(s, result).value()},
                {"requests", {requests.asked, requests.failed, requests.delayed}}};
      if (found_.as_load)
        json["kept_up"] = verdict_of(backlog_of(result.metrics.requests),
                                     offered_rate(s.workload, s.workload.arrivals_per_s));
      // At a rate waiting for requests is no bound.
      if (const auto bound = run_bound(s, system, result, is_request_rate(asked_.path)))
        json.update({{"cause", bound->cause}, {"share", bound->share}, {"place", bound->place}});
      return json.dump();
    } catch (const InputError& error) {
      return refused_run(error);
    }
  }

  void enter(std::size_t place, const ChildOutcome& outcome) {
    if (outcome.kind != ChildOutcome::Kind::done)
      throw InputError(asked_.scenario, "a run cannot be made: " + outcome.text);
    const Json json = Json::parse(outcome.text);
    GoalPoint& point = found_.points[place];
    if (json.contains("refused")) {
      point.refused = json["refused"].get<std::string>();
      point.lacks_memory = json["lacks_memory"];
      return;
    }
    point.by_seed.push_back(json["value"]);
    point.page_cache = Bytes(json["page_cache"].get<double>());
    const Json& requests = json["requests"];
    point.requests.add({requests[0], requests[1], requests[2]});
    if (json.contains("kept_up")) point.kept_up.push_back(json["kept_up"].get<LoadVerdict>());
    found_.seeds_matter |= point.by_seed.back() != point.by_seed.front();
    if (point.by_seed.size() > 1 || !json.contains("cause")) return;
    point.cause = json["cause"].get<std::string>();
    point.place = json["place"].get<std::string>();
    point.share = json["share"];
  }

  /// Those that are not known yet.
  void run(const std::vector<std::size_t>& places) {
    std::vector<std::pair<std::size_t, std::uint64_t>> asks;
    for (const std::size_t place : places)
      if (!found_.points.contains(place))
        for (std::uint64_t seed = 0; seed < asked_.seeds; ++seed) asks.emplace_back(place, seed);
    wanted_ += asks.size();
    std::vector<ChildOutcome> outcomes(asks.size());
    ForkedWorkers workers(asked_.jobs, {});
    for (std::size_t next = 0, done = 0; done < asks.size();) {
      for (; next < asks.size() && workers.room() > 0; ++next)
        workers.start_work(next, [this, ask = asks[next]] { return one(ask.first, ask.second); });
      for (auto& [number, outcome] : workers.wait(1)) {
        ++done;
        outcomes[number] = std::move(outcome.child);
        if (progress_) progress_(++done_, wanted_);
      }
    }
    // In the order asked for: what is said does not depend on which ended first.
    for (std::size_t i = 0; i < asks.size(); ++i) enter(asks[i].first, outcomes[i]);
    for (const std::size_t place : places)  // of seeds that cannot all be run, none counts
      if (!found_.points[place].refused.empty()) {
        found_.points[place].by_seed.clear();
        found_.points[place].kept_up.clear();
      }
  }

  /// Looks at the ends and points between, and where the best of the metric is if none of them will do.
  void search_threshold() {
    find_sides({});
    found_.kind = GoalKind::holds;
    if (!found_.threshold.ranges.empty()) return;
    const GoalCondition& condition = *asked_.condition;
    search_best(condition.below ? -1 : 1);
    found_.kind = GoalKind::nowhere;
    if (!holds_at(asked_, found_, found_.points.at(found_.best->place))) return;
    find_sides({found_.best->place});
    found_.kind = GoalKind::holds;
    found_.best.reset();
    found_.like_best.clear();
  }

  void find_sides(const std::vector<std::size_t>& also) {
    const GoalCondition& condition = *asked_.condition;
    found_.threshold = find_threshold(
        found_.domain.last(), asked_.points,
        [&](const std::vector<std::size_t>& places) {
          run(places);
          std::vector<GoalSide> sides;
          for (const std::size_t place : places) {
            const GoalPoint& point = found_.points.at(place);
            if (point.by_seed.empty()) {
              sides.push_back({false, true});
              continue;
            }
            const Interval interval = point.interval();
            sides.push_back({holds_at(asked_, found_, point),
                             found_.as_load || !found_.seeds_matter ||
                                 std::abs(interval.mean - condition.limit) > interval.half_width});
          }
          return sides;
        },
        also);
  }

  /// `sign` 1: the largest, -1: the smallest.
  void search_best(double sign) {
    found_.best = find_best(found_.domain.last(), asked_.points, [&](const std::vector<std::size_t>& places) {
      run(places);
      std::vector<std::optional<double>> values;
      for (const std::size_t place : places) {
        const GoalPoint& point = found_.points.at(place);
        values.push_back(point.by_seed.empty() ? std::nullopt : std::optional(sign * mean(point.by_seed)));
      }
      return values;
    });
    if (!found_.best) fail_everywhere();
    found_.best->value *= sign;
    enter_like_best();
  }

  [[noreturn]] void fail_everywhere() const {
    const auto& [place, point] = *found_.points.begin();
    const std::string who = "system '" + system_ + "'";
    const std::string why = "gives no " + asked_.metric.text + " at any of the " +
                            std::to_string(found_.points.size()) + " values looked at (--points), from " +
                            found_.domain.shown(0) + " to " + found_.domain.shown(found_.domain.last()) +
                            "; at " + found_.domain.shown(place) + ": " + point.refused;
    if (std::all_of(found_.points.begin(), found_.points.end(),
                    [](const auto& one) { return one.second.lacks_memory; }))
      throw NothingFits(who, why);
    throw InputError(who, why);
  }

  void enter_like_best() {
    const std::vector<double>& best = found_.points.at(found_.best->place).by_seed;
    for (const auto& [place, point] : found_.points) {
      if (point.by_seed.empty()) continue;
      std::vector<double> apart;
      for (std::size_t seed = 0; seed < best.size(); ++seed)
        apart.push_back(point.by_seed[seed] - best[seed]);
      const Interval interval = interval95(apart);
      if (std::abs(interval.mean) <= interval.half_width) found_.like_best.push_back(place);
    }
  }

  const GoalSettings asked_;
  const std::function<void(std::size_t, std::size_t)>& progress_;
  Scenario scenario_;
  std::string system_;
  GoalFound found_;
  std::size_t done_ = 0, wanted_ = 0;
};

}  // namespace

bool is_request_rate(const std::string& path) {
  return path == "workload.arrivals_per_s";
}

GoalFigure figure_at(const GoalFound& found, const GoalPoint& point) {
  if (!found.as_load) {
    const Interval of = point.interval();
    return {of.mean, of.mean - of.half_width, of.mean + of.half_width};
  }
  std::vector<double> sorted = point.by_seed;
  std::sort(sorted.begin(), sorted.end());
  return {sorted[seeds_that_decide(sorted.size()) - 1], sorted.front(), sorted.back()};
}

bool holds_at(const GoalSettings& asked, const GoalFound& found, const GoalPoint& point) {
  if (!found.as_load) return asked.condition->holds(point.interval().mean);
  std::size_t held = 0;
  for (std::size_t seed = 0; seed < point.by_seed.size(); ++seed)
    if (point.kept_up[seed] == LoadVerdict::steady && asked.condition->holds(point.by_seed[seed])) ++held;
  return held >= seeds_that_decide(point.by_seed.size());
}

GoalFound search_goal(const GoalSettings& settings,
                      const std::function<void(std::size_t, std::size_t)>& progress) {
  return GoalRuns(settings, progress).search();
}

}  // namespace moelab
