#include "sim/sweep/run_answer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/results/cause_words.hpp"
#include "sim/results/latency_causes.hpp"
#include "sim/results/request_latencies.hpp"
#include "sim/results/result_json.hpp"
#include "sim/results/text_table.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/served_request.hpp"
#include "sim/sweep/compared_family.hpp"
#include "sim/sweep/uncertain_figure.hpp"

namespace moelab {
namespace {

constexpr double kTimesFrom = 1.1;    // from which ratio on it is said as times, not as percent
constexpr double kLeastCause = 0.05;  // of the time, of a second cause that is worth its words
constexpr const char* kKnowsTheFuture = "which knows the future";

const SystemConfig& config_of(const Scenario& s, const std::string& system) {
  return *std::find_if(s.systems.begin(), s.systems.end(),
                       [&](const SystemConfig& one) { return one.name == system; });
}

/// Why a system is no rival of others, of one that chooses by a policy that is none; "" of a rival.
std::string why_no_rival(const SystemConfig& system) {
  for (const ComparedFamily& of : compared_families())
    if (of.why_not(system).empty() && is_a_bound(of, of.own(system).name))
      return of.name == "cache" ? kKnowsTheFuture : "which tries every order";
  return "";
}

bool all_in_turn(const Scenario& s) {
  return !s.cluster && std::all_of(s.systems.begin(), s.systems.end(),
                                   [&](const SystemConfig& system) { return come_in_turn(s, system); });
}

/// Nothing where it ran under none.
std::optional<double> mean_of_seeds(const std::vector<SeedOutcome>& seeds) {
  std::vector<double> known;
  for (const SeedOutcome& one : seeds)
    if (one.seconds) known.push_back(*one.seconds);
  if (known.empty()) return std::nullopt;
  return mean(known);
}

PairedDifference difference_of(const std::vector<double>& apart, bool by_seed) {
  return {.apart = interval95(apart), .pairs = apart.size(), .by_seed = by_seed};
}

std::map<std::uint32_t, double> by_request(const RunResult& r, JudgedBy by) {
  std::map<std::uint32_t, double> seconds;
  for (const RequestTimes& request : r.metrics.requests) {
    if (!request.measured || !request.answered()) continue;
    const double one = latency_of(request, by == JudgedBy::tpot ? Latency::tpot : Latency::end_to_end);
    if (one >= 0) seconds.emplace(request.number, one);
  }
  return seconds;
}

/// Request by request, where each is served alone.
std::optional<PairedDifference> over_requests(const Scenario& s, const RunResult& first,
                                              const RunResult& second, JudgedBy by) {
  if (s.workload.batch != 1 || !all_in_turn(s)) return std::nullopt;
  const auto a = by_request(first, by), b = by_request(second, by);
  std::vector<double> apart;
  for (const auto& [number, seconds] : a)
    if (const auto other = b.find(number); other != b.end()) apart.push_back(other->second - seconds);
  if (apart.size() < 2) return std::nullopt;
  return difference_of(apart, false);
}

std::optional<PairedDifference> over_seeds(const std::vector<SeedOutcome>& first,
                                           const std::vector<SeedOutcome>& second) {
  std::vector<double> apart;
  bool matter = false;
  for (std::size_t seed = 0; seed < first.size(); ++seed) {
    const std::optional<double>&a = first[seed].seconds, &b = second[seed].seconds;
    if (!a || !b) continue;
    apart.push_back(*b - *a);
    matter |= a != first.front().seconds || b != second.front().seconds;
  }
  if (apart.size() < 2 || !matter) return std::nullopt;  // many seeds are one measurement then
  return difference_of(apart, true);
}

/// `seconds`: of the first of the two. What sums in another order make of equal times is no difference.
NoiseVerdict verdict_of(const std::optional<PairedDifference>& difference, double seconds) {
  constexpr double kRounding = 1e-9;
  if (!difference) return NoiseVerdict::unknown;
  const Interval& apart = difference->apart;
  if (std::abs(apart.mean) + apart.half_width <= kRounding * seconds) return NoiseVerdict::the_same;
  return std::abs(apart.mean) > apart.half_width ? NoiseVerdict::more_than_noise : NoiseVerdict::may_be_noise;
}

std::string ms_text(double seconds) {
  return three_digits(1e3 * seconds, 1) + " ms";
}

std::string timed_text(double seconds, JudgedBy by) {
  return by == JudgedBy::tpot ? ms_text(seconds) + " a token" : three_digits(seconds, 2) + " s a request";
}

std::string apart_text(const PairedDifference& d, JudgedBy by) {
  const double scale = by == JudgedBy::tpot ? 1e3 : 1;
  return three_digits(scale * std::abs(d.apart.mean), 2) + " ± " +
         three_digits(scale * d.apart.half_width, 2) + (by == JudgedBy::tpot ? " ms" : " s");
}

/// "Of 600 requests 447 failed in prism, 12 in eplb."; "... 1 failed in each of the 5 systems."
std::string failed_text(const RunAnswer& a) {
  if (a.requests.empty()) return "";
  const RequestCounts& first = a.requests.front().counts;
  const bool alike = a.requests.size() > 1 &&
                     std::all_of(a.requests.begin(), a.requests.end(), [&](const SystemRequests& one) {
                       return one.counts.failed == first.failed;
                     });
  std::string text;
  for (const SystemRequests& one : a.requests)
    if (one.counts.failed > 0)
      text += (text.empty() ? " failed in " : ", " + std::to_string(one.counts.failed) + " in ") + one.system;
  if (text.empty()) return "";
  if (alike) text = " failed in each of the " + std::to_string(a.requests.size()) + " systems";
  const auto failing = std::find_if(a.requests.begin(), a.requests.end(),
                                    [](const SystemRequests& one) { return one.counts.failed > 0; });
  return "Of " + std::to_string(first.asked) + " requests " + std::to_string(failing->counts.failed) + text +
         (a.seeds > 1 ? ", over " + std::to_string(a.seeds) + " seeds" : "") + ". ";
}

std::string unranked_text(const RunAnswer& a) {
  std::string text;
  for (const UnrankedSystem& one : a.unranked)
    text +=
        " " + one.system +
        (one.seconds ? ", in which more of them failed, is not ranked: " + timed_text(*one.seconds, a.by) +
                           " that it answers."
                     : " answers none.");
  return text;
}

/// What the difference to the second is worth.
std::string noise_text(const RunAnswer& a) {
  const std::string seeds = std::to_string(a.seeds) + " seeds";
  const std::string one_seed =
      a.seeds > 1 ? " The seeds changed nothing." : " The seed was not varied (--seeds 5).";
  if (!a.difference)
    return a.seeds > 1 ? " No seed changes anything here: whether that is noise is not known."
                       : " Whether that is noise is not known: the seed was not varied (--seeds 5).";
  const PairedDifference& d = *a.difference;
  const std::string over = d.by_seed ? seeds : std::to_string(d.pairs) + " requests";
  const std::string one_by_one = d.by_seed ? "seed by seed" : "request by request";
  if (a.noise == NoiseVerdict::the_same) return d.by_seed ? "" : one_seed;
  return (a.noise == NoiseVerdict::more_than_noise ? " That is more than noise: " : " That may be noise: ") +
         apart_text(d, a.by) + " apart " + one_by_one + ", over " + over + "." + (d.by_seed ? "" : one_seed);
}

bool fails(const RunAnswer& a, const std::string& system) {
  return std::any_of(a.requests.begin(), a.requests.end(), [&](const SystemRequests& one) {
    return one.system == system && one.counts.failed > 0;
  });
}

std::string fastest_text(const RunAnswer& a) {
  const TimedSystem& best = a.rivals.front();
  const std::string seeds = a.seeds > 1 ? " (mean of " + std::to_string(a.seeds) + " seeds)" : "";
  if (a.rivals.size() == 1)
    return best.system + " takes " + timed_text(best.seconds, a.by) +
           (fails(a, best.system) ? " that it answers" : "") + seeds + ".";
  const TimedSystem& next = a.rivals[1];
  const double ratio = next.seconds / best.seconds;
  std::string text = best.system + " is the fastest of " + std::to_string(a.rivals.size()) +
                     (a.bounds.empty() ? " systems: " : " rivals: ") + timed_text(best.seconds, a.by) +
                     seeds + ", ";
  const std::string other =
      next.system + " (" +
      (a.by == JudgedBy::tpot ? ms_text(next.seconds) : three_digits(next.seconds, 2) + " s") + ")";
  if (a.noise == NoiseVerdict::the_same || ratio == 1)
    text += "as " + other;
  else if (ratio >= kTimesFrom)
    text += three_digits(ratio, 1) + " times as fast as " + other;
  else
    text += fixed(100 * (1 - 1 / ratio), 1) + " % less than " + other;
  return text + "." + noise_text(a);
}

std::string bounds_text(const RunAnswer& a) {
  std::string text;
  for (const TimedSystem& bound : a.bounds) {
    text += " " + bound.system + ", " + bound.why_no_rival +
            ", is no rival: " + timed_text(bound.seconds, a.by) + ".";
    const bool slower = !a.rivals.empty() && bound.seconds > a.rivals.front().seconds;
    if (slower && bound.why_no_rival == kKnowsTheFuture)
      text += " It misses least of the caches that load as it does, which is not the least time.";
  }
  return text;
}

std::string cause_text(const RunAnswer& a) {
  if (a.causes.empty()) return "";
  const auto share = [](double part) { return fixed(100 * part, 1) + " %"; };
  const std::string whole = a.by == JudgedBy::tpot ? " of the time of its tokens after the first"
                            : a.instances.empty()  ? " of its time"
                                                   : " of the time of " + a.instances.front().words;
  std::string text =
      "What bounds " + a.rivals.front().system + ": " + words_of_cause(a.causes.front().first) +
      (a.bound_by.empty() ? "" : " (" + a.bound_by + ")") + ", " + share(a.causes.front().second) + whole;
  if (a.causes.size() > 1 && a.causes[1].second >= kLeastCause)
    text += "; then " + words_of_cause(a.causes[1].first) + ", " + share(a.causes[1].second);
  for (std::size_t i = 1; i < a.instances.size(); ++i) {
    const InstanceCauses& one = a.instances[i];
    if (one.causes.empty()) continue;
    const auto& [cause, part] = one.causes.front();
    text += ". Of " + one.words + ": " + words_of_cause(cause) + ", " + share(part);
  }
  return text + ".\n";
}

/// "the device's ssd.read"
std::string figure_text(const std::string& figure) {
  const std::string device = "device ";
  return figure.starts_with(device) ? "the device's " + figure.substr(device.size()) : figure;
}

std::string certainty_text(const RunAnswer& a) {
  std::string text;
  if (a.least_certain && a.least_certain->kind == "measured")
    text = "What it rests on was measured, least of all certain is " + figure_text(a.least_certain->figure);
  else if (a.least_certain)
    text = "Least certain is " + figure_text(a.least_certain->figure) + " (" + a.least_certain->kind +
           "), behind " + fixed(100 * a.least_certain->share, 1) + " % of that time";
  if (a.routing.empty()) return text.empty() ? "" : text + ".\n";
  return (text.empty() ? "Least certain is the routing: " : text + "; and the routing: ") + a.routing + ".\n";
}

using Causes = std::vector<std::pair<std::string, double>>;

/// Seconds by cause, and those of `wall_s` in which nothing was there to be served.
Causes with_waiting(const std::array<double, kCauses>& stall_s, double wall_s) {
  Causes causes;
  constexpr double kRounding = 1e-9;
  const double idle = wall_s - std::accumulate(stall_s.begin(), stall_s.end(), 0.0);
  if (idle > kRounding * wall_s) causes.emplace_back(kWaitingCause, idle);
  for (std::size_t c = 0; c < kCauses; ++c)
    if (stall_s[c] > 0) causes.emplace_back(kCauseNames[c], stall_s[c]);
  return causes;
}

/// Seconds by cause of a run on one machine: of decode passes; or of all.
Causes machine_causes(const RunResult& r, JudgedBy by) {
  return by == JudgedBy::tpot ? with_waiting(r.metrics.decode_stall_s, 0)
                              : with_waiting(r.metrics.stall_s, r.metrics.wall_s);
}

/// Shares of the whole, most first.
Causes shares_of(Causes causes) {
  double all = 0;
  for (const auto& [cause, seconds] : causes) all += seconds;
  for (auto& [cause, seconds] : causes) seconds /= all;
  std::stable_sort(causes.begin(), causes.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return causes;
}

/// Of the time that it is judged by.
Causes causes_of(const RunResult& r, JudgedBy by) {
  return shares_of(r.cluster.servers.empty() ? machine_causes(r, by) : latency_causes(r));
}

/// Empty where the system has one.
std::vector<InstanceCauses> instance_causes(const RunResult& r) {
  std::vector<InstanceCauses> all;
  const InstancesResult& instances = r.instances;
  if (instances.servers.size() < 2) return all;
  for (const std::size_t place : instances.busiest()) {
    const InstanceResult& one = instances.servers[place];
    all.push_back(
        {one.name, instances.busiest_words(place), shares_of(with_waiting(one.stall_s, r.metrics.wall_s))});
  }
  return all;
}

void explain_fastest(const Scenario& s, const RunResult& fastest, RunAnswer& a) {
  a.causes = causes_of(fastest, a.by);
  if (a.causes.empty()) return;
  a.instances = instance_causes(fastest);
  const SystemConfig& system = config_of(s, fastest.system);
  a.bound_by = place_of_cause(a.causes.front().first, s, system, fastest);
  a.least_certain = least_certain_figure(a.causes, s, system, fastest);
  if (!s.cluster && !fastest.routing.starts_with("recorded") && s.model.is_moe() &&
      rests_on_routing(a.causes))
    a.routing = fastest.routing;
}

/// Nothing where no request was begun once the first one was answered, or where requests wait for each other.
std::optional<FirstRequest> first_request_of(const Scenario& s, const RunResult& r) {
  const std::vector<RequestTimes>& requests = r.metrics.requests;
  if (s.cluster || requests.empty() || !come_in_turn(s, config_of(s, r.system))) return std::nullopt;
  const RequestTimes& first = *std::min_element(
      requests.begin(), requests.end(),
      [](const RequestTimes& a, const RequestTimes& b) { return a.started_s < b.started_s; });
  if (!first.measured || !first.answered()) return std::nullopt;
  std::vector<double> later;
  for (const RequestTimes& one : requests)
    if (one.measured && one.answered() && one.started_s >= first.end_s)
      later.push_back(latency_of(one, Latency::ttft));
  if (later.empty()) return std::nullopt;
  return FirstRequest{r.system, latency_of(first, Latency::ttft), mean(later), later.size()};
}

}  // namespace

std::optional<RunBound> run_bound(const Scenario& s, const SystemConfig& system, const RunResult& result,
                                  bool at_work) {
  const RunAnswer answer = run_answer(s, {result});
  for (const auto& [cause, share] : answer.causes) {
    if (at_work && is_waiting(cause)) continue;
    std::string place = place_of_cause(cause, s, system, result);
    if (!answer.instances.empty()) place += (place.empty() ? "" : " of ") + answer.instances.front().words;
    return RunBound{cause, place, share};
  }
  return std::nullopt;
}

std::string first_requests_text(const RunAnswer& a) {
  constexpr double kApart = 0.1;  // of the later ones' TTFT
  std::string text;
  for (const FirstRequest& f : a.first_requests)
    if (std::abs(f.ttft_s - f.later_ttft_s) > kApart * f.later_ttft_s)
      text += "TTFT of " + f.system + ": " + three_digits(f.ttft_s, 2) +
              " s of the first request, with its cache as the run begins, " +
              three_digits(f.later_ttft_s, 2) + " s of the " +
              (f.later > 1 ? "later ones on average" : "later one") + ".\n";
  return text;
}

JudgedBy judged_by(const Scenario& s, const std::vector<RunResult>& results) {
  const bool all_have = std::all_of(results.begin(), results.end(), [](const RunResult& r) {
    return r.memory.shortfall > Bytes(0) || judged_latency(r, JudgedBy::tpot);
  });
  return judged_by(s, all_have);
}

JudgedBy judged_by(const Scenario& s, bool all_have_tpot) {
  return all_in_turn(s) && all_have_tpot ? JudgedBy::tpot : JudgedBy::end_to_end;
}

const JudgedWords& judged_words(JudgedBy by) {
  static constexpr JudgedWords tpot = {"tpot_s", "TPOT", "time per output token", "ms", "a token", 1e3};
  static constexpr JudgedWords end_to_end = {
      "end_to_end_s", "end-to-end", "latency of a request", "s", "a request", 1};
  return by == JudgedBy::tpot ? tpot : end_to_end;
}

std::optional<double> judged_latency(const RunResult& r, JudgedBy by) {
  if (r.memory.shortfall > Bytes(0)) return std::nullopt;
  const std::vector<double> seconds =
      by == JudgedBy::tpot ? request_latencies(r.metrics).of(Latency::tpot) : r.metrics.end_to_end_s;
  if (seconds.empty()) return std::nullopt;
  return mean(seconds);
}

std::string to_string(NoiseVerdict verdict) {
  switch (verdict) {
    case NoiseVerdict::more_than_noise:
      return "more_than_noise";
    case NoiseVerdict::may_be_noise:
      return "may_be_noise";
    case NoiseVerdict::the_same:
      return "the_same";
    case NoiseVerdict::unknown:
      break;
  }
  return "unknown";
}

SeedOutcome seed_outcome(const RunResult& r, JudgedBy by) {
  return {judged_latency(r, by), request_counts(r.cluster)};
}

namespace {

/// The results that are ranked, by their place: the fastest first. Tells the others apart.
std::vector<std::size_t> rank_systems(const Scenario& s, const std::vector<RunResult>& results,
                                      const std::vector<std::vector<SeedOutcome>>& by_seed, RunAnswer& a) {
  std::uint64_t fewest = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].cluster.servers.empty()) continue;
    SystemRequests& one = a.requests.emplace_back(SystemRequests{results[i].system, {}});
    for (const SeedOutcome& seed : by_seed[i]) one.counts.add(seed.requests);
    if (why_no_rival(config_of(s, results[i].system)).empty()) fewest = std::min(fewest, one.counts.failed);
  }
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string& name = results[i].system;
    const std::optional<double> seconds = mean_of_seeds(by_seed[i]);
    const auto counted = std::find_if(a.requests.begin(), a.requests.end(),
                                      [&](const SystemRequests& one) { return one.system == name; });
    if (counted != a.requests.end() && (!seconds || counted->counts.failed > fewest))
      a.unranked.push_back({name, seconds});
    else if (std::string why = why_no_rival(config_of(s, name)); seconds && !why.empty())
      a.bounds.push_back({name, *seconds, std::move(why)});
    else if (seconds)
      order.emplace_back(*seconds, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::size_t> places;
  for (const auto& [seconds, i] : order) {
    a.rivals.push_back({results[i].system, seconds, ""});
    places.push_back(i);
  }
  return places;
}

/// Of an answer without rivals.
std::string no_rivals_text(const RunAnswer& a) {
  const std::string text = failed_text(a) + (a.bounds.empty() ? "" : bounds_text(a).substr(1));
  if (!text.empty()) return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  return a.unranked.empty() ? "No system could be run.\n" : "No request was answered.\n";
}

}  // namespace

