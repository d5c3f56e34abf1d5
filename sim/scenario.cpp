#include "sim/scenario.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>

#include "models/config_store.hpp"
#include "models/json.hpp"
#include "models/machine_profile.hpp"
#include "models/model_import.hpp"
#include "models/stored_weights.hpp"
#include "policies/load_library.hpp"
#include "sim/scenario/other_document.hpp"
#include "sim/scenario/parallel_config.hpp"
#include "sim/scenario/policy_choice.hpp"
#include "sim/scenario/system_fit.hpp"
#include "sim/scenario/trace_fit.hpp"
#include "sim/scenario_overrides.hpp"
#include "sim/service_rates.hpp"
#include "traces/law/model_law.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

/// What a scenario is read with.
struct Reading {
  std::string file;            // as messages show it
  std::filesystem::path base;  // its folder
  Problems& problems;
  std::optional<YamlMap> overrides;
  const std::vector<std::string>& only;  // of its systems; empty: all
};

/// The text of a configuration that stands in the scenario, or that it names; "" after a problem.
ConfigText config_at(const YamlNode& where, std::string_view kind, std::string_view what,
                     const Reading& reading) {
  if (where.is_map()) return {reading.file + ", " + std::string(what), where.json()};
  const std::string name = where.text(what);
  if (name.empty()) return {};  // reported already
  try {
    if (kind == "models")
      if (const std::optional<std::string> path = find_foreign_model(name, reading.base))
        return {*path, architecture_to_yaml(import_model(*path))};
    return find_config(kind, name, reading.base);
  } catch (const InputError& error) {
    for (const Problem& p : error.problems()) where.fail(p.what);
    return {};
  }
}

/// Runs `use` on a configuration, with the scenario's overrides for its kind applied, and the folder that
/// files in it are relative to. The configuration stands at `where` itself, or is named there. Returns it
/// whole, as JSON; null after a problem.
template <class Use>
Json with_config(std::string_view kind, std::string_view override_key, const YamlNode& where,
                 std::string_view what, const Reading& reading, Use use) {
  const bool is_system = kind == "systems";  // one override for all of them is for those that are named
  const bool overridden =
      reading.overrides && reading.overrides->has(override_key) && !(is_system && where.is_map());
  if (where.is_map() && !overridden) {  // in place, so that problems name its lines
    use(where.map(what), reading.base);
    return Json::parse(where.json());
  }
  const ConfigText config = config_at(where, kind, what, reading);
  if (config.name.empty()) return nullptr;
  const std::filesystem::path folder =
      where.is_map() ? reading.base : std::filesystem::path(config.name).parent_path();
  YamlDocument document = YamlDocument::from_text(config.name, config.text, reading.problems);
  if (overridden) {
    const YamlNode changes = reading.overrides->node(override_key);
    if (is_system)
      override_system(changes, config, document);
    else
      override_config(changes, document);
  }
  use(document.root(), folder);
  return Json::parse(document.node().json());
}

/// What of a scenario was read without a problem, so that systems can be held against it.
struct Readable {
  bool model = false;
  bool device = false;
};

/// One of the scenario's systems, held against device and model; its document, whole.
Json read_one_system(const YamlNode& item, const Reading& reading, Readable readable,
                     const Scenario& scenario, SystemConfig& system) {
  const auto use = [&](const YamlMap& map, const std::filesystem::path&) {
    const std::size_t before = reading.problems.all().size();
    system = read_system(map);
    const bool good = reading.problems.all().size() == before;
    if (good && scenario.runtime && !system.runtime) set_runtime(*scenario.runtime, system);
    if (good && readable.device) check_on_device(system, scenario, item);
    if (good && readable.model) check_on_model(system, scenario, item);
    if (good && readable.model && system.prefetch_buffer_layers > 0)
      system.prefetch_buffer = system.prefetch_buffer_layers *
                               static_cast<std::uint32_t>(scenario.model.experts_or_none().experts);
  };
  return with_config("systems", "system", item, "a system", reading, use);
}

