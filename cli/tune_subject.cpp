#include "cli/tune_subject.hpp"

#include <iostream>

#include "cli/commands.hpp"
#include "models/input_error.hpp"

namespace moelab::cli {
namespace {

SystemConfig system_of(const Scenario& scenario, const std::string& name) {
  std::vector<std::string> names;
  for (const SystemConfig& system : scenario.systems) {
    if (system.name == name) return system;
    names.push_back(system.name);
  }
  throw InputError("--system " + name,
                   "scenario '" + scenario.name + "' has no such system" + suggestion(name, names));
}

}  // namespace

void add_tune_subject(CLI::App& command, TuneOptions& options, const std::string& system_help) {
  command.add_option("SCENARIO", options.scenario, "Scenario file, or the name of an embedded one")
      ->required();
  command.add_option("--system", options.system, system_help)->required();
}

void add_tune_outputs(CLI::App& command, TuneOptions& options) {
  command
      .add_option("--set", options.settings,
                  "Change a value of the scenario: PATH=VALUE, such as budget=\"16 GB\" or workload.batch=3")
      ->take_all();
  add_plot(command, options.plot, "SVG file to draw the curve into");
}

Scenario load_tune_subject(const TuneOptions& options) {
  check_outputs({options.plot}, {options.scenario});
  std::vector<std::pair<std::string, std::string>> settings;
  for (const std::string& text : options.settings) settings.push_back(split_setting(text));
  Scenario scenario = load_scenario(options.scenario, settings);
  check_outputs({options.plot}, scenario_inputs(scenario));
  scenario.systems = {system_of(scenario, options.system)};
  return scenario;
}

void finish_tuning(const TuneOptions& options, const plot::Figure& figure, const std::string& text) {
  if (!options.plot.empty()) write_outputs({{options.plot, plot::svg(figure)}});
  std::cout << text;
  if (options.format == "table" && !options.plot.empty()) std::cout << "picture: " << options.plot << "\n";
}

}  // namespace moelab::cli