RunAnswer run_answer(const Scenario& s, const std::vector<RunResult>& results,
                     const std::vector<std::vector<SeedOutcome>>& more_seeds) {
  RunAnswer a;
  a.by = judged_by(s, results);
  for (const RunResult& r : results)
    if (auto first = first_request_of(s, r)) a.first_requests.push_back(std::move(*first));
  auto by_seed = more_seeds;
  if (by_seed.empty())
    for (const RunResult& r : results) by_seed.push_back({seed_outcome(r, a.by)});
  if (!by_seed.empty()) a.seeds = by_seed.front().size();
  const std::vector<std::size_t> order = rank_systems(s, results, by_seed, a);
  if (order.empty()) {
    a.text = no_rivals_text(a);
    return a;
  }
  if (order.size() > 1) {
    const std::size_t first = order[0], second = order[1];
    if (a.seeds > 1) a.difference = over_seeds(by_seed[first], by_seed[second]);
    if (!a.difference) a.difference = over_requests(s, results[first], results[second], a.by);
    a.noise = verdict_of(a.difference, a.rivals.front().seconds);
  }
  explain_fastest(s, results[order.front()], a);
  a.text = failed_text(a) + fastest_text(a) + unranked_text(a) + bounds_text(a) + "\n" + cause_text(a) +
           certainty_text(a);
  return a;
}