constexpr std::size_t kMostSystems = 1000;  // more than any table of them; each name is looked for in files

/// Returns them whole.
Json read_systems(const YamlMap& root, const Reading& reading, Readable readable, Scenario& scenario) {
  const auto wanted = [&](const std::string& name) {
    return reading.only.empty() ||
           std::find(reading.only.begin(), reading.only.end(), name) != reading.only.end();
  };
  Json documents = Json::array();
  bool any_named = false;
  std::vector<SystemConfig> all;
  const auto items = root.list("systems");
  if (items.size() > kMostSystems) {
    root.fail("systems", "lists " + std::to_string(items.size()) + " systems; at most " +
                             std::to_string(kMostSystems) + " can be");
    return documents;
  }
  for (const YamlNode& item : items) {
    const std::size_t before = reading.problems.all().size();
    SystemConfig system;
    Json document = read_one_system(item, reading, readable, scenario, system);
    if (!system.name.empty() &&
        std::any_of(all.begin(), all.end(), [&](const SystemConfig& s) { return s.name == system.name; }))
      item.fail("system '" + system.name + "' is listed twice; results are told apart by name");
    any_named |= !item.is_map();
    all.push_back(system);
    if (system.name.empty() || wanted(system.name)) {  // one without a name is a problem, reported already
      scenario.systems.push_back(std::move(system));
      documents.push_back(std::move(document));
    } else {
      scenario.left_out.push_back(system.name);
      reading.problems.forget_after(before);
    }
  }
  if (root.has("systems") && root.node("systems").is_list() && root.list("systems").empty())
    root.fail("systems", "no system is listed; see 'moelab systems' for the known ones");
  const bool overridden = reading.overrides && reading.overrides->has("system");
  if (overridden && !any_named && !all.empty())
    reading.overrides->fail("system",
                            "has no effect: every system stands in the scenario itself; change it "
                            "there, as in systems.0.threads");
  if (overridden && scenario.runtime && reading.overrides->map("system").has("host_overhead"))
    reading.overrides->fail("system", "has a host_overhead, and the scenario's runtime '" +
                                          scenario.runtime->name +
                                          "' says what software costs; expected 'runtime: none' beside it");
  if (reading.problems.empty() && overridden) check_overrides_reach(reading.overrides->map("system"), all);
  return documents;
}

/// The profiles that a cluster's servers name, under `devices`, so that it names no other file.
void hold_devices(Json& cluster, const ClusterProfile& profile, const std::filesystem::path& folder) {
  for (const ClusterServer& server : profile.servers) {
    if (cluster.contains("devices") && cluster["devices"].contains(server.device)) continue;
    const ConfigText config = find_config("devices", server.device, folder);
    Problems none;  // it was read before
    const YamlDocument device = YamlDocument::from_text(config.name, config.text, none);
    cluster["devices"][server.device] = Json::parse(device.node().json());
  }
}

/// Loads what the scenario says its policies come from.
void load_libraries(const YamlMap& root, const std::filesystem::path& folder) {
  if (!root.has("policy_libraries")) return;
  for (const YamlNode& item : root.list("policy_libraries")) {
    const std::string name = item.text("a library of policies");
    if (name.empty()) continue;  // a problem, reported already
    try {
      load_policy_library(named_file(name, folder.string()));
    } catch (const InputError& error) {
      for (const Problem& problem : error.problems()) item.fail(problem.file + " " + problem.what);
    }
  }
}

/// Those that its systems use, however they were loaded.
void hold_libraries(Json& document, Scenario& s) {
  for (const SystemConfig& system : s.systems)
    for (const std::string& file : policy_origins_of(system))
      if (is_library_file(file) &&
          std::find(s.policy_libraries.begin(), s.policy_libraries.end(), file) == s.policy_libraries.end())
        s.policy_libraries.push_back(file);
  document.erase("policy_libraries");
  if (!s.policy_libraries.empty()) document["policy_libraries"] = s.policy_libraries;
}

