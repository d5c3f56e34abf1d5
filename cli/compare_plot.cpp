#include "cli/compare_plot.hpp"

#include <algorithm>
#include <span>

#include "cli/compare_report.hpp"
#include "cli/plot/svg_text.hpp"
#include "models/input_error.hpp"
#include "sim/results/statistics.hpp"
#include "sim/sweep/compared_family.hpp"

namespace moelab::cli {
namespace {

constexpr std::string_view kPage = ".html";
constexpr std::string_view kBestLevel = "level of the best", kBoundLevel = "level of the bound";

/// Policies that were run, as they stand along a panel's axis.
std::vector<const ComparedPolicy*> shown_policies(const ComparedBlock& block) {
  std::vector<const ComparedPolicy*> shown;
  for (const ComparedPolicy& policy : block.policies)
    if (policy.counts()) shown.push_back(&policy);
  return shown;
}

/// What a policy is among the others.
std::string standing_of(const ComparedPolicy& policy) {
  if (policy.no_rival) return "bound";
  if (policy.rank.place == 1) return "best";
  return policy.rank.noise() ? "may be noise" : "behind the best";
}

/// All that a panel may show, in one order, so that it looks the same in every picture.
std::vector<plot::Series> all_series() {
  std::vector<plot::Series> all;
  for (const std::string_view name : {kBestLevel, kBoundLevel})
    all.push_back({.name = std::string(name), .mark = plot::Mark::level});
  for (const char* name : {"best", "may be noise", "behind the best", "bound"})
    all.push_back({.name = name, .mark = plot::Mark::dots});
  return all;
}

plot::Series& series_of(plot::Panel& panel, std::string_view name) {
  return *std::find_if(panel.series.begin(), panel.series.end(),
                       [&](const plot::Series& series) { return series.name == name; });
}

void add_dot(plot::Panel& panel, const ComparedPolicy& policy, std::size_t place, const Interval& interval) {
  plot::Series& series = series_of(panel, standing_of(policy));
  series.x.push_back(static_cast<double>(place));
  series.y.push_back(interval.mean);
  series.low.push_back(interval.mean - interval.half_width);
  series.high.push_back(interval.mean + interval.half_width);
  series.notes.push_back(policy.name);
}

/// Blocks of one routing, by budget.
using Curves = std::span<const ComparedBlock>;

/// The blocks by routing; each has all budgets.
std::vector<Curves> curves_of(const PolicyComparison& c) {
  std::vector<Curves> all;
  for (std::size_t first = 0, next = 1; first < c.blocks.size(); first = next++) {
    while (next < c.blocks.size() && c.blocks[next].trace == c.blocks[first].trace &&
           c.blocks[next].law == c.blocks[first].law)
      ++next;
    all.push_back(Curves(c.blocks).subspan(first, next - first));
  }
  return all;
}

/// A policy's figure over the budgets at which it was run, with the interval of its mean over the seeds.
/// Names of bounds say so.
plot::Series curve_of(Curves blocks, const std::string& name, double PolicySample::*figure) {
  plot::Series curve{.name = name};
  std::vector<const ComparedBlock*> ascending;
  for (const ComparedBlock& block : blocks) ascending.push_back(&block);
  std::ranges::stable_sort(ascending, {}, &ComparedBlock::bytes);
  for (const ComparedBlock* block : ascending)
    for (const ComparedPolicy& policy : block->policies) {
      if (policy.name != name || !policy.counts()) continue;
      if (policy.no_rival) curve.name = name + " (bound)";
      std::vector<double> values;
      for (const PolicySample& sample : policy.by_seed) values.push_back(sample.*figure);
      const Interval interval = interval95(values);
      curve.x.push_back(block->bytes);
      curve.y.push_back(interval.mean);
      curve.low.push_back(interval.mean - interval.half_width);
      curve.high.push_back(interval.mean + interval.half_width);
    }
  return curve;
}

/// A line for each policy; the best at the smallest budget first, so that each looks the same in all panels.
plot::Panel curves_panel(const PolicyComparison& c, Curves blocks, const std::string& title, plot::Axis y,
                         double PolicySample::*figure) {
  const std::string routing = routing_name(blocks.front());
  plot::Panel panel{.title = (routing.empty() ? "" : routing + ": ") + title,
                    .x = {.label = "budget", .unit = "B"},
                    .y = std::move(y)};
  for (const ComparedPolicy& policy : c.blocks.front().policies)
    panel.series.push_back(curve_of(blocks, policy.name, figure));
  std::erase_if(panel.series, [](const plot::Series& curve) { return curve.x.empty(); });
  return panel;
}

plot::Panel panel_of(const ComparedBlock& block, const std::string& title, plot::Axis y) {
  const std::string routing = routing_name(block);
  plot::Panel panel{.title = (routing.empty() ? "" : routing + ", ") + block.budget + ": " + title,
                    .y = std::move(y),
                    .series = all_series()};
  for (const ComparedPolicy* policy : shown_policies(block)) panel.categories.push_back(policy->name);
  return panel;
}

/// A line across the panel, which others are held against.
void add_level(plot::Panel& panel, std::string_view name, double value) {
  if (panel.categories.size() < 2) return;
  const double last = static_cast<double>(panel.categories.size() - 1);
  plot::Series& level = series_of(panel, name);
  level.x = {0, last};
  level.y = {value, value};
}

plot::Panel times_panel(const PolicyComparison& c, const ComparedBlock& block) {
  const JudgedWords& words = judged_words(c.by);
  plot::Panel panel =
      panel_of(block, std::string(words.title), {.label = std::string(words.name), .unit = "s"});
  const std::vector<const ComparedPolicy*> shown = shown_policies(block);
  add_level(panel, kBestLevel, shown.front()->rank.mean);
  if (const ComparedPolicy* const bound = block.bound())
    add_level(panel, kBoundLevel, bound->mean_of(&PolicySample::seconds));
  for (std::size_t i = 0; i < shown.size(); ++i)
    add_dot(panel, *shown[i], i,
            {shown[i]->mean_of(&PolicySample::seconds),
             shown[i]->no_rival ? 0 : shown[i]->rank.behind.half_width});
  return panel;
}

/// Whiskers end at 0 and 1, beyond which there is no share, and so does the axis.
void end_at_shares(plot::Panel& panel) {
  double lowest = 1, highest = 0;
  for (plot::Series& series : panel.series)
    for (std::size_t i = 0; i < series.low.size(); ++i) {
      lowest = std::min(lowest, series.low[i] = std::max(series.low[i], 0.0));
      highest = std::max(highest, series.high[i] = std::min(series.high[i], 1.0));
    }
  constexpr double kExtent = 1e-3;  // with less the chart makes some, beyond 1 too
  if (highest - lowest < kExtent) panel.y.range = {0, 1};
}

plot::Panel hits_panel(const PolicyComparison& c, const ComparedBlock& block) {
  plot::Panel panel =
      panel_of(block, std::string(compared_family(c.family).hits()), {.label = "share of the experts used"});
  const std::vector<const ComparedPolicy*> shown = shown_policies(block);
  if (const ComparedPolicy* const bound = block.bound())
    add_level(panel, kBoundLevel, bound->mean_of(&PolicySample::hit_share));
  for (std::size_t i = 0; i < shown.size(); ++i) {
    std::vector<double> hits;
    for (const PolicySample& sample : shown[i]->by_seed) hits.push_back(sample.hit_share);
    add_dot(panel, *shown[i], i, interval95(hits));
  }
  end_at_shares(panel);
  return panel;
}

std::string seeds_text(const PolicyComparison& c) {
  if (c.seeds == 1) return "seed " + std::to_string(c.first_seed) + ", of which there are no intervals";
  return "seeds " + std::to_string(c.first_seed) + " to " + std::to_string(c.first_seed + c.seeds - 1);
}

std::string caption(const PolicyComparison& c, bool hits) {
  if (c.seeds == 1) return seeds_text(c);
  return seeds_text(c) + ". Whiskers of times: " +
         "95 % interval of the difference to the best, seed by seed: what reaches the level of the best may "
         "be noise." +
         (hits ? " Of " + std::string(compared_family(c.family).hits()) + ": of their mean over the seeds."
               : "");
}

/// Curves over the budgets, a picture for each routing.
void draw_curves(const PolicyComparison& c, bool hits, plot::Figure& figure) {
  const JudgedWords& words = judged_words(c.by);
  figure.caption = seeds_text(c);
  if (c.seeds > 1) figure.caption += ". Lines: means over them; bands: their 95 % intervals (Student's t)";
  for (const Curves blocks : curves_of(c)) {
    figure.panels.push_back(curves_panel(c, blocks, std::string(words.title) + " over the budget",
                                         {.label = std::string(words.name), .unit = "s"},
                                         &PolicySample::seconds));
    if (!hits) continue;
    figure.panels.push_back(curves_panel(c, blocks,
                                         std::string(compared_family(c.family).hits()) + " over the budget",
                                         {.label = "share of the experts used"}, &PolicySample::hit_share));
    end_at_shares(figure.panels.back());
  }
  figure.panel_width = 520;
  figure.panel_height = 340;
}

/// Text of HTML that keeps its lines.
std::string escaped_lines(const std::string& text) {
  std::string all;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    all += plot::escaped(std::string_view(text).substr(begin, end - begin)) + "\n";
    begin = end + 1;
  }
  return all;
}

}  // namespace

