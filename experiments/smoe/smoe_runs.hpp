// The SMoE paper's three settings, run with whatever a question changes about them.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::smoe {

struct Setting {
  const char* id;           // the paper's
  const char* scenario;     // batch 1; batch 3 has "-batch3" behind it
  double generator_decay;   // gate_decay with which the simple generator spreads the k best logits as far as
                            // its default does
  bool llama_cpp_in_paper;  // the paper could not run it on every model
};
inline constexpr std::array<Setting, 3> kSettings = {{{"S1", "smoe-deepseek-3080ti", 0.18, true},
                                                      {"S2", "smoe-xverse-4060ti", 0.18, false},
                                                      {"S3", "smoe-qwen2-a6000", 0.14, true}}};
inline constexpr std::array<int, 2> kBatches = {1, 3};
inline constexpr std::size_t kPoints = kSettings.size() * kBatches.size();

inline const std::vector<std::string> kSteps = {"smoe-base", "smoe-ce", "smoe-cr", "smoe-pre", "smoe"};
/// The paper's baselines in a setting.
std::vector<std::string> baselines(const Setting& setting);
/// All systems that are not SMoE or a step of it: the paper's and others.
inline const std::vector<std::string> kRivals = {"moe-infinity-host", "llama-cpp", "deepspeed",
                                                 "hybrimoe",          "fiddler",   "accelerate-host"};

struct Outcome {
  double ttft_s = 0, tpot_s = 0;
  /// GPU expert hit rate: of the distinct experts that decode steps use, after substitution, the share found
  /// whole in the GPU's memory when its layer wanted it; those fetched ahead in time are found there.
  double hit_rate = 0;
  Metrics metrics{};
};
using Outcomes = std::map<std::string, Outcome>;  // by system

/// What a question changes: values of the scenario file, then anything of the scenario that was read.
struct Variant {
  std::vector<std::pair<std::string, std::string>> settings{};
  std::function<void(Scenario&)> change{};
};

Outcome run_one(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace);

/// One setting, one batch size.
Outcomes run_point(const Setting& setting, int batch, const Variant& variant = {});

struct Point {
  const Setting* setting;
  int batch;
  Outcomes outcomes;
};
/// All settings with batch 1, then with batch 3; `variant` makes each point's.
std::vector<Point> run_all(const std::function<Variant(const Setting&, int batch)>& variant);

/// The one of these systems with the least TPOT. Those that did not run are passed over.
const std::string& fastest(const Outcomes& outcomes, const std::vector<std::string>& systems);

/// Keeps these systems of a scenario only.
void keep_systems(Scenario& scenario, const std::vector<std::string>& names);
SystemConfig& system_named(Scenario& scenario, const std::string& name);
/// Gives the router's threshold to whatever sorts experts by it.
void set_alpha(SystemConfig& system, double alpha);

}  // namespace moelab::smoe
