#include "sim/scenario.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "models/config_store.hpp"
#include "models/tensor_parallel.hpp"
#include "sim/scenario/system_fit.hpp"
#include "sim/scenario_overrides.hpp"

namespace moelab {
namespace {

/// Runs `use` on the document of a named configuration with the scenario's overrides for its kind applied.
template <class Use>
void with_config(std::string_view kind, std::string_view override_key, const std::string& name,
                 const YamlNode& where, const std::optional<YamlMap>& overrides,
                 const std::filesystem::path& base, Problems& problems, Use use) {
  if (name.empty()) return;  // reported already
  ConfigText config;
  try {
    config = find_config(kind, name, base);
  } catch (const InputError& error) {
    for (const Problem& p : error.problems()) where.fail(p.what);
    return;
  }
  YamlDocument document = YamlDocument::from_text(config.name, config.text, problems);
  if (overrides && overrides->has(override_key)) {
    const YamlNode changes = overrides->node(override_key);
    if (kind == "systems")
      override_system(changes, config, document);
    else
      override_config(changes, document);
  }
  use(document);
}

/// What of a scenario was read without a problem, so that systems can be held against it.
struct Readable {
  bool model = false;
  bool device = false;
};

/// From here on the model is one GPU's part of it.
void read_tensor_parallel(const YamlMap& root, Readable readable, Scenario& s) {
  constexpr std::int64_t kMostGpus = 1024;
  s.tensor_parallel = static_cast<std::uint32_t>(root.integer("tensor_parallel", 1, kMostGpus, 1));
  if (s.tensor_parallel == 1 || !readable.device || !readable.model) return;
  const std::string gpus = std::to_string(s.tensor_parallel) + " GPUs";
  const std::optional<NodeProfile> node = s.device.gpu ? s.device.gpu->node : std::nullopt;
  if (!node || node->gpus.value < static_cast<int>(s.tensor_parallel)) {
    root.fail("tensor_parallel", "device '" + s.device.name + "' has " +
                                     std::to_string(node ? node->gpus.value : 1) + " GPU(s), not " + gpus);
    return;
  }
  if (node->all_reduce.empty() || node->all_reduce.back().gpus < static_cast<int>(s.tensor_parallel)) {
    root.fail("tensor_parallel", "device '" + s.device.name + "' does not say what an all-reduce over " +
                                     gpus + " takes (gpu.node.all_reduce)");
    return;
  }
  try {
    s.model = tensor_parallel_part(s.model, static_cast<int>(s.tensor_parallel));
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems()) root.fail("tensor_parallel", problem.what);
  }
}

void read_systems(const YamlMap& root, const std::optional<YamlMap>& overrides,
                  const std::filesystem::path& base, Readable readable, Problems& problems,
                  Scenario& scenario) {
  std::vector<std::string> seen;
  for (const YamlNode& item : root.list("systems")) {
    const auto use = [&](const YamlMap& map) {
      const std::size_t before = problems.all().size();
      SystemConfig system = read_system(map);
      const bool good = problems.all().size() == before;
      if (!system.name.empty() && std::find(seen.begin(), seen.end(), system.name) != seen.end())
        item.fail("system '" + system.name + "' is listed twice; results are told apart by name");
      seen.push_back(system.name);
      if (good && readable.device) check_on_device(system, scenario, item);
      if (good && readable.model) check_on_model(system, scenario, item);
      if (good && readable.model && system.prefetch_buffer_layers > 0)
        system.prefetch_buffer =
            system.prefetch_buffer_layers * static_cast<std::uint32_t>(scenario.model.moe().experts);
      scenario.systems.push_back(std::move(system));
    };
    if (item.is_map())
      use(item.map("a system"));
    else
      with_config("systems", "system", item.text("a system"), item, overrides, base, problems,
                  [&](const YamlDocument& d) { use(d.root()); });
  }
  if (root.has("systems") && root.node("systems").is_list() && root.list("systems").empty())
    root.fail("systems", "no system is listed; see 'moelab systems' for the known ones");
  if (problems.empty() && overrides && overrides->has("system"))
    check_overrides_reach(overrides->map("system"), scenario.systems);
}

}  // namespace

std::vector<std::string> scenario_inputs(const Scenario& scenario) {
  std::vector<std::string> files;
  for (const std::string& file :
       {scenario.workload.trace_file, scenario.workload.law_file, scenario.workload.request_log})
    if (!file.empty()) files.push_back(file);
  if (!scenario.cluster) return files;
  for (const std::string& file :
       {scenario.cluster->counts_file, scenario.cluster->profile.network.platform_file})
    if (!file.empty()) files.push_back(file);
  for (const ServerLoad& load : scenario.cluster->loads)
    if (!load.request_log.empty()) files.push_back(load.request_log);
  return files;
}

Scenario load_scenario(std::string_view name_or_path,
                       const std::vector<std::pair<std::string, std::string>>& settings) {
  const ConfigText config = find_config("scenarios", name_or_path);
  const std::filesystem::path base = std::filesystem::path(config.name).parent_path();
  Problems problems;
  YamlDocument document = YamlDocument::from_text(config.name, config.text, problems);
  for (const auto& [path, value] : settings) document.set(path, value);

  Scenario s;
  s.settings = settings;
  const YamlMap root = document.root();
  s.name = root.text("name");
  s.question = root.text("question", "");
  s.seed = static_cast<std::uint64_t>(root.integer("seed", 0, std::numeric_limits<std::int64_t>::max(), 1));
  s.budget = root.quantity<Bytes>("budget", above(Bytes(0)));

  const std::optional<YamlMap> overrides = root.optional_map("overrides");
  const auto readable = [&](std::string_view kind, std::string_view key, auto use) {
    const std::size_t before = problems.all().size();
    const YamlNode name = root.node(key);
    with_config(kind, key, name.text(key), name, overrides, base, problems, use);
    return problems.all().size() == before;
  };
  Readable parts;
  parts.model = readable("models", "model", [&](const YamlDocument& d) { s.model = read_architecture(d); });
  if (root.has("cluster")) {
    s.cluster.emplace();
    parts.device = readable("clusters", "cluster", [&](const YamlDocument& d) {
      const std::filesystem::path folder = std::filesystem::path(d.name()).parent_path();
      s.cluster->profile = read_cluster(d, folder, problems);
    });
    if (!s.cluster->profile.devices.empty()) s.device = s.cluster->profile.devices.front();
    read_cluster_workload(root, base, problems, s.workload, *s.cluster);
    read_faults(root, *s.cluster);
  } else {
    s.workload = read_workload(root, base, problems);
    parts.device = readable("devices", "device", [&](const YamlDocument& d) { s.device = read_device(d); });
    read_tensor_parallel(root, parts, s);
  }
  read_systems(root, overrides, base, parts, problems, s);
  if (overrides) {
    overrides->has("system");
    overrides->done();
  }
  root.done();
  problems.throw_if_any();
  return s;
}

}  // namespace moelab
