// A what-if sweep: a base scenario and what of it varies. Format (configs/sweeps/ has examples):
//
//   name: orin-budgets
//   question: How much memory does each policy need?
//   scenario: zipmoe-orin            # a scenario's name or path, or the scenario itself
//   set: {workload.requests: 4}      # changes to every point, as `moelab run --set`
//   systems: [zipmoe, zipmoe-lru]    # of the scenario, or others; default: all of the scenario's
//   axes:                            # every combination of them; the last one varies fastest
//     budget: {linspace: {from: 16 GB, to: 24 GB, points: 5}}
//     workload.batch: [1, 2, 4]
//   zip:                             # each a single axis, whose keys vary together
//     - {model: [deepseek-v2-lite, qwen1.5-moe-a2.7b], device: [a.yaml, b.yaml]}
//   series:                          # an axis of named groups of settings; the legend of charts
//     four threads: {overrides.system.threads: 4}
//   where: budget < model.size       # points for which it does not hold are left out
//   repeats: 3                       # each point with this many seeds, from the scenario's on
//   executor: fast                   # or simgrid; default: as `moelab run`
//   limits: {time: 10 min, memory: 4 GB}   # of a point
//
// Values of an axis: a list, or one of {list: [...]}, {linspace: {from, to, points}}, {logspace: {from, to,
// points}}, {random: {from, to, points, seed}} with `log: true` for an even spread of logarithms, and each
// but the list with `whole: true` for whole numbers. Ends belong to the range; both have the same unit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/config_store.hpp"
#include "sim/scenario.hpp"
#include "sim/sweep/expression.hpp"

namespace moelab {

using Settings = std::vector<std::pair<std::string, std::string>>;  // dotted path, value

/// One choice on an axis.
struct AxisChoice {
  Settings shown;     // what varies and its value, as a person wrote it
  Settings settings;  // of the scenario
  std::string system;
  std::string series;
};

struct SweepAxis {
  std::string name;  // "budget"; of a zip "model, device"
  std::vector<AxisChoice> choices;
};

struct SweepFile {
  std::string name, question;
  std::string text;     // of the file, for the record
  ConfigText scenario;  // the base
  std::string scenario_name;
  Settings set;  // of every point
  std::vector<SweepAxis> axes;
  std::optional<Condition> where;
  std::string executor;  // "fast" or "simgrid"
  double limit_s = 0;    // of a point; 0: none
  std::uint64_t limit_bytes = 0;

  /// How many combinations of the axes there are, `where` not looked at.
  std::uint64_t combinations() const;
};

/// Most combinations that a sweep may have.
inline constexpr std::uint64_t kMostPoints = 10'000'000;

/// Whether a configuration file is a sweep rather than a scenario: it has `scenario` and no `model`.
bool is_sweep(const ConfigText& config);
/// Whether a configuration's name or path is a sweep's; not where it is a scenario's, or no configuration's.
bool names_a_sweep(const std::string& name_or_path);
/// Throws InputError where names_a_sweep: a scenario is wanted. `instead` says what runs a sweep.
void check_no_sweep(const std::string& name_or_path, const std::string& instead);

/// Reads a sweep (a name among configs/sweeps, or a path) and its base scenario. `settings` change the
/// sweep's own values, as --set. Throws InputError with everything that is wrong: an unknown key, an empty
/// axis, a value that no scenario key takes is found only by preparing the points (sweep_point.hpp).
SweepFile load_sweep(std::string_view name_or_path, const Settings& settings = {});
SweepFile read_sweep(const ConfigText& config, const Settings& settings = {});

}  // namespace moelab
