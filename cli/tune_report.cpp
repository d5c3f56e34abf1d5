#include "cli/tune_report.hpp"

#include "cli/layer_table.hpp"
#include "models/json.hpp"
#include "models/substitution_quality.hpp"
#include "models/units.hpp"
#include "sim/results/text_table.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string milliseconds(double seconds) {
  return fixed(1e3 * seconds, 2);
}

/// Of the activations, how many went to another expert than the model's; 0 where there were none.
double substituted_share(const RoutingCounts& routing) {
  return routing.active == 0 ? 0
                             : static_cast<double>(routing.substituted) / static_cast<double>(routing.active);
}
double mass_share(const RoutingCounts& routing) {
  return routing.score_sum > 0 ? routing.mass_moved / routing.score_sum : 0;
}

/// Data sets of the published accuracies; none where nothing is published of the model.
std::vector<std::string> datasets(const std::string& model) {
  std::vector<std::string> names;
  if (const auto known = accuracy_after_substitution(model, 0))
    for (const DatasetAccuracy& one : known->datasets) names.push_back(one.dataset);
  return names;
}

using Rows = std::vector<std::vector<std::string>>;

std::vector<std::string> row_of(const TuneResult& r, const AlphaRun& run) {
  std::vector<std::string> row{
      fixed(run.alpha, 3), milliseconds(run.tpot_s), milliseconds(r.choice.fit(run.alpha)),
      fixed(100 * substituted_share(run.routing), 1), fixed(100 * mass_share(run.routing), 2)};
  const std::size_t known = datasets(r.model).size();
  const auto accuracy = accuracy_after_substitution(r.model, run.alpha);
  for (std::size_t d = 0; d < known; ++d)
    row.push_back(accuracy ? fixed(accuracy->datasets[d].expected, 1) : "-");
  return row;
}

std::string verdict(const TuneResult& r) {
  const std::string budget = milliseconds(r.budget_s) + " ms";
  const std::string at = "by the fit " + milliseconds(r.choice.tpot_s) + " ms, a run there " +
                         milliseconds(r.chosen.tpot_s) + " ms";
  switch (r.choice.outcome) {
    case BudgetOutcome::met_without:
      return "alpha 0: the budget of " + budget + " is met without substitution (" + at + ")";
    case BudgetOutcome::met:
      return "alpha " + fixed(r.choice.alpha, 4) + ": the smallest within the budget of " + budget + " (" +
             at +
             (r.chosen.tpot_s > r.budget_s
                  ? ", which misses it by " + milliseconds(r.chosen.tpot_s - r.budget_s) + " ms)"
                  : ")");
    case BudgetOutcome::not_met:
      break;
  }
  return "no alpha up to " + fixed(r.max_alpha, 3) + " meets the budget of " + budget + "; the fastest is " +
         fixed(r.choice.alpha, 4) + " (" + at + ")";
}

Json json_of(const TuneResult& r, const AlphaRun& run) {
  Json accuracy = nullptr;
  if (const auto known = accuracy_after_substitution(r.model, run.alpha))
    for (const DatasetAccuracy& one : known->datasets) accuracy[one.dataset] = one.expected;
  return {{"alpha", run.alpha},
          {"tpot_s", run.tpot_s},
          {"fitted_tpot_s", r.choice.fit(run.alpha)},
          {"active", run.routing.active},
          {"substituted", run.routing.substituted},
          {"substituted_share", substituted_share(run.routing)},
          {"mass_moved_share", mass_share(run.routing)},
          {"published_accuracy_percent", accuracy}};
}

std::string_view name_of(BudgetOutcome outcome) {
  switch (outcome) {
    case BudgetOutcome::met_without:
      return "met_without_substitution";
    case BudgetOutcome::met:
      return "met";
    case BudgetOutcome::not_met:
      break;
  }
  return "not_met";
}

template <class Figure>
plot::Series over_runs(const TuneResult& r, const std::string& name, const Figure& figure) {
  plot::Series series{.name = name};
  for (const AlphaRun& run : r.runs) {
    series.x.push_back(run.alpha);
    series.y.push_back(figure(run));
  }
  return series;
}

