#include "cli/load_limits.hpp"

#include <algorithm>
#include <cmath>

#include "cli/load_values.hpp"
#include "models/json.hpp"
#include "sim/results/cause_words.hpp"
#include "sim/results/text_table.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Clauses that some seed does not meet, each with its largest value.
std::vector<FailedClause> failed_clauses(const ServiceLevel& level, const std::vector<LoadSample>& samples) {
  std::vector<FailedClause> failed;
  for (std::size_t i = 0; i < level.clauses.size(); ++i) {
    double most = -1;
    for (const LoadSample& sample : samples)
      if (!sample.holding[i]) most = std::max(most, sample.level_values[i]);
    if (most >= 0) failed.push_back({level.clauses[i], most});
  }
  std::stable_sort(failed.begin(), failed.end(), [](const FailedClause& a, const FailedClause& b) {
    return a.value_s / a.clause.limit_s > b.value_s / b.clause.limit_s;
  });
  return failed;
}

LoadLimit limit_at(const LoadReport& r, double rate, LoadVerdict verdict,
                   const std::vector<LoadSample>& samples) {
  LoadLimit limit{.rate = rate, .verdict = verdict};
  double met = 1;
  for (const LoadSample& sample : samples) {
    limit.preemptions += sample.preemptions;
    met = std::min(met, sample.met_share());
  }
  if (r.rule.share)
    limit.met_share = met;
  else
    limit.failed = failed_clauses(r.runs->level(), samples);
  const LoadSample& first = samples.front();
  limit.cause = first.cause;
  limit.place = first.place;
  limit.cause_share = first.cause_share;
  return limit;
}

/// "612 ms", "3.4 s"
std::string time_text(double seconds) {
  return seconds < 1 ? significant(1e3 * seconds) + " ms" : significant(seconds) + " s";
}

/// "ttft p95 612 ms > 500 ms"
std::string failed_text(const FailedClause& failed) {
  const std::string clause = to_string(failed.clause);
  const bool equal = failed.value_s == failed.clause.limit_s;
  return clause.substr(0, clause.find(" < ")) + " " + time_text(failed.value_s) + (equal ? " >= " : " > ") +
         time_text(failed.clause.limit_s);
}

}  // namespace

std::optional<LoadLimit> limit_of(const LoadReport& r, std::span<const LoadPoint> points) {
  const LoadPoint* const best = best_point(points);
  for (const LoadPoint& point : points) {
    if (!point.samples.front().refusal.empty()) return std::nullopt;
    if ((best != nullptr && point.rate <= best->rate) || point.verdict == LoadVerdict::unsettled) continue;
    return limit_at(r, point.rate, point.verdict, point.samples);
  }
  return std::nullopt;
}

std::optional<LoadLimit> limit_of(const LoadReport& r, const HighestRate& found) {
  for (std::size_t seed = 0; seed < found.by_seed.size(); ++seed) {
    if (found.by_seed[seed] != found.median()) continue;
    const RateMissed& missed = found.above[seed];
    if (!std::isfinite(missed.rate) || missed.verdict == LoadVerdict::unsettled) return std::nullopt;
    return limit_at(r, missed.rate, missed.verdict, {missed.sample});
  }
  return std::nullopt;
}

std::string limit_words(const LoadLimit& limit) {
  std::string why = limit.verdict == LoadVerdict::saturated ? "saturated" : "";
  const auto add = [&why](const std::string& more) { why += (why.empty() ? "" : ", ") + more; };
  for (const FailedClause& failed : limit.failed) add(failed_text(failed));
  if (limit.met_share) add(fixed(100 * *limit.met_share, 1) + " % of requests within all limits");
  std::string text = "at " + rate_text(limit.rate) + ": " + why;
  if (!limit.cause.empty())
    text += "; bound there by " + bound_words(limit.cause, limit.place, limit.cause_share);
  if (limit.preemptions > 0)
    text += "; memory for the KV cache is short: " + std::to_string(limit.preemptions) +
            (limit.preemptions == 1 ? " preemption" : " preemptions");
  return text;
}

Json limit_json(const std::optional<LoadLimit>& limit) {
  if (!limit) return nullptr;
  Json failed = Json::array();
  for (const FailedClause& one : limit->failed)
    failed.push_back(
        {{"condition", to_string(one.clause)}, {"value_s", one.value_s}, {"limit_s", one.clause.limit_s}});
  Json bound = nullptr;
  if (!limit->cause.empty())
    bound = {{"cause", limit->cause}, {"place", limit->place}, {"share", limit->cause_share}};
  return {{"rate_per_s", limit->rate}, {"verdict", to_string(limit->verdict)},
          {"failed", failed},          {"met_share", limit->met_share ? Json(*limit->met_share) : Json()},
          {"bound_by", bound},         {"preemptions", limit->preemptions}};
}

}  // namespace moelab::cli
