#include "cli/goal_report.hpp"

#include <algorithm>
#include <cctype>
#include <set>

#include "cli/layer_table.hpp"
#include "models/json.hpp"
#include "models/units.hpp"
#include "sim/results/cause_words.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string value_at(const GoalSettings& asked, const GoalFound& f, std::size_t place) {
  const GoalPoint& point = f.points.at(place);
  return point.by_seed.empty() ? "it cannot be run" : shown_value(asked.metric, figure_at(f, point).value);
}

/// "16.5 GB (99.2 ms)"
std::string place_text(const GoalSettings& asked, const GoalFound& f, std::size_t place) {
  return f.domain.shown(place) + " (" + value_at(asked, f, place) + ")";
}

/// "bound by loads of experts (link), 92.1 % of the time"
std::string bound_text(const GoalFound& f, std::size_t place) {
  const GoalPoint& point = f.points.at(place);
  if (point.cause.empty()) return "";
  return "bound by " + bound_words(point.cause, point.place, point.share);
}

std::string span_text(const GoalFound& f) {
  return f.domain.shown(0) + " to " + f.domain.shown(f.domain.last());
}

/// What the budget does not count: memory that holds what was read last, of which reads are served.
std::string page_cache_sentence(const GoalFound& f, std::size_t place) {
  const Bytes cache = f.points.at(place).page_cache;
  if (!(cache > Bytes(0))) return "";
  return "At " + f.domain.shown(place) + " the page cache has another " + to_string(cache) +
         " beside the budget, from which reads are served.\n";
}

/// Where the search saw no end of what holds, and how to look further.
std::string open_ends_text(const GoalFound& f, const GoalRange& range) {
  if (range.first != 0 || range.last != f.domain.last()) return "";
  const bool below = !f.domain.whole || f.domain.low > 1, above = !f.domain.high_is_most;
  if (!below && !above) return "";
  return std::string("It was not seen to end: look further by ") +
         (below ? "--from below " + f.domain.shown(0) : "") + (below && above ? ", " : "") +
         (above ? "--to above " + f.domain.shown(f.domain.last()) : "") + ".\n";
}

/// Of a range: "59.7 ms there, 61.6 ms at 21.5 GB", with the neighbours that were asked for and are not in
/// it.
std::string ends_text(const GoalSettings& asked, const GoalFound& f, const GoalRange& range) {
  const auto& sides = f.threshold.asked;
  const auto first = sides.find(range.first), after = std::next(sides.find(range.last));
  std::string text;
  if (first != sides.begin()) {
    const std::size_t before = std::prev(first)->first;
    text = value_at(asked, f, range.first) + " there, " + value_at(asked, f, before) + " at " +
           f.domain.shown(before);
  }
  if (after == sides.end()) return text;
  return text + (text.empty() ? "" : "; ") + value_at(asked, f, range.last) + " at " +
         f.domain.shown(range.last) + ", " + value_at(asked, f, after->first) + " at " +
         f.domain.shown(after->first);
}

std::string range_text(const GoalSettings& asked, const GoalFound& f, const GoalRange& range) {
  const bool from_low = range.first == 0, to_high = range.last == f.domain.last();
  if (from_low && to_high)
    return "everywhere that was looked at, from " + place_text(asked, f, range.first) + " to " +
           place_text(asked, f, range.last);
  const std::string first = f.domain.shown(range.first), last = f.domain.shown(range.last);
  const std::string where = to_high    ? "from " + first + " on"
                            : from_low ? "up to " + last
                                       : "from " + first + " to " + last;
  return where + ": " + ends_text(asked, f, range);
}

std::string key_and_system(const GoalSettings& asked, const GoalFound& f) {
  return one_line(asked.path) + " of " + one_line(f.system);
}

/// How a request rate is judged, and why 'moelab load --find' may differ in its digits.
std::string rate_rule_text(const GoalSettings& asked, const GoalFound& f) {
  if (!f.as_load) return "";
  const std::string runs =
      asked.seeds == 1
          ? "its run of " + std::to_string(f.requests) + " requests keeps up and meets the limit"
          : std::to_string(seeds_that_decide(asked.seeds)) + " of " + std::to_string(asked.seeds) +
                " seeds, of " + std::to_string(f.requests) + " requests a run, keep up and meet the limit";
  return "A rate counts where " + runs +
         ": the rule of 'moelab load --find'.\nThat comes as near as its --tolerance; this looks at rates " +
         shortest_text(f.domain.step) + " apart.\n";
}