plot::Panel tpot_panel(const TuneResult& r) {
  plot::Series runs = over_runs(r, "runs", [](const AlphaRun& run) { return run.tpot_s; });
  runs.mark = plot::Mark::dots;
  plot::Series fit{.name = "fit"};
  constexpr int kPieces = 60;
  for (int i = 0; i <= kPieces; ++i) {
    fit.x.push_back(r.max_alpha * i / kPieces);
    fit.y.push_back(r.choice.fit(fit.x.back()));
  }
  const plot::Series budget{.name = "budget", .x = {0, r.max_alpha}, .y = {r.budget_s, r.budget_s}};
  const plot::Series chosen{.name = r.choice.outcome == BudgetOutcome::not_met ? "fastest" : "chosen",
                            .x = {r.chosen.alpha},
                            .y = {r.chosen.tpot_s},
                            .mark = plot::Mark::dots};
  return {.title = "Time per output token",
          .x = {.label = "alpha"},
          .y = {.label = "TPOT", .unit = "s"},
          .series = {runs, fit, budget, chosen}};
}

plot::Panel accuracy_panel(const TuneResult& r, const std::vector<std::string>& names) {
  plot::Panel panel{.title = "Accuracy, from the paper, by alpha",
                    .x = {.label = "alpha"},
                    .y = {.label = "percent right"}};
  for (std::size_t d = 0; d < names.size(); ++d) {
    plot::Series series{.name = names[d]};
    for (const AlphaRun& run : r.runs)
      if (const auto accuracy = accuracy_after_substitution(r.model, run.alpha)) {
        series.x.push_back(run.alpha);
        series.y.push_back(accuracy->datasets[d].expected);
      }
    panel.series.push_back(std::move(series));
  }
  return panel;
}

}  // namespace

std::string tune_table(const TuneResult& r) {
  Rows rows{{"alpha", "TPOT ms", "fit ms", "substituted %", "score moved %"}};
  const std::vector<std::string> names = datasets(r.model);
  rows.front().insert(rows.front().end(), names.begin(), names.end());
  for (const AlphaRun& run : r.runs) rows.push_back(row_of(r, run));
  rows.push_back(row_of(r, r.chosen));
  rows.back().front().insert(0, "> ");
  std::string text = one_line(r.scenario + ", " + r.system + ", " + r.model) + "\n\n" +
                     align_columns(rows, 0) + "\n" + verdict(r) + "\n";
  text += "fit: polynomial of degree " + std::to_string(r.choice.fit.coefficients.size() - 1) +
          ", residual " + milliseconds(r.choice.fit.rms_residual_s) + " ms rms, " +
          milliseconds(r.choice.fit.largest_residual_s) + " ms at most\n";
  if (const auto accuracy = accuracy_after_substitution(r.model, 0))
    text += "accuracy, percent: from the paper, by alpha alone (" + accuracy->source + ")\n";
  else
    text += "accuracy: nothing is published of " + one_line(r.model) + "\n";
  for (const std::string& warning : r.warnings) text += "warning: " + one_line(warning) + "\n";
  return text;
}

std::string tune_json(const TuneResult& r) {
  Json runs = Json::array();
  for (const AlphaRun& run : r.runs) runs.push_back(json_of(r, run));
  Json source = nullptr;
  if (const auto accuracy = accuracy_after_substitution(r.model, 0)) source = accuracy->source;
  return json_text({{"scenario", r.scenario},
                    {"system", r.system},
                    {"model", r.model},
                    {"budget_s", r.budget_s},
                    {"max_alpha", r.max_alpha},
                    {"outcome", name_of(r.choice.outcome)},
                    {"alpha", r.choice.alpha},
                    {"chosen_within_budget", r.chosen.tpot_s <= r.budget_s},
                    {"chosen", json_of(r, r.chosen)},
                    {"fit",
                     {{"coefficients_s", r.choice.fit.coefficients},
                      {"rms_residual_s", r.choice.fit.rms_residual_s},
                      {"largest_residual_s", r.choice.fit.largest_residual_s}}},
                    {"runs", runs},
                    {"accuracy_source", source},
                    {"warnings", r.warnings}});
}

plot::Figure tune_figure(const TuneResult& r) {
  plot::Figure figure{.title = r.system + ", " + r.model, .caption = verdict(r), .columns = 2};
  figure.panels.push_back(tpot_panel(r));
  figure.panels.push_back(
      {.title = "What it changes",
       .x = {.label = "alpha"},
       .y = {.label = "share"},
       .series = {
           over_runs(r, "activations substituted",
                     [](const AlphaRun& run) { return substituted_share(run.routing); }),
           over_runs(r, "gate score moved", [](const AlphaRun& run) { return mass_share(run.routing); })}});
  const std::vector<std::string> names = datasets(r.model);
  if (!names.empty()) figure.panels.push_back(accuracy_panel(r, names));
  return figure;
}

}  // namespace moelab::cli
