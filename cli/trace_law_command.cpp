// moelab trace law: the law that a model's routing is drawn from, where it is from, and how well it is known.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>

#include "cli/commands.hpp"
#include "cli/layer_table.hpp"
#include "cli/terminal_line.hpp"
#include "models/architecture.hpp"
#include "models/config_store.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/results/other_file.hpp"
#include "sim/results/text_table.hpp"
#include "traces/law/figures_fit.hpp"
#include "traces/law/model_law.hpp"

namespace moelab::cli {
namespace {

struct TraceLawArguments {
  std::string model, figures, out, format = "table";
  bool rule = false, leave_one_out = false;
};

std::string fixed(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string terms_text(const LawTerms& terms) {
  return fixed(terms.bias, 3) + " " + fixed(terms.prompt, 3) + " " + fixed(terms.spans, 3);
}

std::string coefficients(const std::string& name, const std::array<double, RoutingRule::kFeatures>& c) {
  std::string text = name + " {";
  for (std::size_t i = 0; i < c.size(); ++i) text += (i > 0 ? ", " : "") + fixed(c[i], 4);
  return text + "}";
}

void print_rule_test(const RuleTest& test) {
  std::vector<std::vector<std::string>> rows = {{"model left out", "bias prompt spans", "by rule", "LRU 25 %",
                                                 "rule", "50 %", "rule", "75 %", "rule", "worst"}};
  for (const LeftOut& left : test.left_out) {
    std::vector<std::string> row = {left.model.model, terms_text(left.fitted), terms_text(left.by_rule)};
    for (std::size_t i = 0; i < left.own.size(); ++i) {
      row.push_back(fixed(left.own[i], 3));
      row.push_back(fixed(left.rule[i], 3));
    }
    row.push_back(fixed(left.worst(), 3));
    rows.push_back(std::move(row));
  }
  std::cout << align_columns(rows, 3) << "\n"
            << "the rule of all: a term = {constant, times top_k / experts, times the share of feed-forward "
               "work that is not routed}\n"
            << coefficients("bias", test.rule.bias) << "\n"
            << coefficients("prompt", test.rule.prompt) << "\n"
            << coefficients("spans", test.rule.spans) << "\n";
}

void print_rule_test_json(const RuleTest& test) {
  nlohmann::ordered_json all;
  all["rule"] = {{"bias", test.rule.bias}, {"prompt", test.rule.prompt}, {"spans", test.rule.spans}};
  for (const LeftOut& left : test.left_out)
    all["left_out"].push_back({{"model", left.model.model},
                               {"lru", left.own},
                               {"lru_by_rule", left.rule},
                               {"figures_by_rule", left.drawn},
                               {"worst", left.worst()}});
  std::cout << json_text(all);
}

const ModelFigures& figures_of(const PublishedRouting& published, const std::string& model,
                               const std::string& file) {
  std::vector<std::string> names;
  for (const ModelFigures& m : published.models) {
    if (m.model == model) return m;
    names.push_back(m.model);
  }
  throw InputError(file, "has no figures of '" + model + "'" + suggestion(model, names));
}

RoutingLaw law_asked_for(const TraceLawArguments& options) {
  if (!options.figures.empty()) {
    const PublishedRouting published = load_published_routing(options.figures);
    return law_of_figures(published, figures_of(published, options.model, options.figures), 1);
  }
  const std::string kind = kind_of_config(options.model, find_config("models", options.model).text);
  if (!kind.empty()) throw InputError(options.model, kind + "; expected a model");
  const Architecture model = load_architecture(options.model);
  if (model.moe_layers().empty()) throw InputError(options.model, "has no MoE layers, so nothing is routed");
  return options.rule ? law_by_rule(model) : law_of_model(model).law;
}

void print_law(const TraceLawArguments& options, const RoutingLaw& law) {
  std::vector<PublishedFigure> figures(4);
  for (std::size_t i = 0; i < figures.size(); ++i) {
    figures[i].kind = i == 0 ? FigureKind::reuse : FigureKind::lru;
    figures[i].places = 0.25 * static_cast<double>(i);
    figures[i].tokens = 255;
    figures[i].cold = false;
  }
  const std::vector<double> drawn = drawn_figures(law, figures, 1);
  if (options.format == "json") {
    std::cout << json_text({{"model", law.model},
                            {"routing", law_title(law)},
                            {"points", law.points},
                            {"provenance", law.provenance},
                            {"layers", law.layers.size()},
                            {"experts", law.experts},
                            {"top_k", law.top_k},
                            {"reuse", drawn[0]},
                            {"lru_25", drawn[1]},
                            {"lru_50", drawn[2]},
                            {"lru_75", drawn[3]}});
    return;
  }
  std::cout << options.model << ": " << law_title(law) << "; " << law.layers.size() << " layers of "
            << law.experts << " experts, top-" << law.top_k << "\n"
            << law.provenance << "\n";
  for (std::size_t i = 0; i < figures.size(); ++i)
    std::cout << "  " << figure_title(figures[i]) << ": " << fixed(drawn[i], 3) << "\n";
}

void run(const TraceLawArguments& options) {
  if (options.leave_one_out != options.model.empty())
    throw InputError("moelab trace law", "takes either a MODEL or --leave-one-out");
  if (options.rule && !options.figures.empty())
    throw InputError("moelab trace law", "takes either --rule, which asks a model's shape, or --figures");
  TerminalLine line;
  if (options.leave_one_out) {
    const PublishedRouting published =
        load_published_routing(options.figures.empty() ? "routing" : options.figures);
    const RuleTest test = leave_one_out(
        published, 1, [&](const std::string& model) { line.show("fit to the figures of " + model); });
    line.clear();
    return options.format == "json" ? print_rule_test_json(test) : print_rule_test(test);
  }
  check_outputs({options.out}, {options.model, options.figures});
  const RoutingLaw law = law_asked_for(options);
  if (!options.out.empty()) write_outputs({{options.out, to_yaml(law)}});
  print_law(options, law);
}

}  // namespace

void add_trace_law(CLI::App& trace) {
  const auto options = std::make_shared<TraceLawArguments>();
  CLI::App* command = trace.add_subcommand(
      "law",
      "The law that a model's routing is drawn from where no trace is given, and how well it is known");
  command->add_option("MODEL", options->model, "Model, as 'moelab models' lists it, or a file");
  command->add_flag("--rule", options->rule,
                    "By rule from the model's shape, whatever is known of the model itself");
  command->add_option("--figures", options->figures,
                      "Fit to what this file says of MODEL's routing ('routing': configs/figures)");
  command->add_option("--out", options->out, "File to write the law to (YAML)");
  command->add_flag("--leave-one-out", options->leave_one_out,
                    "Test the rule: for each model with figures, fit it to all others and compare");
  add_format(*command, options->format);
  add_example(*command, "moelab trace law deepseek-v2-lite --out law.yaml");
  command->callback([options] { run(*options); });
}

}  // namespace moelab::cli