/// Files of data, by paths that last.
void hold_paths(Json& document, const Scenario& s) {
  Json& workload = document["workload"];
  const auto hold = [](Json& map, const char* key, const std::string& file) {
    if (!file.empty()) map[key] = lasting_path(file);
  };
  hold(workload, "trace", s.workload.trace_file);
  if (workload.contains("law") && is_config_path(workload["law"].get<std::string>()))
    hold(workload, "law", s.workload.law_file);
  hold(workload, "request_log", s.workload.request_log);
  for (std::size_t i = 0; i < s.workload.mix.size(); ++i)
    hold(has_classes(s.workload) ? workload["classes"][i] : workload, "lengths_of",
         s.workload.mix[i].lengths_file);
  if (!s.cluster) return;
  hold(workload, "counts", s.cluster->counts_file);
  for (std::size_t i = 0; i < workload["tasks"].size(); ++i)
    hold(workload["tasks"][i], "trace", s.cluster->tasks[i].trace_file);
  for (std::size_t i = 0; i < workload["servers"].size(); ++i)
    hold(workload["servers"][i], "request_log", s.cluster->request_logs[i]);
  hold(document["cluster"]["network"], "file", s.cluster->profile.network.platform_file);
}

/// Whether the scenario states its software. `none`: systems cost what their own files say.
bool names_runtime(const YamlMap& root) {
  return root.has("runtime") && !(root.node("runtime").is_scalar() && root.text("runtime") == "none");
}

/// A machine of catalogue parts, as the device that it makes under the scenario's runtime.
bool read_machine_of_parts(const YamlMap& root, const Reading& reading, Scenario& s) {
  if (reading.overrides && reading.overrides->has("device"))
    reading.overrides->fail("device",
                            "changes a profile, and this machine is put together from parts; expected its "
                            "parts" +
                                std::string(kPartsExample));
  const std::size_t before = reading.problems.all().size();
  s.machine = read_machine(root.map("machine"), reading.base.string());
  const bool named = names_runtime(root);
  if (!s.machine || (named && !s.runtime) || reading.problems.all().size() > before) return false;
  try {
    s.device = profile_of(*s.machine, named ? *s.runtime : load_runtime(kBareRuntime), s.model.stored);
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems()) root.fail("machine", problem.what);
    return false;
  }
  return true;
}

/// Where the workload says nothing of its routing, it is drawn from the model's own law. A law of another
/// model, which the workload names, does not say how near it comes to this one's.
void choose_law(Scenario& s) {
  WorkloadConfig& w = s.workload;
  if (w.has_law) {
    if (names_model(w.law.model, s.model)) return;
    w.law.basis = LawBasis::fitted;
    w.law.points = 0;
  } else if (w.trace_file.empty() && !w.has_parameters) {
    ModelLaw own = law_of_model(s.model);
    w.law = std::move(own.law);
    w.law_file = own.file;
    w.has_law = true;
  }
}

/// Of a dense model: nothing of a workload is about routing.
void check_routes_nothing(const YamlMap& workload, const Architecture& model) {
  for (const char* key : {"trace", "law", "skew", "reuse", "drift", "gate_decay"})
    if (workload.has(key))
      workload.fail(key, "'" + std::string(key) + "' says which experts tokens choose; model '" + model.name +
                             "' has none: every token runs through all of its weights");
}

/// `device: {gpu: rtx-4090-24gb, ram: 64 GiB}` has a machine's parts, which stand under another key.
bool has_parts_of_machine(const Json& device) {
  if (!device.is_object() || device.contains("name")) return false;
  constexpr std::array<const char*, 4> kParts = {"gpu", "cpu", "memory", "ssd"};
  return device.contains("ram") || std::any_of(kParts.begin(), kParts.end(), [&](const char* part) {
           return device.contains(part) && device[part].is_string();
         });
}