std::string holds_answer(const GoalSettings& asked, const GoalFound& f) {
  std::string text = one_line(asked.condition->text) + " holds for " + key_and_system(asked, f) + " ";
  for (std::size_t i = 0; i < f.threshold.ranges.size(); ++i)
    text += (i == 0 ? "" : "; and ") + range_text(asked, f, f.threshold.ranges[i]);
  text += ".\n";
  const GoalRange& range = f.threshold.ranges.front();
  const bool everywhere = range.first == 0 && range.last == f.domain.last();
  const std::size_t end = range.first == 0 && !everywhere ? range.last : range.first;
  if (const std::string bound = bound_text(f, end); !bound.empty())
    text += "At " + f.domain.shown(end) + " it is " + bound + ".\n";
  text += page_cache_sentence(f, end) + open_ends_text(f, range);
  if (f.threshold.changes > 1)
    text += "It changes more than once over " + span_text(f) +
            ": between places that were looked at it may change more often (--points).\n";
  if (f.threshold.noise)
    text +=
        "The seeds leave open on which side of the limit the places next to that are; more --seeds would "
        "tell.\n";
  return text + rate_rule_text(asked, f);
}

/// Which others cannot be told from the best one.
std::string like_best_text(const GoalSettings& asked, const GoalFound& f) {
  if (asked.seeds == 1)
    return " Of one seed: how much better than others it is by chance is not known (--seeds).";
  if (!f.seeds_matter) return " No seed changes anything here.";
  if (f.like_best.size() < 2) return " No other that was run is as good, by more than noise.";
  return " Between " + f.domain.shown(f.like_best.front()) + " and " + f.domain.shown(f.like_best.back()) +
         " are " + std::to_string(f.like_best.size() - 1) + " others that the seeds cannot tell from it.";
}

std::string best_answer(const GoalSettings& asked, const GoalFound& f) {
  const std::size_t place = f.best->place;
  const std::string bound = bound_text(f, place);
  const std::string at = f.domain.shown(place) + (bound.empty() ? "" : ", " + bound);
  std::string text;
  if (f.kind == GoalKind::nowhere)
    text = "Not reachable: " + one_line(asked.condition->text) + " holds nowhere over " +
           one_line(asked.path) + " from " + span_text(f) + ". The best of " + one_line(f.system) + " is " +
           value_at(asked, f, place) + " at " + at + ".";
  else
    text = (asked.smallest ? "Least " : "Most ") + one_line(asked.metric.text) + " over " +
           key_and_system(asked, f) + " from " + span_text(f) + ": " + value_at(asked, f, place) + " at " +
           at + ".";
  text += like_best_text(asked, f) + "\n" + page_cache_sentence(f, place);
  const bool may_be_less = !f.domain.whole || f.domain.low > 1;
  if ((f.domain.at(place) == f.domain.low && may_be_less) ||
      (f.domain.at(place) == f.domain.high && !f.domain.high_is_most))
    text += "That is an end of the range: beyond it there may be better (--from, --to).\n";
  if (!f.best->unimodal)
    text +=
        "The curve rises and falls more than once: between places that were looked at there may be better "
        "(--points).\n";
  return text + rate_rule_text(asked, f);
}

/// "3, 5 to 7" of values one after the other.
std::string values_text(const GoalFound& f) {
  std::string text;
  for (std::size_t i = 0, end = 0; i < f.not_possible.size(); i = end) {
    for (end = i + 1; end < f.not_possible.size() &&
                      f.not_possible[end].first == f.not_possible[end - 1].first + f.domain.step;)
      ++end;
    text += (text.empty() ? "" : ", ") + shortest_text(f.not_possible[i].first);
    if (end > i + 1) text += (end == i + 2 ? ", " : " to ") + shortest_text(f.not_possible[end - 1].first);
  }
  return text;
}

