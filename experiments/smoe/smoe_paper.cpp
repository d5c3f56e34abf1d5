#include <algorithm>
#include <array>
#include <cstdio>

#include "experiments/claims/study_scenario.hpp"
#include "experiments/smoe/smoe_figures.hpp"
#include "experiments/smoe/smoe_orders.hpp"
#include "experiments/smoe/smoe_tables.hpp"
#include "models/timing.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/expert_costs.hpp"

namespace moelab::smoe {
namespace {

void row(const std::string& id, const std::string& claim, const std::string& paper, const std::string& ours,
         const std::string& error = "-", const std::string& fitted = "no") {
  std::printf("| %s | %s | %s | %s | %s | %s |\n", id.c_str(), claim.c_str(), paper.c_str(), ours.c_str(),
              error.c_str(), fitted.c_str());
  std::fflush(stdout);
}

/// A share that the paper gives as one number.
void share_row(const std::string& id, const std::string& claim, double paper, double ours,
               const std::string& detail = "", const std::string& fitted = "no") {
  row(id, claim, percent(paper, 0), percent(ours) + (detail.empty() ? "" : " (" + detail + ")"),
      percent((ours - paper) / paper, 0), fitted);
}

/// One figure a setting, in the order of the settings.
template <class Of>
std::string by_setting(const Points& points, int batch, Of of) {
  std::string text;
  for (const Setting& s : kSettings)
    text += (text.empty() ? "" : ", ") + std::string(s.id) + " " + percent(of(at(points, s.id, batch)));
  return text;
}

void tpot_rows(const Points& points) {
  struct Paper {
    const char *id, *claim;
    std::array<double, 2> reduction;  // batch 1, 3
  };
  constexpr std::array<Paper, 3> kPaper = {
      {{"S1", "TPOT reduction against the best baseline, mean of the settings", {0.24, 0.35}},
       {"S2", "the same in S3", {0.34, 0.48}},
       {"S3", "the same in S1", {0.20, 0.27}}}};
  for (const Paper& row : kPaper)
    for (std::size_t i = 0; i < kBatches.size(); ++i) {
      const int batch = kBatches[i];
      const std::string claim = std::string(row.claim) + ", batch " + std::to_string(batch);
      if (row.id == std::string("S1"))
        share_row(row.id, claim, row.reduction[i], mean_gain(points, batch),
                  by_setting(points, batch, [](const Point& p) { return gain(p); }));
      else
        share_row(row.id, claim, row.reduction[i],
                  gain(at(points, row.id == std::string("S2") ? "S3" : "S1", batch)));
    }
}

double smoe_hits(const Point& p) {
  return p.outcomes.at("smoe").hit_rate;
}

std::string gain_of_hits(const Point& p) {
  const HitGain more = hit_gain(p);
  return std::string(p.setting->id) + " batch " + std::to_string(p.batch) + " " + percent(more.more) +
         " over " + more.name;
}

void hit_rows(const Points& points) {
  std::string gains;
  for (const Point& p : points) gains += (gains.empty() ? "" : ", ") + gain_of_hits(p);
  row("S4", "GPU expert hit rate, all settings and batches", "> 60 %",
      "at least " + percent(least_hits(points)) + " (batch 1: " + by_setting(points, 1, smoe_hits) +
          "; batch 3: " + by_setting(points, 3, smoe_hits) + ")");
  share_row("S4", "the same, S3, batch 1", 0.71, smoe_hits(at(points, "S3", 1)));
  share_row("S6", "GPU expert hit rate over that of the best baseline, least gain", 0.65,
            least_hit_gain(points), gains);
}

void time_share_rows(const Points& points) {
  const LoadShares shares = load_shares(at(points, "S3", 1));
  share_row("S5", "share of TPOT without the method, S3: low-score loading", 0.42, shares.low);
  share_row("S5", "the same: top-score loading", 0.29, shares.top);
  share_row("S5", "the same: GPU (here all that is not loading)", 0.29, 1 - shares.low - shares.top);
}

void ablation_rows(const Points& points) {
  constexpr std::array<const char*, 4> kNames = {"+CE", "+CR", "+Pre", "+BA"};
  constexpr std::array<double, 4> kTpot = {-0.08, -0.20, -0.14, -0.34}, kHits = {0.11, 0.60, 0.12, -0.03};
  for (std::size_t i = 0; i < kNames.size(); ++i)
    share_row("S7", std::string("ablation, batch 1, TPOT: ") + kNames[i], kTpot[i],
              mean_change(points, i + 1, tpot_change),
              by_setting(points, 1, [i](const Point& p) { return tpot_change(p, i + 1); }));
  for (std::size_t i = 0; i < kNames.size(); ++i)
    share_row("S8", std::string("ablation, batch 1, GPU expert hit rate: ") + kNames[i], kHits[i],
              mean_change(points, i + 1, hit_change),
              by_setting(points, 1, [i](const Point& p) { return hit_change(p, i + 1); }));
  for (std::size_t i = 2; i < kNames.size(); ++i)
    share_row("S8", std::string("the same where experts on their way count as found: ") + kNames[i], kHits[i],
              mean_change(points, i + 1, found_change),
              by_setting(points, 1, [i](const Point& p) { return found_change(p, i + 1); }));
}

double fetched_active_of_others(const Point& p) {
  const double top = fetched_top_score(p);
  return (fetched_active(p) - top) / (1 - top);
}

void prefetch_rows(const Points& points) {
  const std::string input = "input: policy gate-prediction draws what it wishes with the paper's figures";
  share_row("S9", "share of the fetched experts that is top-score, batch 1", 0.82,
            mean_over_settings(points, fetched_top_score), by_setting(points, 1, fetched_top_score), input);
  share_row("S9", "of those that are not, the share that is active", 0.95,
            mean_over_settings(points, fetched_active_of_others),
            by_setting(points, 1, fetched_active_of_others), input);
  share_row("S9", "share of all fetched experts that is active", 0.991,
            mean_over_settings(points, fetched_active), by_setting(points, 1, fetched_active), input);
}

void ttft_row(const Points& points) {
  share_row("S10", "TTFT reduction against the best baseline, batch 1, mean", 0.11, mean_ttft_gain(points),
            by_setting(points, 1, [](const Point& p) { return ttft_gain(p); }));
}

}  // namespace

double cpu_over_load(const Setting& setting) {
  const Scenario s = study_scenario(setting.scenario);
  const TimingModel timing(s.device);
  return timing.cpu_expert(s.model, s.model.moe(), 1).value().value() /
         expert_costs(s.model, timing, s.systems.front()).load_s();
}

namespace {

void cpu_row() {
  std::string all;
  for (const Setting& s : kSettings)
    all += (all.empty() ? "" : ", ") + std::string(s.id) + " " + percent(cpu_over_load(s), 0);
  share_row("S11", "CPU time of an expert over its load time, S3", 1.0 / 3, cpu_over_load(kSettings[2]), all);
}

void threshold_rows() {
  std::string in_use;
  for (const Setting& s : kSettings) {
    Scenario scenario = study_scenario(s.scenario);
    std::array<char, 32> b{};
    std::snprintf(b.data(), b.size(), "%s%.2f", in_use.empty() ? "" : " / ",
                  system_named(scenario, "smoe").routing.parameters.at("alpha"));
    in_use += b.data();
  }
  row("S12", "alpha in use: S1 / S2 / S3", "0.35 / 0.30 / 0.25", in_use, "-", "input");
}

AlphaLine alpha_line(const Setting& setting) {
  Scenario scenario = study_scenario(setting.scenario);
  keep_systems(scenario, {"smoe"});
  SystemConfig& system = scenario.systems.front();
  const RoutingTrace trace = scenario_trace(scenario);
  AlphaLine line;
  for (int tenth = 0; tenth <= 6; ++tenth) {
    set_alpha(system, tenth / 10.0);
    line.runs.push_back({tenth / 10.0, run_one(scenario, system, trace).tpot_s});
  }
  double mean = 0, spread = 0;
  const auto n = static_cast<double>(line.runs.size());
  for (const AlphaPoint& r : line.runs) mean += r.tpot_s / n;
  for (const AlphaPoint& r : line.runs) spread += (r.tpot_s - mean) * (r.tpot_s - mean);
  const PolynomialFit fit = fit_polynomial(line.runs, 1);
  line.slope_s = fit.coefficients[1];
  line.r2 = 1 - fit.rms_residual_s * fit.rms_residual_s * n / spread;
  return line;
}

}  // namespace

const std::array<AlphaLine, kSettings.size()>& alpha_lines() {
  static const auto lines = [] {
    std::array<AlphaLine, kSettings.size()> all;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = alpha_line(kSettings[i]);
    return all;
  }();
  return lines;
}

bool AlphaLine::falls() const {
  return std::is_sorted(runs.rbegin(), runs.rend(),
                        [](const AlphaPoint& a, const AlphaPoint& b) { return a.tpot_s < b.tpot_s; });
}

std::string text_of(const AlphaLine& line, const Setting& setting) {
  std::string text = std::string(setting.id) + ": ";
  std::array<char, 96> b{};
  for (const AlphaPoint& r : line.runs) {
    std::snprintf(b.data(), b.size(), "%.1f ", 1e3 * r.tpot_s);
    text += b.data();
  }
  std::snprintf(b.data(), b.size(), "ms; %.1f ms an alpha of 0.1, R2 %.2f", 1e2 * line.slope_s, line.r2);
  return text + b.data();
}

namespace {

void alpha_row() {
  std::string fits;
  for (std::size_t i = 0; i < kSettings.size(); ++i)
    fits += (i == 0 ? "" : "<br>") + text_of(alpha_lines()[i], kSettings[i]);
  row("S13", "T(alpha) at 0, 0.1 .. 0.6, and a line through it, batch 1", "falls about linearly", fits);
}

}  // namespace

void print_paper_table(const Points& points) {
  std::printf(
      "## The paper's rows\n\n| row | claim | paper | ours | relative error | fitted "
      "|\n|---|---|---|---|---|---|\n");
  tpot_rows(points);
  hit_rows(points);
  time_share_rows(points);
  ablation_rows(points);
  prefetch_rows(points);
  ttft_row(points);
  cpu_row();
  threshold_rows();
  alpha_row();
  row("S14", "accuracy against alpha", "Table IV",
      "carried over, not computed: [configs/quality](../../configs/quality/smoe-substitution.yaml)", "-",
      "input");
}

}  // namespace moelab::smoe
