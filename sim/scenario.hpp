// A scenario: model + device + memory budget + workload + systems + seed, complete and validated before
// anything runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/architecture.hpp"
#include "models/device.hpp"
#include "models/hourly_rates.hpp"
#include "models/machine_parts.hpp"
#include "models/runtime.hpp"
#include "sim/scenario/cluster_config.hpp"
#include "sim/scenario/speculation_config.hpp"
#include "sim/scenario/system_config.hpp"
#include "sim/scenario/workload_config.hpp"

namespace moelab {

struct Scenario {
  std::string name;
  std::string question;  // what it is to answer
  Architecture model;    // of several GPUs: one's part of it; experts are counted all, however many it has
  DeviceProfile device;  // with a cluster: the first server's; of parts: under the scenario's runtime
  std::optional<MachineParts> machine;  // catalogue parts that the device is put together from
  std::optional<Runtime> runtime;       // of systems that name none of their own
  std::uint32_t tensor_parallel = 1;    // GPUs that share each layer
  std::uint32_t data_parallel = 1;      // GPUs of which each has requests and all but the experts to itself
  bool expert_parallel = false;         // each GPU has whole experts, not a slice of each
  /// Memory the serving process may use: non-expert weights, KV cache, staging and expert cache. With several
  /// GPUs, of each.
  Bytes budget;
  bool budget_given = true;       // else all that the device has to give, under each system's runtime
  SpeculationConfig speculation;  // of all systems
  WorkloadConfig workload;
  std::optional<ClusterConfig> cluster;  // several servers, each with users of its own
  std::vector<SystemConfig> systems;
  std::vector<std::string> left_out;  // names of systems that it lists and that were not asked for
  std::optional<double> watts;        // of the machine, while it serves, as its user says
  std::optional<Price> price;         // as its user says
  std::uint64_t seed = 1;
  std::vector<std::string> policy_libraries;  // files that policies of its systems come from, loaded by now
  std::vector<std::pair<std::string, std::string>> settings;  // --set, for the record
  /// All of the above in one scenario document (JSON) that names no other configuration: model, device or
  /// cluster, and systems stand in it, overrides and settings are applied, data files are named by absolute
  /// paths. Of a scenario that was not read but made, it holds nothing.
  std::string document = R"({"systems": []})";

  std::uint32_t gpus() const { return tensor_parallel * data_parallel; }
  /// GPUs over which the experts of a layer are divided (experts_of_rank()); 1: each has all, or of all a
  /// part.
  std::uint32_t expert_ranks() const { return expert_parallel ? gpus() : 1; }
  /// GPUs that are simulated: each, or one that stands for all where all do the same.
  std::uint32_t simulated_gpus() const { return expert_parallel || data_parallel > 1 ? gpus() : 1; }

  /// Of what serves: the cluster's, or the device's.
  const std::string& place_title() const { return cluster ? cluster->profile.title : device.title; }

  // Compiled once: copying the members is most of what a source that takes one by value compiles.
  Scenario();
  Scenario(const Scenario&);
  Scenario(Scenario&&) noexcept;
  Scenario& operator=(const Scenario&);
  Scenario& operator=(Scenario&&) noexcept;
  ~Scenario();
};

/// Reads and validates a scenario by name or path; `settings` are (dotted path, value) overrides applied
/// before validation. `overrides.model`, `.device` and `.system` in the scenario change values of the files
/// it names; those of systems pass over what a system has no use for (scenario_overrides.hpp). Throws
/// InputError with everything that is wrong. A model, device, cluster or system may stand in the scenario
/// itself, in the place of its name. Of its systems those of the names `only` are read, where any is given:
/// what keeps others from running does not matter then. Libraries of policies that it names are loaded
/// (policies/load_library.hpp).
Scenario load_scenario(std::string_view name_or_path,
                       const std::vector<std::pair<std::string, std::string>>& settings = {},
                       const std::vector<std::string>& only = {});

/// The same from a scenario's text, YAML or JSON, which messages call `name`. Files that it names are
/// relative to the folder of `name`, or to the working folder.
Scenario scenario_of_document(const std::string& name, const std::string& document,
                              const std::vector<std::pair<std::string, std::string>>& settings = {},
                              const std::vector<std::string>& only = {});

/// The scenario as a system meets it: its devices carry what the system's runtime costs, and of a machine of
/// parts the system has the memory that its runtime leaves. The scenario as it is where neither scenario nor
/// system says anything of runtimes.
Scenario scenario_of_system(const Scenario& scenario, const SystemConfig& system);

/// Throws InputError about `what` ("--system") for a name that the scenario lists no system of.
void check_listed(const Scenario& scenario, const std::vector<std::string>& names, const std::string& what);

/// Where a file is found from any folder. What is no file is the name of an embedded one.
std::string lasting_path(const std::string& name);

/// Files that a run of it reads besides the scenario's own, and that it must not write.
std::vector<std::string> scenario_inputs(const Scenario& scenario);

}  // namespace moelab