std::vector<std::vector<SeedOutcome>> outcomes_by_seed(
    const Scenario& scenario, const std::vector<RunResult>& results, std::uint64_t seeds,
    const std::function<std::vector<RunResult>(std::uint64_t seed)>& run_with) {
  if (seeds == 1) return {};
  const JudgedBy by = judged_by(scenario, results);
  std::vector<std::vector<SeedOutcome>> outcomes;
  for (const RunResult& r : results) outcomes.push_back({seed_outcome(r, by)});
  for (std::uint64_t more = 1; more < seeds; ++more) {
    const std::vector<RunResult> again = run_with(scenario.seed + more);
    for (std::size_t i = 0; i < again.size(); ++i) outcomes[i].push_back(seed_outcome(again[i], by));
  }
  return outcomes;
}

void check_seeds(const Scenario& scenario, std::uint64_t seeds, const std::string& what) {
  if (seeds > std::numeric_limits<std::int64_t>::max() - scenario.seed)
    throw InputError(what + " " + std::to_string(seeds),
                     "from seed " + std::to_string(scenario.seed) + " on there are not so many");
}

namespace {

/// On a cluster.
void add_requests(const RunAnswer& a, nlohmann::ordered_json& j) {
  if (a.requests.empty()) return;
  j["unranked"] = j["requests"] = nlohmann::ordered_json::array();
  for (const UnrankedSystem& one : a.unranked)
    j["unranked"].push_back(
        {{"system", one.system},
         {"seconds", one.seconds ? nlohmann::ordered_json(*one.seconds) : nlohmann::ordered_json()}});
  for (const SystemRequests& one : a.requests)
    j["requests"].push_back({{"system", one.system},
                             {"asked", one.counts.asked},
                             {"failed", one.counts.failed},
                             {"delayed", one.counts.delayed}});
}

}  // namespace

