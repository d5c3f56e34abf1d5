// What every `moelab tune` is given and leaves: one system of a scenario; a table or JSON, and a picture.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/plot/svg_chart.hpp"
#include "sim/scenario.hpp"

namespace moelab::cli {

struct TuneOptions {
  std::string scenario, system, plot;
  std::vector<std::string> settings;
  std::string format = "table";
};

/// Adds SCENARIO and `--system`, before the options of the command's own; `system_help` says which systems
/// can be tuned.
void add_tune_subject(CLI::App& command, TuneOptions& options, const std::string& system_help);
/// Adds `--set` and `--plot`, behind them.
void add_tune_outputs(CLI::App& command, TuneOptions& options);

/// The scenario with the system to tune as its only one. Throws InputError for what is wrong with it, for a
/// system that it does not have (with the nearest name), and for a picture that cannot be written.
Scenario load_tune_subject(const TuneOptions& options);

/// Writes the picture, if one is wanted, and prints `text`, which is in the format asked for.
void finish_tuning(const TuneOptions& options, const plot::Figure& figure, const std::string& text);

}  // namespace moelab::cli
