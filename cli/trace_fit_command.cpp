// moelab trace fit: a law of routing (traces/law) from a recording, or how good such a law is.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "cli/commands.hpp"
#include "cli/layer_table.hpp"
#include "cli/terminal_line.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/results/text_report.hpp"
#include "traces/default_trace.hpp"
#include "traces/law/holdout.hpp"
#include "traces/law/law_fit.hpp"
#include "traces/model_title.hpp"

namespace moelab::cli {
namespace {

struct TraceFitArguments {
  std::string trace, gates, out, format = "table";
  bool holdout = false;
  std::uint64_t seed = 1;
};

std::string text(double value, const char* form) {
  if (!std::isfinite(value)) return "-";
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, form, value);
  return buffer;
}

/// How many aims are missed, and by what most; "" where no figure has one.
std::string missed_words(const std::vector<HoldoutRow>& rows) {
  const HoldoutRow* const worst = worst_of(rows);
  if (worst == nullptr) return "";
  const auto has_aim = [](const HoldoutRow& row) {
    return row.limit > 0 && std::isfinite(row.drawn_difference);
  };
  const auto misses = [&](const HoldoutRow& row) { return has_aim(row) && row.drawn_difference > row.limit; };
  return std::to_string(std::count_if(rows.begin(), rows.end(), misses)) + " of " +
         std::to_string(std::count_if(rows.begin(), rows.end(), has_aim)) +
         " aims are missed in the mean over layers; worst: " + worst->name + ", layer " +
         std::to_string(worst->worst_layer) + ": " + text(worst->held_out, "%.3f") + " held out, " +
         text(worst->drawn, "%.3f") + " drawn in the mean, " + text(worst->worst_difference, "%.3f") +
         " apart there\n";
}

std::string holdout_text(const std::vector<HoldoutRow>& rows, const TextForm& form) {
  TextTable table{{{"figure", "fitted to", "held out", "drawn", "drawn, difference", "halves, difference",
                    "worst layer", "aim"}}};
  for (const HoldoutRow& row : rows) {
    const auto difference = [&](double d) {
      return row.relative ? text(100 * d, "%.1f %%") : text(d, "%.4f");
    };
    const std::string worst = difference(row.worst_difference) + " (" + std::to_string(row.worst_layer) + ")";
    const std::string aim = row.relative ? text(100 * row.limit, "%.0f %%") : text(row.limit, "%.2f");
    table.rows.push_back({row.name, text(row.fitted_to, "%.3f"), text(row.held_out, "%.3f"),
                          text(row.drawn, "%.3f"), difference(row.drawn_difference),
                          difference(row.halves_difference),
                          std::isfinite(row.worst_difference) ? worst : "-", row.limit == 0 ? "" : aim});
  }
  TextReport report(form);
  report.add_lines(missed_words(rows));
  report.add_table(std::move(table));
  return report.text();
}

void print_json(const std::vector<HoldoutRow>& rows) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const HoldoutRow& row : rows)
    all.push_back({{"figure", row.name},
                   {"fitted_to", json_number(row.fitted_to)},
                   {"held_out", json_number(row.held_out)},
                   {"drawn", json_number(row.drawn)},
                   {"drawn_difference", json_number(row.drawn_difference)},
                   {"halves_difference", json_number(row.halves_difference)},
                   {"worst_difference", json_number(row.worst_difference)},
                   {"worst_layer", row.worst_layer},
                   {"relative", row.relative},
                   {"aim", row.limit == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(row.limit)}});
  std::cout << json_text(all);
}

void print_json(const std::string& out, const RoutingLaw& law) {
  std::cout << json_text({{"out", out},
                          {"model", law.model},
                          {"provenance", law.provenance},
                          {"layers", law.layers.size()},
                          {"experts", law.experts},
                          {"top_k", law.top_k}});
}

std::string described(const TraceFitArguments& options, const RoutingTrace& trace) {
  const auto name = [](const std::string& path) { return std::filesystem::path(path).filename().string(); };
  std::string text = name(options.trace) + " (" + std::to_string(trace.requests().size()) + " requests, " +
                     std::to_string(trace.tokens()) + " tokens of " + model_title(trace) + ")";
  if (trace.synthetic()) text += ", itself synthetic";
  if (!options.gates.empty()) text += ", gates from " + name(options.gates);
  return text;
}

void fit(const TraceFitArguments& options) {
  if (options.holdout == !options.out.empty())
    throw InputError("moelab trace fit", "takes either --out FILE or --holdout");
  check_outputs({options.out}, {options.trace, options.gates});
  const RoutingTrace trace = open_routing_trace(options.trace);
  const std::optional<RoutingTrace> gates =
      options.gates.empty() ? std::optional<RoutingTrace>() : open_routing_trace(options.gates);
  TerminalLine line;
  FitOptions fit_options;
  fit_options.gates = gates ? &*gates : nullptr;
  fit_options.source = described(options, trace);
  fit_options.progress = [&](std::uint64_t done, std::uint64_t all) {
    line.show("fit: step " + std::to_string(done) + " of " + std::to_string(all));
  };
  if (options.holdout) {
    const std::vector<HoldoutRow> rows = holdout(trace, fit_options, options.seed);
    line.clear();
    if (options.format == "json") return print_json(rows);
    std::cout << holdout_text(rows, text_form(options.format));
    return;
  }
  const RoutingLaw law = fit_routing_law(trace, fit_options);
  line.clear();
  write_outputs({{options.out, to_yaml(law)}});
  if (options.format == "json") return print_json(options.out, law);
  std::cout << options.out << ": " << law.layers.size() << " layers of " << law.experts << " experts, top-"
            << law.top_k << ", " << one_line(law.provenance)
            << "\nhow near it comes is not measured here; 'moelab trace fit " << options.trace
            << " --holdout' fits to every other request and compares with the rest\n";
}

}  // namespace

void add_trace_fit(CLI::App& trace) {
  const auto options = std::make_shared<TraceFitArguments>();
  CLI::App* command =
      trace.add_subcommand("fit", "Fit a law of routing to a recording, for 'moelab trace generate'");
  command->add_option("FILE", options->trace, "Routing trace")->required();
  command->add_option("--gates", options->gates,
                      "Routing trace of the same model to take the gates from, where FILE has none");
  command->add_option("--out", options->out, "File to write the law to (YAML)");
  command->add_flag(
      "--holdout", options->holdout,
      "Instead: fit to every other request, draw requests like the rest, and print how far these "
      "are from the recorded ones: means over layers, and of the layers' differences");
  command->add_option("--seed", options->seed, "Of the requests drawn with --holdout")
      ->check(is_a_seed)
      ->capture_default_str();
  add_text_format(*command, options->format);
  add_example(*command, "moelab trace fit debian-moe-8x32 --out law.yaml");
  command->callback([options] { fit(*options); });
}

}  // namespace moelab::cli
