#include "cli/results_compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>

#include "cli/layer_table.hpp"
#include "cli/results_report.hpp"
#include "models/json.hpp"
#include "sim/results/text_table.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;
using Outcomes = std::vector<StoredOutcome>;
using Key = std::tuple<std::vector<std::pair<std::string, std::string>>, std::string, std::string,
                       std::optional<std::uint64_t>>;

struct Heading {
  const char* text;
  const char* column;
};
constexpr std::array<Heading, 4> kShown = {{{"TTFT %", "ttft_s"},
                                            {"TPOT %", "tpot_s"},
                                            {"tokens/s %", "throughput_tokens_per_s"},
                                            {"end-to-end %", "end_to_end_s"}}};

Key key_of(const StoredOutcome& o, bool with_seed) {
  auto axes = o.point.axes;
  std::sort(axes.begin(), axes.end());
  return {std::move(axes), o.point.series, o.point.system,
          with_seed && o.run ? std::optional(o.run->seed) : std::nullopt};
}

double change(const std::optional<double>& from, const std::optional<double>& to) {
  if (from == to) return 0;
  if (!from || !to || *from == 0) return std::numeric_limits<double>::infinity();
  return (*to - *from) / *from;
}

ComparedPoint compared(const Outcomes& here, const Outcomes& there, std::size_t h, std::size_t t) {
  ComparedPoint point{h, t, {}, 0};
  for (std::size_t m = 0; m < kMetricColumns.size(); ++m) {
    point.changes[m] = change(here[h].metrics[m], there[t].metrics[m]);
    if (std::abs(point.changes[m]) > std::abs(point.changes[point.largest])) point.largest = m;
  }
  return point;
}

/// Which points of two sweeps are the same, found in two passes; a place is taken once.
class Matcher {
 public:
  Matcher(const Outcomes& here, const Outcomes& there)
      : here_(here), there_(there), taken_here_(here.size()), taken_there_(there.size()) {
    match(true);
    match(false);
  }
  const std::vector<std::pair<std::size_t, std::size_t>>& pairs() const { return pairs_; }
  std::vector<std::size_t> left_here() const { return left(taken_here_); }
  std::vector<std::size_t> left_there() const { return left(taken_there_); }

 private:
  void match(bool with_seed) {
    std::map<Key, std::deque<std::size_t>> places;
    for (std::size_t t = 0; t < there_.size(); ++t)
      if (!taken_there_[t]) places[key_of(there_[t], with_seed)].push_back(t);
    for (std::size_t h = 0; h < here_.size(); ++h) {
      if (taken_here_[h]) continue;
      const auto found = places.find(key_of(here_[h], with_seed));
      if (found == places.end()) continue;
      // Without the seed, two that ran are two different points.
      const auto place = std::find_if(found->second.begin(), found->second.end(), [&](std::size_t t) {
        return with_seed || !here_[h].run || !there_[t].run;
      });
      if (place == found->second.end()) continue;
      pairs_.emplace_back(h, *place);
      taken_here_[h] = taken_there_[*place] = true;
      found->second.erase(place);
    }
  }

  static std::vector<std::size_t> left(const std::vector<bool>& taken) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < taken.size(); ++i)
      if (!taken[i]) places.push_back(i);
    return places;
  }

  const Outcomes& here_;
  const Outcomes& there_;
  std::vector<bool> taken_here_, taken_there_;
  std::vector<std::pair<std::size_t, std::size_t>> pairs_;
};

bool is_done(const StoredOutcome& o) {
  return o.run && o.run->status == RunStatus::done;
}

std::string percent_text(double share) {
  if (std::isinf(share)) return "new";
  if (share != 0 && std::abs(share) < 1e-4) {  // would read as nothing
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%+.0e", 100 * share);
    return text.data();
  }
  return (share > 0 ? "+" : "") + fixed(100 * share, 2);
}

std::vector<std::string> moved_row(const ComparedPoint& point, const StoredOutcome& here,
                                   const StoredOutcome& there) {
  std::vector<std::string> row = {description(here.point), std::to_string(here.point.number),
                                  std::to_string(there.point.number)};
  for (const Heading& shown : kShown)
    for (std::size_t m = 0; m < kMetricColumns.size(); ++m)
      if (std::string_view(kMetricColumns[m].name) == shown.column)
        row.push_back(percent_text(point.changes[m]));
  row.push_back(std::string(kMetricColumns[point.largest].name) + " " +
                percent_text(point.changes[point.largest]));
  return row;
}

TextTable moved_table(const SweepComparison& c, const Outcomes& here, const Outcomes& there) {
  Rows rows = {{"moved", "point", "there"}};
  for (const Heading& shown : kShown) rows[0].emplace_back(shown.text);
  rows[0].emplace_back("largest %");
  for (const ComparedPoint& point : c.both_done)
    if (point.moved()) rows.push_back(moved_row(point, here[point.here], there[point.there]));
  return {rows};
}

constexpr std::size_t kMostListed = 5;  // of points that are not compared, of each kind