/// Which values were left out, and why: each reason once, of the first value that has it.
std::string not_possible_text(const GoalFound& f) {
  if (f.not_possible.empty()) return "";
  std::set<std::string> said;  // without their numbers
  std::string reasons;
  for (const auto& [value, why] : f.not_possible) {
    std::string words = why;
    std::erase_if(words, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (said.insert(words).second)
      reasons += (reasons.empty() ? "" : "; ") + shortest_text(value) + ": " + one_line(why);
  }
  return "not possible: " + values_text(f) + " (" + reasons + ")\n";
}

/// What cannot be run, and why: the first of each reason.
std::string refusals_text(const GoalFound& f) {
  std::string text;
  std::vector<std::string> said;
  for (const auto& [place, point] : f.points) {
    if (point.refused.empty() || std::find(said.begin(), said.end(), point.refused) != said.end()) continue;
    if (said.size() < 3)
      text += "not run at " + f.domain.shown(place) + ": " + one_line(point.refused) + "\n";
    said.push_back(point.refused);
  }
  return text;
}

/// "yes", "no", or how a system did not keep up where too few seeds do for the condition to hold.
std::string holds_text(const GoalSettings& asked, const GoalFound& f, const GoalPoint& point) {
  if (holds_at(asked, f, point)) return "yes";
  const auto late = std::find_if(point.kept_up.begin(), point.kept_up.end(),
                                 [](LoadVerdict one) { return one != LoadVerdict::steady; });
  const auto steady =
      static_cast<std::size_t>(std::count(point.kept_up.begin(), point.kept_up.end(), LoadVerdict::steady));
  const bool decides = late != point.kept_up.end() && steady < seeds_that_decide(point.kept_up.size());
  return decides ? "no, " + to_string(*late) : "no";
}

bool any_fail(const GoalFound& f) {
  return std::any_of(f.points.begin(), f.points.end(),
                     [](const auto& at) { return at.second.requests.failed > 0; });
}

/// Of a cluster whose servers leave.
std::string failing_text(const GoalFound& f) {
  return any_fail(f) ? "Requests fail here: the metric is of those that are answered.\n" : "";
}

TextTable curve_table(const GoalSettings& asked, const GoalFound& f) {
  TextTable table{{{asked.path, asked.metric.text, f.as_load ? "least of seeds" : "±"}}};
  if (f.as_load) table.rows.front().emplace_back("most of seeds");
  if (asked.condition) table.rows.front().emplace_back("holds");
  table.rows.front().insert(table.rows.front().end(), {"bound by", "% of the time"});
  const bool caches_pages = std::any_of(f.points.begin(), f.points.end(),
                                        [](const auto& one) { return one.second.page_cache > Bytes(0); });
  if (caches_pages) table.rows.front().emplace_back("page cache beside");
  if (any_fail(f)) table.rows.front().emplace_back("requests failed");
  for (const auto& [place, point] : f.points) {
    const bool ran = !point.by_seed.empty();
    const bool many = ran && point.by_seed.size() > 1 && f.seeds_matter;
    std::vector<std::string> row = {f.domain.shown(place), ran ? value_at(asked, f, place) : "-", "-"};
    if (many)
      row.back() =
          shown_value(asked.metric, f.as_load ? figure_at(f, point).low : point.interval().half_width);
    if (f.as_load) row.push_back(many ? shown_value(asked.metric, figure_at(f, point).high) : "-");
    if (asked.condition) row.push_back(ran ? holds_text(asked, f, point) : "-");
    row.push_back(point.cause.empty() ? "-" : words_of_cause(point.cause));
    row.push_back(point.cause.empty() ? "-" : fixed(100 * point.share, 1));
    if (caches_pages) row.push_back(point.page_cache > Bytes(0) ? to_string(point.page_cache) : "-");
    if (any_fail(f))
      row.push_back(
          ran ? std::to_string(point.requests.failed) + " of " + std::to_string(point.requests.asked) : "-");
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string title_of(const GoalSettings& asked, const GoalFound& f) {
  const std::string seeds = asked.seeds == 1 ? "seed " + std::to_string(f.first_seed)
                                             : "seeds " + std::to_string(f.first_seed) + " to " +
                                                   std::to_string(f.first_seed + asked.seeds - 1);
  return one_line(f.scenario + ", " + f.system + ": " + f.model + " on " + f.device) + "; " + seeds;
}

Json point_json(const GoalSettings& asked, const GoalFound& f, std::size_t place) {
  const GoalPoint& point = f.points.at(place);
  Json json = {{"value", f.domain.text(place)},
               {"in_base_units", f.domain.at(place) * f.domain.scale},
               {"metric", nullptr},
               {"half_width", nullptr},
               {"by_seed", point.by_seed},
               {"refused", point.refused.empty() ? Json() : Json(point.refused)}};
  if (!point.by_seed.empty()) {
    json["metric"] = figure_at(f, point).value;
    if (point.by_seed.size() > 1 && f.seeds_matter && !f.as_load)
      json["half_width"] = point.interval().half_width;
  }
  if (f.as_load && !point.by_seed.empty()) {
    Json kept_up = Json::array();
    for (const LoadVerdict verdict : point.kept_up) kept_up.push_back(to_string(verdict));
    json.update({{"holds", holds_at(asked, f, point)}, {"verdicts", kept_up}});
  }
  if (point.page_cache > Bytes(0)) json["page_cache_bytes"] = point.page_cache.value();
  if (point.requests.asked > 0)
    json["requests"] = {{"asked", point.requests.asked},
                        {"failed", point.requests.failed},
                        {"delayed", point.requests.delayed}};
  if (!point.cause.empty())
    json["bound_by"] = {{"cause", point.cause}, {"place", point.place}, {"share", point.share}};
  return json;
}

std::string_view name_of(GoalKind kind) {
  switch (kind) {
    case GoalKind::holds:
      return "holds";
    case GoalKind::nowhere:
      return "not_reachable";
    case GoalKind::best:
      break;
  }
  return "best";
}

}  // namespace

std::string goal_answer(const GoalSettings& asked, const GoalFound& f) {
  return failing_text(f) + (f.kind == GoalKind::holds ? holds_answer(asked, f) : best_answer(asked, f));
}

std::string goal_table(const GoalSettings& asked, const GoalFound& f, TextForm form) {
  TextReport report(form);
  report.add_lines(goal_answer(asked, f));
  report.add_lines(title_of(asked, f) + "\n");
  report.add_table(curve_table(asked, f));
  report.join_next();
  report.add_lines(not_possible_text(f) + refusals_text(f));
  return report.text();
}

std::string goal_json(const GoalSettings& asked, const GoalFound& f) {
  Json ranges = Json::array(), points = Json::array(), like = Json::array();
  for (const GoalRange& range : f.threshold.ranges)
    ranges.push_back({{"from", f.domain.text(range.first)},
                      {"to", f.domain.text(range.last)},
                      {"from_the_low_end", range.first == 0},
                      {"to_the_high_end", range.last == f.domain.last()}});
  for (const auto& [place, point] : f.points) points.push_back(point_json(asked, f, place));
  for (const std::size_t place : f.like_best) like.push_back(f.domain.text(place));
  Json not_possible = Json::array();
  for (const auto& [value, why] : f.not_possible)
    not_possible.push_back({{"value", shortest_text(value)}, {"why", why}});
  Json best = nullptr;
  if (f.best)
    best = {{"value", f.domain.text(f.best->place)},
            {"metric", f.best->value},
            {"unimodal", f.best->unimodal},
            {"not_told_from_it", like}};
  return json_text({{"scenario", f.scenario},
                    {"system", f.system},
                    {"key", f.path},
                    {"metric", asked.metric.text},
                    {"condition", asked.condition ? Json(asked.condition->text) : Json()},
                    {"outcome", name_of(f.kind)},
                    {"ranges", ranges},
                    {"changes", f.threshold.changes},
                    {"best", best},
                    {"step", f.domain.step * f.domain.scale},
                    {"first_seed", f.first_seed},
                    {"seeds", asked.seeds},
                    {"requests", f.requests},
                    {"points", points},
                    {"not_possible", not_possible},
                    {"answer", {{"text", goal_answer(asked, f)}}}});
}

plot::Figure goal_figure(const GoalSettings& asked, const GoalFound& f) {
  const bool latency = asked.metric.kind == GoalMetric::Kind::latency;
  plot::Panel panel{.title = asked.metric.text + " over " + asked.path,
                    .x = {.label = asked.path, .unit = f.domain.unit, .integers = f.domain.whole},
                    .y = {.label = asked.metric.text, .unit = latency ? "s" : ""}};
  plot::Series curve{.name = f.system};
  for (const auto& [place, point] : f.points) {
    if (point.by_seed.empty()) continue;
    const GoalFigure figure = figure_at(f, point);
    curve.x.push_back(f.domain.at(place));
    curve.y.push_back(figure.value);
    curve.low.push_back(figure.low);
    curve.high.push_back(figure.high);
  }
  panel.series.push_back(std::move(curve));
  if (asked.condition)
    panel.series.push_back({.name = asked.condition->text,
                            .x = {f.domain.at(0), f.domain.at(f.domain.last())},
                            .y = {asked.condition->limit, asked.condition->limit},
                            .mark = plot::Mark::level});
  plot::Series chosen{.name = f.best ? "best" : "where it begins or ends to hold", .mark = plot::Mark::dots};
  std::vector<std::size_t> places;
  if (f.best) places.push_back(f.best->place);
  for (const GoalRange& range : f.threshold.ranges) places.insert(places.end(), {range.first, range.last});
  for (const std::size_t place : places) {
    chosen.x.push_back(f.domain.at(place));
    chosen.y.push_back(figure_at(f, f.points.at(place)).value);
  }
  panel.series.push_back(std::move(chosen));
  const std::string seeds = std::to_string(asked.seeds) + " seeds";
  std::string caption = "mean over " + seeds + ", band: its 95 % interval (Student's t)";
  if (f.as_load) caption = "the one of " + seeds + " that decides, band: all of them";
  if (asked.seeds == 1) caption = "seed " + std::to_string(f.first_seed);
  return {.title = f.scenario + ", " + f.system + ": " + f.model + " on " + f.device,
          .caption = caption,
          .panels = {panel}};
}

}  // namespace moelab::cli