/// How tokens are drafted, with the model that does it in the place of its name.
void read_drafts(const YamlMap& root, const Reading& reading, Scenario& s, Json& document) {
  if (!root.has("speculation")) return;
  const YamlMap section = root.map("speculation");
  std::optional<Architecture> draft;
  if (has_draft_model(section)) {
    const Reading as_named{reading.file, reading.base, reading.problems, std::nullopt, reading.only};
    const std::size_t before = reading.problems.all().size();
    const auto use = [&](const YamlMap& map, const std::filesystem::path&) {
      draft = read_architecture(map);
    };
    document["speculation"]["draft"]["model"] =
        with_config("models", "model", section.map("draft").node("model"), "model", as_named, use);
    if (reading.problems.all().size() > before) draft.reset();
  }
  s.speculation = read_speculation(section, s.model, draft);
}

/// Reads model, device or cluster, workload and systems, and puts them into `document` in the place of their
/// names.
void read_parts(const YamlMap& root, const Reading& reading, Scenario& s, Json& document) {
  Problems& problems = reading.problems;
  const auto readable = [&](std::string_view kind, const char* key, auto use) {
    const std::size_t before = problems.all().size();
    document[key] = with_config(kind, key, root.node(key), key, reading, use);
    return problems.all().size() == before;
  };
  Readable parts;
  parts.model = readable("models", "model", [&](const YamlMap& map, const std::filesystem::path&) {
    s.model = read_architecture(map);
    if (root.has("cluster") && lack_of_experts(s.model))
      root.fail("model", "'" + s.model.name +
                             "' has no experts, and what a cluster's servers share out are experts: expected "
                             "'device' or 'machine' in the place of 'cluster'");
  });
  if (parts.model)
    s.model.stored = read_stored(root, "weights", s.model);
  else
    (void)root.has("weights");
  read_drafts(root, reading, s, document);
  if (root.has("cluster")) {
    if (root.has("machine"))
      root.fail("machine", "is of a scenario with one; a cluster's servers name theirs");
    s.cluster.emplace();
    std::filesystem::path folder;
    parts.device =
        readable("clusters", "cluster", [&](const YamlMap& map, const std::filesystem::path& of_cluster) {
          folder = of_cluster;
          s.cluster->profile = read_cluster(map, folder, problems);
        });
    if (!s.cluster->profile.devices.empty()) s.device = s.cluster->profile.devices.front();
    if (parts.device) hold_devices(document["cluster"], s.cluster->profile, folder);
    read_cluster_workload(root, reading.base, problems, s.workload, *s.cluster);
    read_faults(root, *s.cluster);
  } else {
    s.workload = read_workload(root, reading.base, problems);
    if (parts.model && s.model.is_moe()) choose_law(s);
    if (parts.model && !s.model.is_moe()) check_routes_nothing(root.map("workload"), s.model);
    if (document.contains("machine"))
      parts.device = read_machine_of_parts(root, reading, s);
    else if (root.has("device") && has_parts_of_machine(document["device"]))
      root.fail("device",
                "has parts of a machine; expected 'machine' in its place, as in machine={gpu: "
                "jetson-orin-nx-16gb, ram: 16 GiB, ssd: pcie4-x4}");
    else
      parts.device = readable("devices", "device", [&](const YamlMap& map, const std::filesystem::path&) {
        const std::size_t before = problems.all().size();
        s.device = read_device(map);
        // Of what could not be read nothing is said twice.
        const bool good = problems.all().size() == before;
        const std::string odd = good ? implausible_reads(s.device.ssd.read.value) : "";
        if (!odd.empty()) map.map("ssd").fail("read", odd);
      });
    read_parallelism(root, parts.model && parts.device, s);
  }
  document["systems"] = read_systems(root, reading, parts, s);
}

/// The memory to share out; of a machine of parts it may be left out, and is then all that there is.
void read_budget(const YamlMap& root, bool of_parts, Scenario& s) {
  s.budget_given = root.has("budget") || !of_parts;
  if (s.budget_given) s.budget = root.quantity<Bytes>("budget", above(Bytes(0)));
}