/// A line that counts them and one for each of the first few; nothing where there is none.
std::string listed(const std::string& what, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  const std::size_t shown = std::min(lines.size(), kMostListed);
  std::string text = what + ": " + std::to_string(lines.size()) + (lines.size() == 1 ? " point" : " points") +
                     (shown < lines.size() ? ", the first " + std::to_string(shown) + " of them" : "") + "\n";
  for (std::size_t i = 0; i < shown; ++i) text += "  point " + lines[i] + "\n";
  return text;
}

std::string numbered(const StoredOutcome& o) {
  return std::to_string(o.point.number) + " (" + description(o.point) + ")";
}

std::string only_lines(const std::vector<std::size_t>& places, const Outcomes& points,
                       const std::string& name) {
  std::vector<std::string> lines;
  for (const std::size_t place : places) lines.push_back(numbered(points[place]));
  return listed("only in " + name, lines);
}

std::string not_done_lines(const SweepComparison& c, const Outcomes& here, const Outcomes& there,
                           const std::string& a, const std::string& b) {
  std::vector<std::string> lines;
  for (const auto& [h, t] : c.not_done)
    lines.push_back(numbered(here[h]) + ": " + status_of(here[h]) + " in " + a + ", " + status_of(there[t]) +
                    " in " + b);
  return listed("not compared", lines);
}

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json pair_json(const StoredOutcome& here, const StoredOutcome& there) {
  Json axes = Json::object();
  for (const auto& [name, value] : here.point.axes) axes[name] = value;
  return {{"point", here.point.number},
          {"other_point", there.point.number},
          {"axes", axes},
          {"series", here.point.series},
          {"system", here.point.system}};
}

Json moved_json(const ComparedPoint& point, const Outcomes& here, const Outcomes& there) {
  const StoredOutcome &a = here[point.here], &b = there[point.there];
  Json j = pair_json(a, b);
  j["largest"] = kMetricColumns[point.largest].name;
  for (std::size_t m = 0; m < kMetricColumns.size(); ++m)
    j["metrics"][kMetricColumns[m].name] = {{"from", a.metrics[m] ? Json(*a.metrics[m]) : Json()},
                                            {"to", b.metrics[m] ? Json(*b.metrics[m]) : Json()},
                                            {"change", number(point.changes[m])}};
  return j;
}

Json numbers_json(const std::vector<std::size_t>& places, const Outcomes& points) {
  Json list = Json::array();
  for (const std::size_t place : places) list.push_back(points[place].point.number);
  return list;
}

std::size_t moved_count(const SweepComparison& c) {
  return static_cast<std::size_t>(std::count_if(c.both_done.begin(), c.both_done.end(),
                                                [](const ComparedPoint& p) { return p.moved(); }));
}

}  // namespace

SweepComparison compare(const Outcomes& here, const Outcomes& there) {
  const Matcher matcher(here, there);
  SweepComparison result;
  for (const auto& [h, t] : matcher.pairs())
    if (is_done(here[h]) && is_done(there[t]))
      result.both_done.push_back(compared(here, there, h, t));
    else
      result.not_done.emplace_back(h, t);
  result.only_here = matcher.left_here();
  result.only_there = matcher.left_there();
  std::stable_sort(result.both_done.begin(), result.both_done.end(),
                   [](const ComparedPoint& a, const ComparedPoint& b) {
                     return std::abs(a.changes[a.largest]) > std::abs(b.changes[b.largest]);
                   });
  std::stable_sort(result.not_done.begin(), result.not_done.end());
  return result;
}

std::string comparison_table(const SweepComparison& c, const Outcomes& here, const Outcomes& there,
                             const ComparedNames& names, TextForm form) {
  const std::string a = one_line(names.here), b = one_line(names.there);
  TextReport report(form);
  report.add_lines("from " + a + " to " + b + ": " + std::to_string(moved_count(c)) + " of " +
                   std::to_string(c.both_done.size()) + " points done in both moved\n");
  report.join_next();
  report.add_table(moved_table(c, here, there));
  report.join_next();
  report.add_lines(not_done_lines(c, here, there, a, b) + only_lines(c.only_here, here, a) +
                   only_lines(c.only_there, there, b));
  return report.text();
}

Json comparison_json(const SweepComparison& c, const Outcomes& here, const Outcomes& there,
                     const ComparedNames& names) {
  Json moved = Json::array(), not_done = Json::array();
  for (const ComparedPoint& point : c.both_done)
    if (point.moved()) moved.push_back(moved_json(point, here, there));
  for (const auto& [h, t] : c.not_done) {
    Json j = pair_json(here[h], there[t]);
    j["status"] = status_of(here[h]);
    j["other_status"] = status_of(there[t]);
    not_done.push_back(std::move(j));
  }
  return {{"from", names.here},
          {"to", names.there},
          {"done_in_both", c.both_done.size()},
          {"moved", moved},
          {"not_compared", not_done},
          {"only_in_from", numbers_json(c.only_here, here)},
          {"only_in_to", numbers_json(c.only_there, there)}};
}

}  // namespace moelab::cli
