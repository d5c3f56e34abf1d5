// The Prism paper's numbered claims, P1 to P7, held against the study's runs.
#include <algorithm>

#include "experiments/claims/claim.hpp"
#include "experiments/prism/prism_paper.hpp"
#include "experiments/prism/prism_study.hpp"

namespace moelab::prism {
namespace {

using claims::Claim;
using claims::Figure;

double mean_of_shares(const std::vector<double>& shares) {
  return claims::interval95(shares).mean;
}

std::string means_of(const std::vector<BySeed>& rows, std::size_t number) {
  std::string text;
  for (std::size_t i = 0; i < number; ++i)
    text += (i == 0 ? "" : " / ") + with_interval(mean_latencies(rows[i]));
  return text;
}

Claim claim_p1(const Study& study) {
  const std::vector<BySeed>& rows = study.table1;
  std::vector<Figure> figures;
  std::string paper;
  for (std::size_t i = 0; i < kPaperAlone.size(); ++i) {
    figures.push_back({kPaperAlone[i].mean, mean_over_seeds(rows[i])});
    paper += (i == 0 ? "" : " / ") + fixed(kPaperAlone[i].mean);
  }
  const bool order = figures[0].ours > figures[1].ours && figures[1].ours > figures[2].ours;
  return {.id = "P1",
          .claim = "Table I, mean latency: MoE-Infinity alone / redirected / naive collaboration",
          .paper = paper + " s",
          .ours = means_of(rows, 3) +
                  " s; arithmetic prompts with choices: " + means_of(study.table1_choices, 3) +
                  " s; naive collaboration with software fitted: " + with_interval(mean_latencies(rows[3])) +
                  " s",
          .verdict = claims::judge(figures, order),
          .because =
              "arithmetic prompts are the questions; calls cost no software (with the costs fitted to "
              "Uniform naive collaboration is slower than redirection)"};
}

/// Table II but the rows that were fitted.
struct Table2Figures {
  std::vector<Figure> seconds;                                        // of each server, and the mean
  int means_within = 0, means = 0, pairs = 0, first = 0, second = 0;  // Prism is first, EPLB second
  /// By which Redundance would have to be slower everywhere for EPLB to be second, as a share.
  double redundance_slower = 0;
};

std::size_t method(const char* name) {
  return static_cast<std::size_t>(std::find(kMethods.begin(), kMethods.end(), name) - kMethods.begin());
}

void add_order(std::size_t workload, const std::vector<BySeed>& row, Table2Figures& all) {
  const double prism = mean_over_seeds(row[method("prism")]), eplb = mean_over_seeds(row[method("eplb")]);
  int before_prism = 0, before_eplb = 0;
  for (const BySeed& results : row) {
    before_prism += mean_over_seeds(results) < prism ? 1 : 0;
    before_eplb += mean_over_seeds(results) < eplb ? 1 : 0;
  }
  all.first += before_prism == 0 ? 1 : 0;
  all.second += before_eplb == 1 ? 1 : 0;
  all.pairs += pairs_as_in_paper(workload, row);
  all.redundance_slower =
      std::max(all.redundance_slower, eplb / mean_over_seeds(row[method("redundance")]) - 1);
}

Table2Figures table2_figures(const Table2& table) {
  Table2Figures all;
  for (std::size_t w = 0; w < table.size(); ++w) {
    add_order(w, table[w], all);
    for (std::size_t m = 0; m < kMethods.size(); ++m) {
      if (kMethods[m] == "uniform") continue;
      const Figure mean{paper_mean(w, kMethods[m]), mean_over_seeds(table[w][m])};
      all.seconds.push_back(mean);
      ++all.means;
      if (claims::relative_error(mean) <= claims::kSizeTolerance) ++all.means_within;
      for (std::size_t server = 0; server < kServers; ++server)
        all.seconds.push_back({paper_latency(w, kMethods[m])[server], server_mean(table[w][m], server)});
    }
  }
  return all;
}

std::string table2_text(const Table2Figures& f) {
  return "Prism lowest in " + std::to_string(f.first) + " of 4, EPLB second in " + std::to_string(f.second) +
         ", " + std::to_string(f.pairs) + " of 40 pairs of methods as in the paper, " +
         std::to_string(f.means_within) + " of " + std::to_string(f.means) + " means within 15 %";
}

Claim claim_p2(const Study& study) {
  const Table2Figures fitted = table2_figures(study.fitted), plain = table2_figures(study.plain);
  return {.id = "P2",
          .claim = "Table II: five methods, two models, two workloads, latency by server and mean",
          .paper = "Prism lowest in 4 of 4, EPLB second in 4",
          .ours = "software fitted to Uniform's rows, which do not count: " + table2_text(fitted) +
                  "; nothing fitted: " + table2_text(plain),
          .verdict = claims::judge(fitted.seconds, fitted.first == 4 && fitted.second == 4),
          .because =
              "that Redundance costs what its placement costs: the paper lays its latency to a "
              "'suboptimal implementation' that it does not describe; were it slower by " +
              percent(fitted.redundance_slower) + ", EPLB would be second (nothing fitted: by " +
              percent(plain.redundance_slower) + ")"};
}

Claim claim_p3(const Study& study) {
  const std::vector<double> tasks = gain_over_eplb(study.fitted[0]), broad = gain_over_eplb(study.fitted[1]);
  const std::vector<Figure> figures = {{paper_gain_over_eplb(0), mean_of_shares(tasks)},
                                       {paper_gain_over_eplb(1), mean_of_shares(broad)}};
  const bool order = figures[0].ours < figures[1].ours && figures[1].ours < 0;
  return {.id = "P3",
          .claim = "Prism against EPLB, DeepSeek-V2-Lite, mean latency: BigBench / MultiData",
          .paper = percent(paper_gain_over_eplb(0)) + " / " + percent(paper_gain_over_eplb(1)),
          .ours = percent_with_interval(tasks) + " / " + percent_with_interval(broad) + "; nothing fitted " +
                  percent_with_interval(gain_over_eplb(study.plain[0])) + " / " +
                  percent_with_interval(gain_over_eplb(study.plain[1])),
          .verdict = claims::judge(figures, order),
          .because =
              "software fitted to Uniform's rows; with software fitted BigBench and MultiData cannot be told "
              "apart, with nothing fitted they can"};
}

Claim claim_p4(const Study& study) {
  const std::vector<double> gain = gain_over_eplb(study.fitted[3]);
  const std::vector<Figure> figures = {{paper_gain_over_eplb(3), mean_of_shares(gain)}};
  const bool order = figures[0].ours < 0 && figures[0].ours > mean_of_shares(gain_over_eplb(study.fitted[1]));
  return {.id = "P4",
          .claim = "Prism against EPLB, Mixtral, MultiData, mean latency: less than with DeepSeek-V2-Lite",
          .paper = percent(paper_gain_over_eplb(3)),
          .ours = percent_with_interval(gain) + "; nothing fitted " +
                  percent_with_interval(gain_over_eplb(study.plain[3])),
          .verdict = claims::judge(figures, order),
          .because = "software fitted to Uniform's rows; on BigBench, with software fitted, Mixtral's is " +
                     percent(mean_of_shares(gain_over_eplb(study.fitted[2]))) + ", DeepSeek-V2-Lite's " +
                     percent(mean_of_shares(gain_over_eplb(study.fitted[0])))};
}

std::string moves_text(const Shift& shift) {
  std::string text;
  for (const RunResult& r : shift.moving) text += (text.empty() ? "" : ", ") + std::to_string(moves(r));
  return percent_with_interval(shift.change()) + " (" + text + " migrations by seed)";
}

Claim claim_p5(const Study& study) {
  const Shifts& s = study.shifts;
  const std::vector<Figure> figures = {
      {kPaperMigrating_s / kPaperStatic_s - 1, mean_of_shares(s.fitted.change())}};
  return {.id = "P5",
          .claim = "Figure 7, migration on against off, mean latency; three migrations",
          .paper = fixed(kPaperStatic_s) + " -> " + fixed(kPaperMigrating_s) + " s (" +
                   percent(kPaperMigrating_s / kPaperStatic_s - 1, 0) + "); 3",
          .ours = moves_text(s.fitted) + "; first placed for the three tasks alike " + moves_text(s.even) +
                  "; nothing fitted " + moves_text(s.plain),
          .verdict = claims::judge(figures, figures[0].ours < 0),
          .because =
              "software fitted, first placed for other servers' tasks; the horizons were set for three "
              "migrations, so that their number is no result"};
}

std::string growth_text(const ScaleRuns& scale, Stream stream) {
  return percent_with_interval(scale.growth(15, stream)) + " / " +
         percent_with_interval(scale.growth(8, stream));
}

Claim claim_p6(const Study& study) {
  const ScaleRuns& scale = study.scale;
  const std::vector<Figure> figures = {{-0.09, mean_of_shares(scale.growth(15, Stream::one))},
                                       {-0.19, mean_of_shares(scale.growth(8, Stream::one))}};
  return {.id = "P6",
          .claim = "Figure 8a, mean time of a request, more GPUs: Poisson 15 s / 8 s",
          .paper = "4 -> 256 GPUs: -9 % / -19 %",
          .ours = "4 -> " + std::to_string(scale.gpus().back()) + " GPUs: one testbed's stream " +
                  growth_text(scale, Stream::one) + "; a stream a server " +
                  growth_text(scale, Stream::each_server) + "; software fitted, one stream " +
                  growth_text(study.scale_fitted, Stream::one) + ", a stream a server " +
                  growth_text(study.scale_fitted, Stream::each_server),
          .verdict = claims::judge(figures, figures[0].ours < 0 && figures[1].ours < figures[0].ours),
          .because =
              "one testbed's stream whatever the number of GPUs, experts placed once, nothing fitted; a "
              "stream a server: slower with nothing fitted, the sign not known with software fitted; to 256 "
              "GPUs (prism_rows scale): one stream -9.4 +- 6.6 % / -15.6 +- 7.7 %, a stream a server +11 / "
              "+25 % (one seed), the opposite"};
}

std::string faster_text(const ScaleRuns& scale, Stream stream) {
  return percent_with_interval(scale.faster(scale.gpus().back(), stream));
}

Claim claim_p7(const Study& study) {
  const ScaleRuns& scale = study.scale;
  const std::vector<double> few = scale.faster(scale.gpus().front(), Stream::one);
  const std::vector<Figure> figures = {
      {-0.55, mean_of_shares(few)}, {-0.35, mean_of_shares(scale.faster(scale.gpus().back(), Stream::one))}};
  return {.id = "P7",
          .claim = "Figure 8b, mean time of a request, 100 -> 1,000 Mbit/s: few GPUs / many",
          .paper = "4 GPUs -55 % / 256 GPUs -35 %",
          .ours = "4 GPUs " + percent_with_interval(few) + " / " + std::to_string(scale.gpus().back()) +
                  " GPUs, one testbed's stream " + faster_text(scale, Stream::one) + "; a stream a server " +
                  faster_text(scale, Stream::each_server) + "; software fitted " +
                  percent_with_interval(study.scale_fitted.faster(4, Stream::one)) + " / one stream " +
                  faster_text(study.scale_fitted, Stream::one),
          .verdict = claims::judge(figures, figures[0].ours < figures[1].ours && figures[1].ours < 0),
          .because =
              "one testbed's stream whatever the number of GPUs, experts placed once, nothing fitted; "
              "at 256 GPUs (prism_rows scale) one stream -88.4 +- 0.1 %, a stream a server -99.3 % (one "
              "seed); where experts migrate the order is lost (64 GPUs: -91.9 % against -91.6 %)"};
}

}  // namespace

std::vector<Claim> claims_of(const Study& study) {
  return {claim_p1(study), claim_p2(study), claim_p3(study), claim_p4(study),
          claim_p5(study), claim_p6(study), claim_p7(study)};
}

}  // namespace moelab::prism

namespace moelab::claims {

std::vector<Claim> prism_claims() {
  return prism::claims_of(prism::run_study());
}

}  // namespace moelab::claims