/// `machine` and `device` are one thing said in two ways: what is set for a run takes the place of what the
/// file says.
void choose_machine(const YamlMap& root, const std::vector<std::pair<std::string, std::string>>& settings,
                    Json& document) {
  if (!root.has("machine") || !root.has("device")) return;
  const auto is_set = [&](std::string_view key) {
    return std::any_of(settings.begin(), settings.end(), [&](const auto& setting) {
      return setting.first == key || setting.first.starts_with(std::string(key) + ".");
    });
  };
  if (is_set("machine") == is_set("device"))
    root.fail("machine", "is given beside 'device': a scenario runs on one of the two");
  else
    document.erase(is_set("machine") ? "device" : "machine");
}

/// Runtimes that are files, as what these say: by name a document finds only what is in the program.
void hold_runtimes(Json& document, const std::filesystem::path& folder) {
  const auto hold = [&](Json& map) {
    if (!map.is_object() || !map.contains("runtime") || !map["runtime"].is_string()) return;
    const std::string name = map["runtime"].get<std::string>();
    if (!is_config_path(name)) return;
    const ConfigText config = find_config("runtimes", name, folder);
    Problems none;  // it was read before
    const YamlDocument runtime = YamlDocument::from_text(config.name, config.text, none);
    map["runtime"] = Json::parse(runtime.node().json());
  };
  hold(document);
  for (Json& system : document["systems"]) hold(system);
}

/// Parts of a user's own that are files, as what these say.
void hold_parts(Json& document, const std::string& folder) {
  if (!document.contains("machine")) return;
  constexpr std::array<std::pair<const char*, PartKind>, 3> kKinds = {
      {{"gpu", PartKind::gpu}, {"cpu", PartKind::cpu}, {"ssd", PartKind::ssd}}};
  Json& machine = document["machine"];
  for (const auto& [key, kind] : kKinds) {
    if (!machine.contains(key) || !machine[key].is_string()) continue;
    const std::string name = machine[key].get<std::string>(), held = held_part(kind, name, folder);
    if (held != name || held.starts_with('{')) machine[key] = Json::parse(held);
  }
}

/// Sets what is to be changed for a run. A key of a system's file, say, leads nowhere in a scenario: a
/// problem.
void apply_settings(const std::vector<std::pair<std::string, std::string>>& settings, YamlDocument& yaml,
                    Problems& problems) {
  for (const auto& [path, value] : settings) {
    const std::string works = path_in_scenario(yaml.node(), path);
    if (works.empty())
      yaml.set(path, value);
    else
      problems.add({yaml.name() + " (with " + shown_word(path) + ")", 0, 0,
                    "a scenario has no such key; expected " + shown_word(works) +
                        (works.starts_with("machine.") ? kPartsExample : "")});
  }
}

