#include "cli/load_report.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <span>

#include "cli/layer_table.hpp"
#include "cli/load_classes.hpp"
#include "cli/load_costs.hpp"
#include "cli/load_limits.hpp"
#include "cli/load_values.hpp"
#include "models/stored_weights.hpp"
#include "sim/results/text_table.hpp"

namespace moelab::cli {
namespace {

std::string name_of(const LoadReport& r, std::size_t system) {
  return one_line(r.runs->scenario().systems[system].name);
}

using Rows = std::vector<std::vector<std::string>>;

bool has_level(const LoadReport& r) {
  return !r.runs->level().clauses.empty();
}

/// What is asked of a rate, in words that follow "meets".
std::string level_text(const LoadReport& r) {
  const std::string level = one_line(r.runs->level().text);
  if (!r.rule.share) return "'" + level + "'";
  return "the limits of '" + level + "' for " + significant(100 * *r.rule.share) + " % of the requests";
}

/// ", the first 100 and the last 50 left out"
std::string left_out_text(const LeftOutEnds& out) {
  const std::uint64_t first = out.warm_up ? out.warm_up->requests : 0;
  const std::uint64_t last = out.cool_down ? out.cool_down->requests : 0;
  if (first + last == 0) return "";
  std::string text = first > 0 ? ", the first " + std::to_string(first) : "";
  if (last > 0) text += (first > 0 ? " and the last " : ", the last ") + std::to_string(last);
  return text + " left out";
}

std::string title_of(const LoadReport& r) {
  const Scenario& s = r.runs->scenario();
  const std::size_t seeds = r.runs->seeds();
  return one_line(s.name + ": " + title_with_weights(s.model, s.gpus(), s.expert_parallel) + " on " +
                  s.place_title()) +
         "\n" + std::to_string(r.runs->requests()) + " requests a run, seed" +
         (seeds == 1 ? " " + std::to_string(s.seed)
                     : "s " + std::to_string(s.seed) + " to " + std::to_string(s.seed + seeds - 1)) +
         ", arrivals " + arrivals_text(s) + left_out_text(s.workload.left_out) + "\n";
}

/// Of the best point of a system: what it came to.
std::string best_text(const LoadReport& r, const LoadPoint& best) {
  const std::string name = name_of(r, best.system);
  std::string text = name + (has_level(r) ? " meets " + level_text(r) + " up to " : " keeps up with ") +
                     rate_text(best.rate);
  if (!has_level(r)) return text;
  return text + " (" + fixed(100 * mean_of(best, &LoadSample::met_share).value_or(0), 1) +
         " % of requests within all limits, goodput " +
         fixed(mean_of(best, &LoadSample::goodput).value_or(0), 2) + " requests/s)";
}

/// From which rate on a system no longer keeps up, among those that were run.
std::string saturated_text(std::span<const LoadPoint> points) {
  for (const LoadPoint& point : points)
    if (point.verdict == LoadVerdict::saturated) return "; saturated at " + rate_text(point.rate);
  return "";
}

bool is_unsettled(const LoadPoint& point) {
  return point.verdict == LoadVerdict::unsettled;
}

std::string these_rates(std::size_t rates) {
  return rates == 1 ? "this rate" : "any of these rates";
}

/// The rates at which too few requests came to tell: "this rate", or those of several that are so.
std::string unsettled_rates(std::span<const LoadPoint> points, std::size_t unsettled) {
  if (unsettled == points.size()) return these_rates(unsettled);
  std::string text;
  for (const LoadPoint& point : points)
    if (is_unsettled(point)) text += (text.empty() ? "" : ", ") + significant(point.rate);
  return text + " requests/s";
}

/// Of a system that meets what is asked at no rate of those that were run.
std::string none_sentence(const LoadReport& r, std::span<const LoadPoint> points) {
  const std::string name = name_of(r, points.front().system);
  const std::string of_level = has_level(r) ? " " + level_text(r) : "";
  const auto unsettled = static_cast<std::size_t>(std::ranges::count_if(points, is_unsettled));
  if (unsettled == 0)
    return name + " does not " + (has_level(r) ? "meet" : "keep up") + of_level + " at " +
           these_rates(points.size());
  return name + ": cannot tell at " + unsettled_rates(points, unsettled) + " whether it " +
         (has_level(r) ? "meets" : "keeps up") + of_level +
         ": too few requests came for a steady state, more of them (--requests) or a lower rate would tell" +
         (unsettled < points.size() ? "; at the other rates it does not" : "");
}

/// A line of its own: what fails at the lowest rate that is too high.
std::string too_high_line(const std::optional<LoadLimit>& limit) {
  return limit ? "  " + limit_words(*limit) + "\n" : "";
}

std::string curve_sentence(const LoadReport& r, std::span<const LoadPoint> points) {
  if (const std::string refusal = points.front().samples.front().refusal; !refusal.empty())
    return name_of(r, points.front().system) + " " + refusal + "\n";
  if (const LoadPoint* best = best_point(points); best != nullptr)
    return best_text(r, *best) + cost_text(best->samples) + saturated_text(points) + "\n" +
           too_high_line(limit_of(r, points));
  return none_sentence(r, points) + saturated_text(points) + "\n" + too_high_line(limit_of(r, points));
}

std::string found_sentence(const LoadReport& r, const HighestRate& found) {
  const std::string name = name_of(r, found.system);
  if (found.by_seed.empty()) return name + " " + found.refusal + "\n";
  const std::string what = has_level(r) ? " meets " + level_text(r) : " keeps up";
  const bool unsettled = std::ranges::count(found.above, LoadVerdict::unsettled, &RateMissed::verdict) > 0;
  if (found.high() == 0 && unsettled)
    return name + ": cannot tell at any rate whether it" + what +
           ": too few requests come for a steady state, more of them (--requests) would tell\n";
  if (found.high() == 0) return name + what + " at no rate\n" + too_high_line(limit_of(r, found));
  std::string text = name + what + (has_level(r) ? " up to " : " with up to ") + rate_text(found.median());
  if (found.by_seed.size() > 1)
    text += std::string(found.by_seed.size() % 2 == 0 ? " (lower median; " : " (median; ") +
            significant(found.low()) + " to " + significant(found.high()) + " over " +
            std::to_string(found.by_seed.size()) + " seeds)";
  if (const LoadSample* const at = found.at_median(); at != nullptr) text += cost_text({at, 1});
  if (unsettled)
    text += "; above that too few requests come for a steady state: more --requests may find more";
  return text + "\n" + too_high_line(limit_of(r, found));
}

std::vector<std::string> row_of(const LoadReport& r, const LoadPoint& point, bool best) {
  std::vector<std::string> row = {name_of(r, point.system), significant(point.rate)};
  const auto add = [&](const std::optional<double>& value, double scale, int digits) {
    row.push_back(value ? three_digits(scale * *value, digits) : "-");
  };
  add(mean_of(point, &LoadSample::answered_per_s), 1, 2);
  add(mean_of(point, [](const LoadSample& s) { return s.tokens_per_s; }), 1, 1);
  for (double Summary::*p : {&Summary::p50, &Summary::p95, &Summary::p99})
    add(latency_at(point, Latency::ttft, p), 1, 2);
  for (double Summary::*p : {&Summary::p50, &Summary::p95, &Summary::p99})
    add(latency_at(point, Latency::tpot, p), 1e3, 1);
  add(latency_at(point, Latency::queueing, &Summary::mean), 1, 2);
  const auto add_plain = [&](const std::optional<double>& value, double scale, int digits) {
    row.push_back(value ? fixed(scale * *value, digits) : "-");
  };
  add_plain(mean_of(point, [](const LoadSample& s) { return static_cast<double>(s.preemptions); }), 1, 0);
  if (has_level(r)) {
    add_plain(mean_of(point, &LoadSample::met_share), 100, 1);
    add(mean_of(point, &LoadSample::goodput), 1, 2);
  }
  const bool refused = !point.samples.front().refusal.empty();
  row.push_back(refused ? "does not fit" : to_string(point.verdict) + (best ? ", best" : ""));
  return row;
}

std::string legend(const LoadReport& r) {
  const std::string where =
      r.runs->scenario().cluster
          ? "at servers to which more than a tenth of the requests came, or at one by more than chance, "
          : "";
  std::string text =
      "values: mean over seeds; queued: mean\n"
      "saturated: " +
      where +
      "a queue stood through the second half of the time in which requests came, and fewer were "
      "started there than are offered in that time, or what is under way piles up; with most seeds\n"
      "unsettled: half of the requests stay for more than an eighth of the time in which requests came\n";
  if (!r.found.empty())
    text += "best: of these rates the highest at which most seeds keep up" +
            std::string(has_level(r) ? " and every seed meets the level" : "") +
            "; the rate that was found is the median over seeds\n";
  if (has_level(r))
    text += "meets: requests within all limits, whatever their percentiles; goodput: these a second\n";
  if (!left_out_text(r.runs->scenario().workload.left_out).empty())
    text += std::string("served, tokens") + (has_level(r) ? ", goodput" : "") +
            ": of requests answered while the measured ones came, left out or not\n";
  return text;
}

std::string notes(const LoadReport& r) {
  std::string text;
  for (const std::string& note : r.runs->notes()) text += "note: " + one_line(note) + "\n";
  for (const LoadPoint& point : r.points)
    if (point.verdict == LoadVerdict::unsettled && point.samples.front().refusal.empty())
      text += "note: " + name_of(r, point.system) + " at " + rate_text(point.rate) +
              ": half of the requests stay longer than an eighth of the time in which all came: nothing is "
              "known of a steady state; more requests (--requests) or a lower rate would tell\n";
  return text;
}

}  // namespace

std::string load_answer(const LoadReport& r) {
  std::vector<std::pair<double, std::string>> lines;
  for (const HighestRate& found : r.found) lines.emplace_back(found.median(), found_sentence(r, found));
  for (const auto& points : points_by_system(r.points)) {
    if (!r.found.empty()) break;
    const LoadPoint* const best = best_point(points);
    lines.emplace_back(best == nullptr ? 0 : best->rate, curve_sentence(r, points));
  }
  std::ranges::stable_sort(lines, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (const auto& [rate, line] : lines) text += line;
  return text;
}

std::string load_table(const LoadReport& r, TextForm form) {
  Rows rows = {{"system", "requests/s", "served/s", "tokens/s", "TTFT s p50", "p95", "p99", "TPOT ms p50",
                "p95", "p99", "queued s", "preempted"}};
  if (has_level(r)) rows.front().insert(rows.front().end(), {"meets %", "goodput/s"});
  rows.front().insert(rows.front().end(), {"verdict"});
  for (const auto& points : points_by_system(r.points))
    for (const LoadPoint& point : points) rows.push_back(row_of(r, point, best_point(points) == &point));
  TextReport report(form);
  report.add_lines(load_answer(r));
  report.add_lines(title_of(r) + legend(r));
  report.add_table({rows});
  if (const TextTable classes = load_class_table(r); classes.rows.size() > 1) report.add_table(classes);
  add_load_costs(r, report);
  report.join_next();
  report.add_lines(notes(r));
  return report.text();
}

}  // namespace moelab::cli
