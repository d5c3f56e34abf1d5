#include "cli/compare_report.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <sstream>
#include <vector>

#include "cli/layer_table.hpp"
#include "sim/results/text_table.hpp"

namespace moelab::cli {
namespace {

using Rivals = std::span<const ComparedCache>;

/// Those that are ranked, the best first.
Rivals rivals_of(const ComparedBudget& budget) {
  const auto end = std::find_if(budget.caches.begin(), budget.caches.end(),
                                [](const ComparedCache& c) { return c.knows_future || !c.refused.empty(); });
  return {budget.caches.begin(), end};
}

/// Milliseconds, with digits by how long a token takes at this budget: four in all, more from 100 ms on.
std::string in_ms(double seconds, const ComparedBudget& budget) {
  const double best_ms = 1e3 * budget.caches.front().rank.mean;
  const int before_point = best_ms > 0 ? static_cast<int>(std::floor(std::log10(best_ms))) + 1 : 1;
  return fixed(1e3 * seconds, std::clamp(4 - before_point, 2, 12));
}

std::string plus_minus(const Interval& interval, bool known, const ComparedBudget& budget) {
  return in_ms(interval.mean, budget) + (known ? " ± " + in_ms(interval.half_width, budget) : "");
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

/// Which cannot be told from the best, or how far behind the second is.
std::string runner_up_text(const ComparedBudget& budget) {
  const Rivals rivals = rivals_of(budget);
  if (rivals.size() == 1) return "";
  const PairedRank& second = rivals[1].rank;
  if (!second.best_rank) return ", " + in_ms(second.behind.mean, budget) + " ms before " + rivals[1].name;
  std::vector<std::string> noise;
  for (const ComparedCache& rival : rivals.subspan(1))
    if (rival.rank.noise()) noise.push_back(rival.name);
  if (noise.empty())
    return ", " + plus_minus(second.behind, true, budget) + " ms before " + rivals[1].name +
           ": more than noise";
  return "; what lies between it and " + joined(noise) + " may be noise";
}

std::string answer(const CacheComparison& c, const ComparedBudget& budget) {
  const Rivals rivals = rivals_of(budget);
  const ComparedCache& best = rivals.front();
  std::string text =
      "At " + one_line(budget.budget) + " " + best.name +
      (rivals.size() == 1 ? " takes " : " is the fastest of " + std::to_string(rivals.size()) + " caches: ") +
      in_ms(best.rank.mean, budget) + " ms a token" + runner_up_text(budget) + ".";
  if (const ComparedCache* const bound = budget.bound()) {
    const double more = bound->mean_of(&CacheSample::hit_share) - best.mean_of(&CacheSample::hit_share);
    text += " Belady, which knows the future, finds " + fixed(100 * std::abs(more), 1) + " points " +
            (more < 0 ? "fewer while decoding" : "more") + " and takes " +
            in_ms(bound->mean_of(&CacheSample::tpot_s), budget) + " ms.";
  } else {
    text += " Belady cannot be run here, so there is no regret.";
  }
  if (c.seeds == 1)
    text += " One seed gives no interval: whether a difference is noise is not known (--seeds).";
  else if (!best.rank.best_rank)
    text +=
        " No seed changes anything here: it is one measurement, and whether a difference is noise is not "
        "known.";
  return text + "\n";
}

std::string rank_text(const ComparedCache& cache) {
  if (cache.knows_future) return "bound";
  const PairedRank& rank = cache.rank;
  if (!rank.best_rank || *rank.best_rank == *rank.worst_rank) return std::to_string(rank.rank);
  return std::to_string(*rank.best_rank) + "-" + std::to_string(*rank.worst_rank);
}

std::string verdict_text(const ComparedCache& cache) {
  if (cache.knows_future) return "";
  if (cache.rank.rank == 1) return "best";
  return cache.rank.noise() ? "noise" : "";
}

bool finds_parts(const ComparedBudget& budget) {
  return std::any_of(budget.caches.begin(), budget.caches.end(), [](const ComparedCache& cache) {
    return cache.refused.empty() && cache.mean_of(&CacheSample::parts_share) > 0;
  });
}

std::vector<std::string> row_of(const ComparedBudget& budget, const ComparedCache& cache, bool parts) {
  const double hits = cache.mean_of(&CacheSample::hit_share), tpot_s = cache.mean_of(&CacheSample::tpot_s);
  std::vector<std::string> row = {cache.name, rank_text(cache), fixed(100 * hits, 1)};
  if (parts) row.push_back(fixed(100 * cache.mean_of(&CacheSample::parts_share), 1));
  row.push_back(in_ms(tpot_s, budget));
  const bool first = cache.rank.rank == 1;
  row.push_back(cache.knows_future || first
                    ? "-"
                    : plus_minus(cache.rank.behind, cache.rank.best_rank.has_value(), budget));
  if (const ComparedCache* const bound = budget.bound()) {
    row.push_back(fixed(100 * (bound->mean_of(&CacheSample::hit_share) - hits), 1));
    row.push_back(in_ms(tpot_s - bound->mean_of(&CacheSample::tpot_s), budget));
  }
  row.push_back(verdict_text(cache));
  return row;
}

std::string table_of(const ComparedBudget& budget) {
  const bool parts = finds_parts(budget);
  std::vector<std::string> head = {"cache", "rank", "hits %"};
  if (parts) head.emplace_back("in parts %");
  head.emplace_back("TPOT ms");
  head.emplace_back("behind the best");
  if (budget.bound() != nullptr) {
    head.emplace_back("regret, points");
    head.emplace_back("ms");
  }
  head.emplace_back("");
  std::vector<std::vector<std::string>> rows = {head};
  std::string refused;
  for (const ComparedCache& cache : budget.caches)
    if (cache.refused.empty())
      rows.push_back(row_of(budget, cache, parts));
    else
      refused += one_line("not run: " + cache.name + ": " + cache.refused) + "\n";
  return align_columns(rows, 1) + refused;
}

std::string legend(const CacheComparison& c) {
  std::string text =
      "hits: of the experts used while decoding, found in the form that the system keeps; TPOT: mean; "
      "regret: "
      "to belady\n";
  if (c.seeds > 1)
    text +=
        "behind the best: mean of differences seed by seed ± half of their 95 % interval (Student's t), each "
        "for\n"
        "itself; noise: it holds 0; rank: a range where such intervals leave one\n";
  return text;
}

}  // namespace

std::string compare_table(const CacheComparison& c) {
  std::string text;
  for (const ComparedBudget& budget : c.budgets) text += answer(c, budget);
  text +=
      "\n" + one_line(c.scenario + ", system " + c.system + ": " + c.model + " on " + c.device) + "\n" +
      (c.seeds == 1
           ? "seed " + std::to_string(c.first_seed)
           : "seeds " + std::to_string(c.first_seed) + " to " + std::to_string(c.first_seed + c.seeds - 1)) +
      "; parameters that are not named are the policies' defaults, of '" + c.own_policy + "' the system's\n";
  for (const ComparedBudget& budget : c.budgets)
    text += "\n" + (c.budgets.size() > 1 ? one_line(budget.budget) + "\n" : "") + table_of(budget);
  return text + "\n" + legend(c);
}

std::string compare_csv(const CacheComparison& c) {
  std::ostringstream text;
  text.precision(17);
  text << "budget_bytes,cache,seed,tpot_s,hit_share,parts_share\n";
  for (const ComparedBudget& budget : c.budgets)
    for (const ComparedCache& cache : budget.caches)
      for (std::size_t i = 0; cache.refused.empty() && i < cache.by_seed.size(); ++i)
        text << budget.bytes << ',' << cache.name << ',' << c.first_seed + i << ',' << cache.by_seed[i].tpot_s
             << ',' << cache.by_seed[i].hit_share << ',' << cache.by_seed[i].parts_share << "\n";
  return text.str();
}

}  // namespace moelab::cli