/// Everything of a scenario from its text.
Scenario read_scenario(const ConfigText& config,
                       const std::vector<std::pair<std::string, std::string>>& settings,
                       const std::vector<std::string>& only) {
  Problems problems;
  YamlDocument yaml = YamlDocument::from_text(config.name, config.text, problems);
  apply_settings(settings, yaml, problems);
  Scenario s;
  s.settings = settings;
  Json document = Json::parse(yaml.node().json());
  refuse_other_document(config.name, document, settings);
  const YamlMap root = yaml.root();
  s.name = root.text("name");
  s.question = root.text("question", "");
  s.seed = static_cast<std::uint64_t>(root.integer("seed", 0, std::numeric_limits<std::int64_t>::max(), 1));
  load_libraries(root, std::filesystem::path(config.name).parent_path());
  if (root.has("policy_libraries")) problems.throw_if_any();  // else its policies would be unknown names, too
  if (names_runtime(root))
    s.runtime = read_named_runtime(root, std::filesystem::path(config.name).parent_path());
  const Reading reading{config.name, std::filesystem::path(config.name).parent_path(), problems,
                        root.optional_map("overrides"), only};
  if (!document.is_object()) document = Json::object();  // a problem, reported already
  choose_machine(root, settings, document);
  read_budget(root, document.contains("machine"), s);
  read_parts(root, reading, s, document);
  read_service_rates(root, s);
  if (reading.overrides) {
    reading.overrides->has("system");
    reading.overrides->done();
  }
  if (document.contains("system") && document["system"].is_object() && root.has("system"))
    root.fail("system",
              "'system' is no key of a scenario; what changes its systems stands under 'overrides': expected "
              "overrides: {system: ...}");
  root.done();
  problems.throw_if_any();
  if (!s.budget_given) s.budget = s.device.usable_memory();
  document.erase("overrides");
  hold_runtimes(document, std::filesystem::path(config.name).parent_path());
  hold_parts(document, std::filesystem::path(config.name).parent_path().string());
  hold_paths(document, s);
  hold_libraries(document, s);
  s.document = document.dump();
  return s;
}

}  // namespace

Scenario::Scenario() = default;
Scenario::Scenario(const Scenario&) = default;
Scenario::Scenario(Scenario&&) noexcept = default;
Scenario& Scenario::operator=(const Scenario&) = default;
Scenario& Scenario::operator=(Scenario&&) noexcept = default;
Scenario::~Scenario() = default;

Scenario scenario_of_system(const Scenario& scenario, const SystemConfig& system) {
  Scenario s = scenario;
  if (!system.runtime) return s;
  s.device = s.machine ? profile_of(*s.machine, *system.runtime, s.model.stored)
                       : with_runtime(s.device, *system.runtime);
  if (!s.budget_given) s.budget = s.device.usable_memory();
  if (s.cluster)
    for (DeviceProfile& device : s.cluster->profile.devices) device = with_runtime(device, *system.runtime);
  return s;
}

void check_listed(const Scenario& scenario, const std::vector<std::string>& names, const std::string& what) {
  std::vector<std::string> known = scenario.left_out;
  for (const SystemConfig& s : scenario.systems) known.push_back(s.name);
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw InputError(what + " " + name,
                       "scenario '" + scenario.name + "' has no such system" + suggestion(name, known));
}

std::string lasting_path(const std::string& name) {
  std::error_code none;
  if (!std::filesystem::exists(name, none)) return name;
  return std::filesystem::absolute(name, none).lexically_normal().string();
}

std::vector<std::string> scenario_inputs(const Scenario& scenario) {
  std::vector<std::string> files = scenario.policy_libraries;
  for (const std::string& file :
       {scenario.workload.trace_file, scenario.workload.law_file, scenario.workload.request_log})
    if (!file.empty()) files.push_back(file);
  for (const RequestClass& of : scenario.workload.mix)
    if (!of.lengths_file.empty()) files.push_back(of.lengths_file);
  if (!scenario.cluster) return files;
  for (const std::string& file :
       {scenario.cluster->counts_file, scenario.cluster->profile.network.platform_file})
    if (!file.empty()) files.push_back(file);
  for (const TaskConfig& task : scenario.cluster->tasks)
    if (!task.trace_file.empty()) files.push_back(task.trace_file);
  for (const ServerLoad& load : scenario.cluster->loads)
    if (!load.request_log.empty()) files.push_back(load.request_log);
  return files;
}

Scenario load_scenario(std::string_view name_or_path,
                       const std::vector<std::pair<std::string, std::string>>& settings,
                       const std::vector<std::string>& only) {
  return read_scenario(find_config("scenarios", name_or_path), settings, only);
}

Scenario scenario_of_document(const std::string& name, const std::string& document,
                              const std::vector<std::pair<std::string, std::string>>& settings,
                              const std::vector<std::string>& only) {
  return read_scenario({name, document}, settings, only);
}

}  // namespace moelab