plot::Figure comparison_figure(const PolicyComparison& c) {
  const bool hits =
      std::any_of(c.blocks.begin(), c.blocks.end(), [&](const auto& block) { return hits_differ(c, block); });
  plot::Figure figure{.title = c.scenario + ", system " + c.system + ": " + c.family + " policies, " +
                               c.model + " on " + c.device,
                      .caption = caption(c, hits)};
  if (hits) figure.columns = 2;
  if (curves_of(c).size() < c.blocks.size()) {
    draw_curves(c, hits, figure);
    return figure;
  }
  for (const ComparedBlock& block : c.blocks) {
    figure.panels.push_back(times_panel(c, block));
    if (hits) figure.panels.push_back(hits_panel(c, block));
  }
  const auto most = std::max_element(c.blocks.begin(), c.blocks.end(), [](const auto& a, const auto& b) {
    return shown_policies(a).size() < shown_policies(b).size();
  });
  figure.panel_width = std::max(400.0, 100 + 36.0 * static_cast<double>(shown_policies(*most).size()));
  return figure;
}

std::string comparison_picture(const PolicyComparison& c, const std::string& path) {
  const std::string picture = plot::svg(comparison_figure(c));
  if (!path.ends_with(kPage)) return picture;
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" +
         plot::escaped(c.scenario + ": " + c.family + " policies compared") +
         "</title>\n<style>body { margin: 2em; font-family: sans-serif } svg { max-width: 100%; height: auto "
         "} "
         "pre { white-space: pre-wrap }"
         "</style>\n</head>\n<body>\n" +
         picture.substr(picture.find("<svg")) + "\n<pre>\n" + escaped_lines(compare_table(c)) +
         "</pre>\n</body>\n</html>\n";
}

}  // namespace moelab::cli
