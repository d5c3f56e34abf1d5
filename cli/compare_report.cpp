#include "cli/compare_report.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <sstream>
#include <vector>

#include "cli/layer_table.hpp"
#include "cli/name_lists.hpp"
#include "sim/results/request_file.hpp"
#include "sim/results/text_table.hpp"
#include "sim/sweep/compared_family.hpp"
#include "sim/sweep/overall_ranks.hpp"

namespace moelab::cli {
namespace {

using Rivals = std::span<const ComparedPolicy>;

/// Those that are ranked, the best first.
Rivals rivals_of(const ComparedBlock& block) {
  const auto end = std::find_if(block.policies.begin(), block.policies.end(),
                                [](const ComparedPolicy& c) { return c.no_rival || !c.counts(); });
  return {block.policies.begin(), end};
}

/// In the unit of what is judged, with digits by how long the best takes at this budget: four in all, more
/// from 100 on.
std::string in_unit(double seconds, const PolicyComparison& c, const ComparedBlock& block) {
  const double scale = judged_words(c.by).per_second;
  const double best = scale * block.policies.front().rank.mean;
  const int before_point = best > 0 ? static_cast<int>(std::floor(std::log10(best))) + 1 : 1;
  return fixed(scale * seconds, std::clamp(4 - before_point, 2, 12));
}

std::string unit_of(const PolicyComparison& c) {
  return std::string(judged_words(c.by).unit);
}

std::string plus_minus(const Interval& interval, bool known, const PolicyComparison& c,
                       const ComparedBlock& block) {
  return in_unit(interval.mean, c, block) + (known ? " ± " + in_unit(interval.half_width, c, block) : "");
}

/// A policy's name in a sentence, where the word "none" would deny it.
std::string in_sentence(const std::string& policy) {
  return policy == "none" ? "'none'" : policy;
}

/// As the one at place 1, under every seed.
bool does_the_same(const PairedRank& rank) {
  return rank.place > 1 && rank.behind.mean == 0 && rank.behind.half_width == 0;
}

/// Which do the same as the best, which cannot be told from it, or how far behind the second is.
std::string runner_up_text(const PolicyComparison& c, const ComparedBlock& block) {
  const Rivals rivals = rivals_of(block);
  if (rivals.size() == 1) return "";
  std::vector<std::string> same, noise;
  for (const ComparedPolicy& rival : rivals.subspan(1))
    if (does_the_same(rival.rank))
      same.push_back(in_sentence(rival.name));
    else if (rival.rank.noise())
      noise.push_back(in_sentence(rival.name));
  std::string text;
  if (!same.empty())
    text = "; " + joined_by_and(same) + (same.size() == 1 ? " takes" : " take") + " the same";
  if (!noise.empty()) return text + "; what lies between it and " + joined_by_and(noise) + " may be noise";
  if (1 + same.size() == rivals.size()) return text;
  const ComparedPolicy& next = rivals[1 + same.size()];
  const bool known = next.rank.best_rank.has_value();
  return text + ", " + plus_minus(next.rank.behind, known, c, block) + " " + unit_of(c) + " before " +
         in_sentence(next.name) + (known ? ": more than noise" : "");
}

/// "caches", "prefetch policies".
std::string rivals_named(const PolicyComparison& c) {
  return c.family == "cache" ? "caches" : c.family + " policies";
}

/// What the bound does better than the best, or that there is none.
std::string bound_text(const PolicyComparison& c, const ComparedBlock& block, const ComparedPolicy& best) {
  const ComparedPolicy* const bound = block.bound();
  const std::string bound_time =
      bound == nullptr ? "" : in_unit(bound->mean_of(&PolicySample::seconds), c, block);
  if (c.family == "schedule")
    return bound != nullptr ? " Exhaustive, which tries the orders of each layer, takes " + bound_time + " " +
                                  unit_of(c) + "."
                            : " Exhaustive cannot be run here, so there is no regret.";
  if (c.family != "cache") return "";
  if (bound == nullptr) return " Belady cannot be run here, so there is no regret.";
  const double more = bound->mean_of(&PolicySample::hit_share) - best.mean_of(&PolicySample::hit_share);
  return " Belady, which knows the future, finds " + fixed(100 * std::abs(more), 1) + " points " +
         (more < 0 ? "fewer while decoding" : "more") + " and takes " + bound_time + " " + unit_of(c) +
         (more < 0 ? ": it keeps each expert that it used, each layer in room of its own, which caches that "
                     "leave experts out or share room among layers need not."
                   : ".");
}

/// Of a cluster whose servers leave: how many requests fail, and with which policies more do.
std::string fewest_failed_text(const ComparedBlock& block) {
  const RequestCounts& least = rivals_of(block).front().requests;
  std::string text;
  if (least.failed > 0)
    text = std::to_string(least.failed) + " of " + std::to_string(least.asked) + " requests fail. ";
  std::vector<std::string> more;
  for (const ComparedPolicy& policy : block.policies)
    if (!policy.unranked.empty()) more.push_back(in_sentence(policy.name));
  return more.empty() ? text : text + "More requests fail with " + joined_by_and(more) + ". ";
}

std::string answer(const PolicyComparison& c, const ComparedBlock& block) {
  const Rivals rivals = rivals_of(block);
  const ComparedPolicy& best = rivals.front();
  const std::string routing = routing_name(block);
  std::string text =
      fewest_failed_text(block) + (routing.empty() ? "At " : "With " + routing + " at ") +
      one_line(block.budget) + " " + in_sentence(best.name) +
      (rivals.size() == 1
           ? " takes "
           : " is the fastest of " + std::to_string(rivals.size()) + " " + rivals_named(c) + ": ") +
      in_unit(best.rank.mean, c, block) + " " + unit_of(c) + " " + std::string(judged_words(c.by).of) +
      runner_up_text(c, block) + "." + bound_text(c, block, best);
  if (c.seeds == 1)
    text += " One seed gives no interval: whether a difference is noise is not known (--seeds).";
  else if (!best.rank.best_rank)
    text +=
        " No seed changes anything here: it is one measurement, and whether a difference is noise is not "
        "known.";
  return text + "\n";
}

/// The blocks by what they differ in: "2 budgets", "3 traces and laws", "4 pairs of laws and budgets".
std::string counted_blocks(const PolicyComparison& c) {
  const ComparedBlock& first = c.blocks.front();
  bool traces = false, laws = false, routings = false, budgets = false;
  for (const ComparedBlock& block : c.blocks) {
    traces |= !block.trace.empty();
    laws |= !block.law.empty();
    routings |= block.trace != first.trace || block.law != first.law;
    budgets |= block.budget != first.budget;
  }
  const std::string count = std::to_string(c.blocks.size()) + " ";
  if (!routings) return count + "budgets";
  const std::string either = budgets ? "traces or laws" : "traces and laws";
  const std::string routing = traces && laws ? either : traces ? "traces" : "laws";
  return count + (budgets ? "pairs of " + routing + " and budgets" : routing);
}

/// Over all blocks, where there are several.
std::string overall_answer(const PolicyComparison& c, const std::vector<OverallRank>& overall) {
  const OverallRank& best = overall.front();
  const std::string all = "Over all " + counted_blocks(c) + " ";
  if (best.blocks < c.blocks.size()) return all + "no policy could be run everywhere.\n";
  std::vector<std::string> names;
  for (const OverallRank& one : overall)
    if (one.blocks == best.blocks && one.mean_rank == best.mean_rank) names.push_back(in_sentence(one.name));
  const std::string rank = " the best mean rank, " + fixed(best.mean_rank, 2);
  if (names.size() > 1) return all + joined_by_and(names) + " share" + rank + ".\n";
  return all + in_sentence(best.name) + " has" + rank + ": it is the best in " +
         std::to_string(best.best_in) +
         (best.level_in > 0
              ? ", and cannot be told from the best in " + std::to_string(best.level_in) + " more"
              : "") +
         ".\n";
}

TextTable overall_table(const std::vector<OverallRank>& overall, const PolicyComparison& c) {
  std::vector<std::vector<std::string>> rows = {
      {c.family, "mean rank", "of blocks", "best in", "cannot be told from it in"}};
  for (const OverallRank& one : overall)
    rows.push_back({one.name, fixed(one.mean_rank, 2), std::to_string(one.blocks),
                    std::to_string(one.best_in), std::to_string(one.level_in)});
  return {rows};
}

std::string rank_text(const ComparedPolicy& cache) {
  if (cache.no_rival) return "bound";
  const PairedRank& rank = cache.rank;
  if (!rank.best_rank || *rank.best_rank == *rank.worst_rank) return std::to_string(rank.rank);
  return std::to_string(*rank.best_rank) + "-" + std::to_string(*rank.worst_rank);
}

std::string verdict_text(const ComparedPolicy& cache) {
  if (cache.no_rival) return "";
  if (cache.rank.place == 1) return "best";
  if (does_the_same(cache.rank)) return "same";
  return cache.rank.noise() ? "noise" : "";
}

bool finds_parts(const ComparedBlock& block) {
  return std::any_of(block.policies.begin(), block.policies.end(), [](const ComparedPolicy& cache) {
    return cache.counts() && cache.mean_of(&PolicySample::parts_share) > 0;
  });
}

struct ShownColumns {
  bool hits = true, parts = false;
};

std::vector<std::string> row_of(const PolicyComparison& c, const ComparedBlock& block,
                                const ComparedPolicy& cache, const ShownColumns& shown) {
  const double hits = cache.mean_of(&PolicySample::hit_share),
               seconds = cache.mean_of(&PolicySample::seconds);
  std::vector<std::string> row = {cache.name, rank_text(cache)};
  if (shown.hits) row.push_back(fixed(100 * hits, 1));
  if (shown.parts) row.push_back(fixed(100 * cache.mean_of(&PolicySample::parts_share), 1));
  row.push_back(in_unit(seconds, c, block));
  const bool first = cache.rank.place == 1;
  row.push_back(cache.no_rival || first
                    ? "-"
                    : plus_minus(cache.rank.behind, cache.rank.best_rank.has_value(), c, block));
  if (const ComparedPolicy* const bound = block.bound()) {
    if (shown.hits) row.push_back(fixed(100 * (bound->mean_of(&PolicySample::hit_share) - hits), 1));
    row.push_back(in_unit(seconds - bound->mean_of(&PolicySample::seconds), c, block));
  }
  row.push_back(verdict_text(cache));
  return row;
}

TextTable table_of(const PolicyComparison& c, const ComparedBlock& block) {
  const ShownColumns shown = {.hits = hits_differ(c, block),
                              .parts = hits_differ(c, block) && finds_parts(block)};
  std::vector<std::string> head = {c.family, "rank"};
  if (shown.hits) head.push_back(std::string(compared_family(c.family).hits()) + " %");
  if (shown.parts) head.emplace_back("in parts %");
  head.push_back(std::string(judged_words(c.by).name) + " " + unit_of(c));
  head.emplace_back("behind the best");
  if (block.bound() != nullptr) {
    if (shown.hits) head.emplace_back("regret, points");
    head.push_back((shown.hits ? "" : "regret, ") + unit_of(c));
  }
  head.emplace_back("");
  TextTable table{{head}};
  for (const ComparedPolicy& cache : block.policies)
    if (cache.counts()) table.rows.push_back(row_of(c, block, cache, shown));
  return table;
}

std::string refusals_of(const ComparedBlock& block) {
  std::string refused;
  for (const ComparedPolicy& cache : block.policies)
    if (!cache.refused.empty()) refused += one_line("not run: " + cache.name + ": " + cache.refused) + "\n";
  for (const ComparedPolicy& policy : block.policies)
    if (!policy.unranked.empty())
      refused += one_line("not ranked: " + policy.name + ": " + policy.unranked) + "\n";
  return refused;
}

std::string legend(const PolicyComparison& c) {
  const auto any = [&](auto has) { return std::any_of(c.blocks.begin(), c.blocks.end(), has); };
  std::string text;
  if (any([&](const ComparedBlock& block) { return hits_differ(c, block); }))
    text += compared_family(c.family).of_clusters
                ? "local: of the experts used, on the server of the user; "
                : "hits: of the experts used while decoding, found in the form that the system keeps; ";
  text += std::string(judged_words(c.by).name) + ": mean";
  if (any([](const ComparedBlock& block) { return block.bound() != nullptr; }))
    text += std::string("; regret: to ") + (c.family == "cache" ? "belady" : "exhaustive");
  text += "\n";
  if (c.seeds > 1)
    text +=
        "behind the best: mean of differences seed by seed ± half of their 95 % interval (Student's t), each "
        "for\n"
        "itself; noise: it holds 0; rank: a range where such intervals leave one\n";
  return text;
}

/// The block's place in the axes that vary: "trace.safetensors, 20 GB".
std::string title_of(const ComparedBlock& block) {
  const std::string routing = routing_name(block);
  return (routing.empty() ? "" : routing + ", ") + one_line(block.budget);
}

}  // namespace

std::string routing_name(const ComparedBlock& block) {
  return one_line(block.law.empty() ? block.trace : "law " + block.law);
}

bool hits_differ(const PolicyComparison& c, const ComparedBlock& block) {
  if (c.family == "cache" || !block.has_hits) return block.has_hits;
  const auto hits = [](const ComparedPolicy& p) { return p.mean_of(&PolicySample::hit_share); };
  return std::any_of(block.policies.begin(), block.policies.end(), [&](const ComparedPolicy& p) {
    return p.counts() && hits(p) != hits(block.policies.front());
  });
}

std::string compare_table(const PolicyComparison& c, TextForm form) {
  TextReport report(form);
  std::string answers;
  for (const ComparedBlock& block : c.blocks) answers += answer(c, block);
  for (const ComparedBlock& block : c.unfit)
    answers += "At " + title_of(block) + " nothing fits: " + one_line(block.why_unfit()) + ".\n";
  const std::vector<OverallRank> overall =
      c.blocks.size() > 1 ? overall_ranks(c) : std::vector<OverallRank>();
  if (!overall.empty()) answers += overall_answer(c, overall);
  report.add_lines(answers);
  report.add_lines(
      one_line(c.scenario + ", system " + c.system + ": " + c.model + " on " + c.device) + "\n" +
      (c.seeds == 1
           ? "seed " + std::to_string(c.first_seed)
           : "seeds " + std::to_string(c.first_seed) + " to " + std::to_string(c.first_seed + c.seeds - 1)) +
      "; parameters that are not named are the policies' defaults, of '" + c.own_policy + "' the system's\n" +
      (compared_family(c.family).of_clusters
           ? "executor fast; 'moelab run' lets a cluster's messages share the network "
             "under simgrid, unless told "
             "otherwise\n"
           : ""));
  for (const ComparedBlock& block : c.blocks) {
    if (c.blocks.size() > 1) {
      report.add_lines(title_of(block) + "\n");
      report.join_next();
    }
    report.add_table(table_of(c, block));
    report.join_next();
    report.add_lines(refusals_of(block));
  }
  if (!overall.empty()) {
    report.add_lines("over all\n");
    report.join_next();
    report.add_table(overall_table(overall, c));
  }
  report.add_lines(legend(c));
  return report.text();
}

std::string compare_csv(const PolicyComparison& c) {
  const bool routed = !routing_name(c.blocks.front()).empty();
  std::ostringstream text;
  text.precision(17);
  text << (routed ? "trace,law," : "") << "budget_bytes," << c.family << ",seed," << judged_words(c.by).key
       << ",hit_share,parts_share\n";
  for (const ComparedBlock& block : c.blocks)
    for (const ComparedPolicy& cache : block.policies)
      for (std::size_t i = 0; cache.refused.empty() && i < cache.by_seed.size(); ++i) {
        if (routed) text << csv_cell(block.trace) << ',' << csv_cell(block.law) << ',';
        text << block.bytes << ',' << cache.name << ',' << c.first_seed + i << ',' << cache.by_seed[i].seconds
             << ',' << cache.by_seed[i].hit_share << ',' << cache.by_seed[i].parts_share << "\n";
      }
  return text.str();
}

}  // namespace moelab::cli