nlohmann::ordered_json answer_json(const RunAnswer& a) {
  using Json = nlohmann::ordered_json;
  const auto systems = [](const std::vector<TimedSystem>& timed) {
    Json list = Json::array();
    for (const TimedSystem& one : timed) list.push_back({{"system", one.system}, {"seconds", one.seconds}});
    return list;
  };
  Json causes = Json::array();
  for (const auto& [cause, share] : a.causes) causes.push_back({{"cause", cause}, {"share", share}});
  Json j = {{"text", a.text},
            {"judged_by", judged_words(a.by).key},
            {"fastest", a.rivals.empty() ? Json() : Json(a.rivals.front().system)},
            {"systems", systems(a.rivals)},
            {"bounds", systems(a.bounds)},
            {"seeds", a.seeds},
            {"noise", to_string(a.noise)},
            {"difference", nullptr},
            {"bound_by", a.bound_by},
            {"causes", causes},
            {"least_certain", nullptr},
            {"routing", a.routing},
            {"first_requests", Json::array()}};
  if (!a.instances.empty()) j["causes_of"] = a.instances.front().words;
  add_requests(a, j);
  for (const FirstRequest& f : a.first_requests)
    j["first_requests"].push_back({{"system", f.system},
                                   {"ttft_s", f.ttft_s},
                                   {"later_ttft_s", f.later_ttft_s},
                                   {"later_requests", f.later}});
  if (a.difference)
    j["difference"] = {{"mean_s", a.difference->apart.mean},
                       {"half_width_s", a.difference->apart.half_width},
                       {"pairs", a.difference->pairs},
                       {"over", a.difference->by_seed ? "seeds" : "requests"}};
  if (a.least_certain)
    j["least_certain"] = {{"figure", a.least_certain->figure},
                          {"kind", a.least_certain->kind},
                          {"share", a.least_certain->share}};
  return j;
}

std::string answered_results_json(const std::vector<RunResult>& results, const RunAnswer& answer) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(results_json(results));
  const nlohmann::ordered_json of_all = answer_json(answer);
  if (json.is_object())
    json["answer"] = of_all;
  else
    for (nlohmann::ordered_json& result : json) result["answer"] = of_all;
  return json.dump(2) + "\n";
}

}  // namespace moelab
