#include "sim/scenario.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <system_error>

#include "models/config_store.hpp"
#include "models/tensor_parallel.hpp"
#include "policies/batching/batching.hpp"
#include "policies/cache/cache.hpp"
#include "policies/execution/execution.hpp"
#include "policies/planning/planning.hpp"
#include "policies/prefetch/prefetch.hpp"
#include "policies/residency/residency.hpp"
#include "policies/routing/routing.hpp"
#include "policies/schedule/schedule.hpp"
#include "policies/storage/storage.hpp"
#include "sim/scenario_overrides.hpp"
#include "traces/generator.hpp"

namespace moelab {
namespace {

constexpr std::int64_t kMillion = 1'000'000;

const std::vector<std::string>& state_names() {
  static const std::vector<std::string> names(kStateNames.begin(), kStateNames.begin() + 4);  // M is no pool
  return names;
}

/// Name and parameters of a policy: `policy: lru`, or with parameters beside it in the same map.
template <class Entry>
PolicyChoice read_policy(const YamlMap& section, const std::vector<Entry>& table) {
  std::vector<std::string> names;
  for (const Entry& entry : table) names.emplace_back(entry.info.name);
  const PolicyInfo& info = table[section.choice("policy", names)].info;
  PolicyChoice choice{std::string(info.name), {}};
  for (const PolicyParameter& p : info.parameters)
    if (section.has(p.name)) choice.parameters[std::string(p.name)] = section.number(p.name, {p.low, p.high});
  return choice;
}

void read_cache(const YamlMap& root, SystemConfig& system) {
  const auto cache = root.optional_map("cache");
  if (!cache) return;
  system.cache = read_policy(*cache, cache_policies());
  const bool pools =
      find_cache_policy(system.cache.name) != nullptr && find_cache_policy(system.cache.name)->uses_pools;
  if (pools) {
    system.pools = {};
    for (const YamlNode& item : cache->list("pools")) {
      const std::string name = item.text("a pool");
      const auto found = std::find(state_names().begin(), state_names().end(), name);
      if (found == state_names().end())
        item.fail("'" + name + "' is no pool; expected F, C, S or E");
      else
        system.pools[static_cast<std::size_t>(found - state_names().begin())] = true;
    }
  } else {
    system.kept_as = static_cast<State>(cache->choice("keep_as", state_names(), 0));
  }
  cache->done();
}

void read_planning(const YamlMap& root, SystemConfig& system) {
  const auto planning = root.optional_map("planning");
  const CachePolicyEntry* cache = find_cache_policy(system.cache.name);
  if (cache != nullptr && cache->uses_pools && !planning)
    root.fail("planning", "a cache with pools needs 'planning' to size them");
  if (!planning) return;
  system.planning = read_policy(*planning, planning_policies());
  system.plan_step = planning->number("step", {0.005, 1}, 0.05);
  static const std::vector<std::string> kReads = {"cold", "page-cache"};
  system.plan_for_page_cache = planning->choice("reads", kReads, 0) == 1;
  if (system.planning.name == "fixed") {
    const YamlMap ratios = planning->map("ratios");
    double sum = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      system.ratios[i] = ratios.number(kStateNames[i], {0, 1}, 0.0);
      sum += system.ratios[i];
      if (system.ratios[i] > 0 && !system.pools[i])
        ratios.fail(kStateNames[i],
                    "a share for pool " + std::string(kStateNames[i]) + ", which cache.pools does not list");
    }
    ratios.done();
    if (std::abs(sum - 1) > 1e-9)
      planning->fail("ratios", "the shares add up to " + std::to_string(sum) + "; expected 1");
  }
  planning->done();
}

void read_weights(const YamlMap& root, SystemConfig& system) {
  static const std::vector<std::string> kForms = {"whole", "compressed", "paged"};
  const std::size_t form = root.choice("weights", kForms);
  const bool understood =
      root.has("weights") && root.node("weights").is_scalar() && root.text("weights") == kForms[form];
  // What was not understood is taken for what the other keys suit: one mistake is one problem.
  system.compressed = understood ? form == 1 : root.has("codec");
  if (system.compressed) {
    system.codec = root.text("codec");
    system.shards = static_cast<std::uint32_t>(root.integer("shards", 1, 1024));
    system.threads = static_cast<std::uint32_t>(root.integer("threads", 1, 1024));
    static const std::vector<std::string> kReaders = {"io-thread", "workers"};
    system.worker_reads = root.choice("exponent_reads", kReaders, 0) == 1;
  }
  system.page_cache = root.boolean("page_cache", false);
  static const std::vector<std::string> kFetch = {"used", "layer"};
  system.fetch_whole_layer = root.choice("fetch", kFetch, 0) == 1;
}

void read_host(const YamlMap& root, SystemConfig& system) {
  const auto host = root.optional_map("host_overhead");
  if (!host) return;
  system.host_per_layer = host->quantity<Seconds>("per_layer", at_least(Seconds(0)), Seconds(0));
  system.host_per_pass = host->quantity<Seconds>("per_pass", at_least(Seconds(0)), Seconds(0));
  system.host_source = host->text("source");
  host->done();
}

bool is_paged(const YamlMap& root) {
  return root.has("weights") && root.node("weights").is_scalar() && root.text("weights") == "paged";
}

/// A policy of a section that may be left out.
template <class Entry>
void read_policy_section(const YamlMap& map, std::string_view key, const std::vector<Entry>& table,
                         PolicyChoice& choice) {
  const auto section = map.optional_map(key);
  if (!section) return;
  choice = read_policy(*section, table);
  section->done();
}

PagingConfig read_paging(const YamlMap& root) {
  PagingConfig p;
  const YamlMap paging = root.map("paging");
  for (const YamlNode& item : paging.list("backends")) {
    const std::string name = item.text("a backend");
    if (std::find(p.backends.begin(), p.backends.end(), name) != p.backends.end())
      item.fail("backend '" + name + "' is listed twice");
    p.backends.push_back(name);
  }
  if (p.backends.empty() && paging.has("backends") && paging.node("backends").is_list())
    paging.fail("backends",
                "no backend is listed; expected some of 'resident', a codec of the device's "
                "gpu.codecs, 'host' and 'ssd'");
  read_policy_section(paging, "storage", storage_policies(), p.storage);
  read_policy_section(paging, "residency", residency_policies(), p.residency);
  read_policy_section(paging, "batching", batching_policies(), p.batching);
  p.block_tokens = static_cast<std::uint32_t>(paging.integer("block_tokens", 1, 1 << 16, p.block_tokens));
  p.max_tokens = static_cast<std::uint32_t>(paging.integer("max_tokens", 1, kMillion, p.max_tokens));
  p.swap_space = paging.quantity<Bytes>("swap_space", at_least(Bytes(0)), Bytes(0));
  p.kv_first = paging.boolean("kv_first", false);
  p.kv_grows = paging.boolean("kv_grows", false);
  paging.done();
  return p;
}

SystemConfig read_system_map(const YamlMap& root) {
  SystemConfig system;
  system.name = root.text("name");
  system.title = root.text("title", system.name);
  system.source = root.text("source", "");
  if (is_paged(root)) {
    root.text("weights");
    system.paging = read_paging(root);
    read_host(root, system);
    root.done();
    return system;
  }
  read_weights(root, system);
  if (const auto schedule = root.optional_map("schedule")) {
    system.schedule = read_policy(*schedule, schedule_policies());
    schedule->done();
  }
  read_cache(root, system);
  read_planning(root, system);
  if (const auto prefetch = root.optional_map("prefetch")) {
    system.prefetch = read_policy(*prefetch, prefetch_policies());
    if (system.prefetch.name != "none" && prefetch->has("buffer_layers"))
      system.prefetch_buffer_layers = static_cast<std::uint32_t>(prefetch->integer("buffer_layers", 1, 1000));
    else if (system.prefetch.name != "none")
      system.prefetch_buffer = static_cast<std::uint32_t>(prefetch->integer("buffer", 1, kMillion));
    prefetch->done();
  }
  if (const auto routing = root.optional_map("routing")) {
    system.routing = read_policy(*routing, routing_policies());
    routing->done();
  }
  if (const auto execution = root.optional_map("execution")) {
    system.execution = read_policy(*execution, execution_policies());
    execution->done();
  }
  read_host(root, system);
  if (!system.compressed &&
      (system.kept_as != State::F || system.pools[1] || system.pools[2] || system.pools[3]))
    root.fail("cache", "weights stored whole have no planes: only state F can be kept");
  root.done();
  return system;
}

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

void read_law(const YamlMap& section, const std::filesystem::path& base, Problems& problems,
              WorkloadConfig& w) {
  for (const std::string_view key : {"skew", "reuse", "drift", "gate_decay"})
    if (section.has(key)) section.fail(key, "'" + std::string(key) + "' is the law's to say");
  const std::string name = section.text("law");
  if (name.empty()) return;  // reported already
  try {
    w.law_file = find_config("laws", name, base).name;
    w.law = load_routing_law(name, base);
    w.has_law = true;
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems())
      if (problem.file.empty())
        section.fail("law", problem.what);
      else
        problems.add(problem);
  }
}

/// A log of requests, or as many as are wanted of one length.
void read_lengths(const YamlMap& section, const std::filesystem::path& base, Problems& problems,
                  WorkloadConfig& w) {
  if (!section.has("request_log")) {
    w.requests = static_cast<std::uint32_t>(section.integer("requests", 1, kMillion, w.batch));
    w.prompt_tokens = static_cast<std::uint32_t>(section.integer("prompt_tokens", 1, kMillion));
    w.output_tokens = static_cast<std::uint32_t>(section.integer("output_tokens", 1, kMillion));
    w.arrivals_per_s = section.number("arrivals_per_s", {0, 1e9}, 0.0);
    return;
  }
  for (const std::string_view key : {"requests", "prompt_tokens", "output_tokens", "arrivals_per_s"})
    if (section.has(key)) section.fail(key, "'" + std::string(key) + "' is the request log's to say");
  w.request_log = section.text("request_log");
  std::error_code ignored;
  if (std::filesystem::path(w.request_log).is_relative() &&
      std::filesystem::exists(base / w.request_log, ignored))
    w.request_log = (base / w.request_log).string();
  if (w.request_log.empty()) return;  // reported already
  try {
    w.log = read_request_log(w.request_log);
    w.requests = static_cast<std::uint32_t>(w.log.size());
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems()) problems.add(problem);
  }
}

WorkloadConfig read_workload(const YamlMap& root, const std::filesystem::path& base, Problems& problems) {
  WorkloadConfig w;
  const YamlMap section = root.map("workload");
  w.batch = static_cast<std::uint32_t>(section.integer("batch", 1, 4096, 1));
  w.prefilled = section.boolean("prefilled", false);
  if (section.has("trace")) {
    w.trace_file = section.text("trace");
    for (const std::string_view key : {"requests", "prompt_tokens", "output_tokens"})
      if (section.has(key))
        section.fail(key, "the trace says how many requests and tokens there are; leave '" +
                              std::string(key) +
                              "' out (on the command line: --set workload=\"{batch: 1, trace: FILE}\")");
  } else {
    read_lengths(section, base, problems, w);
    if (section.has("law")) {
      read_law(section, base, problems, w);
      section.done();
      return w;
    }
    const GeneratorParameters defaults;
    w.skew = section.number("skew", {0, 10}, defaults.skew);
    w.reuse = section.number("reuse", {0, 1}, defaults.reuse);
    w.drift = section.number("drift", {0, 1}, defaults.drift);
    w.gate_decay = section.number("gate_decay", {0, 10}, defaults.gate_decay);
  }
  section.done();
  return w;
}

/// Where experts may lie on the device, and that there is a GPU to page them into.
void check_paging(const SystemConfig& system, const Scenario& scenario, const YamlNode& where) {
  const std::string who = "system '" + system.name + "' ";
  if (!scenario.device.is_discrete() || scenario.device.has_stand_in()) {
    where.fail(who + "pages its experts into a GPU's own memory, which device '" + scenario.device.name +
               "' has not");
    return;
  }
  std::vector<std::string> known = {"resident", "host", "ssd"};
  for (const auto& [name, codec] : scenario.device.gpu->codecs) known.push_back(name);
  for (const std::string& backend : system.paging->backends)
    if (std::find(known.begin(), known.end(), backend) == known.end())
      where.fail(who + "has backend '" + backend +
                 "', which is none of 'resident', 'host', 'ssd' and the gpu.codecs of device '" +
                 scenario.device.name + "'" + suggestion(backend, known));
  const PagingConfig& paging = *system.paging;
  if (scenario.workload.batch > paging.max_tokens)
    where.fail(who + "runs at most " + std::to_string(paging.max_tokens) +
               " tokens a step (paging.max_tokens), fewer than one of each of the batch's " +
               std::to_string(scenario.workload.batch) + " requests");
  const MemoryProfile& host = scenario.device.memory;
  const Bytes usable = host.total.value - host.system_reserve.value;
  if (const Bytes swap = scenario.tensor_parallel * paging.swap_space; swap > usable)
    where.fail(who + "swaps into " + to_string(swap) +
               " of host memory (paging.swap_space of each GPU), of " + to_string(usable) + " that device '" +
               scenario.device.name + "' has to give");
}

/// What only systems with pages can do of a scenario.
void check_without_paging(const SystemConfig& system, const Scenario& scenario, const YamlNode& where) {
  const WorkloadConfig& w = scenario.workload;
  const auto refuse = [&](const std::string& what) {
    where.fail("system '" + system.name + "' serves one batch after another" + what +
               ", which only systems with 'weights: paged' do");
  };
  if (scenario.tensor_parallel > 1) refuse(" on one GPU; the scenario has tensor_parallel");
  if (w.prefilled) refuse(", prompts included; the workload is prefilled");
  if (!w.request_log.empty() || w.arrivals_per_s > 0) refuse("; the workload's requests come when they come");
}

void check_on_device(const SystemConfig& system, const Scenario& scenario, const YamlNode& where) {
  if (system.paging)
    check_paging(system, scenario, where);
  else
    check_without_paging(system, scenario, where);
  if (!system.compressed) return;
  if (!scenario.device.codecs.contains(system.codec)) {
    std::vector<std::string> known;
    for (const auto& [name, codec] : scenario.device.codecs) known.push_back(name);
    where.fail("system '" + system.name + "' uses codec '" + system.codec + "', which device '" +
               scenario.device.name + "' has no speed for" + suggestion(system.codec, known));
  }
  if (system.threads > static_cast<std::uint32_t>(scenario.device.cpu.threads.value))
    where.fail("system '" + system.name + "' wants " + std::to_string(system.threads) +
               " decompression threads, but device '" + scenario.device.name + "' has " +
               std::to_string(scenario.device.cpu.threads.value) + " cores");
}

/// A compressed tensor is a BF16 one, split into two planes of a byte an element.
void check_on_model(const SystemConfig& system, const Scenario& scenario, const YamlNode& where) {
  if (system.paging && scenario.model.has_encoder())
    where.fail("system '" + system.name + "' batches requests as they come and go; model '" +
               scenario.model.name + "' has an encoder, which it cannot");
  if (system.compressed && scenario.model.bytes_per_weight != 2)
    where.fail("system '" + system.name + "' compresses BF16 weights, but those of model '" +
               scenario.model.name + "' take " + std::to_string(scenario.model.bytes_per_weight) +
               " bytes each");
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
      SystemConfig system = read_system_map(map);
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
  return files;
}

SystemConfig read_system(const YamlDocument& document) {
  return read_system_map(document.root());
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
  s.workload = read_workload(root, base, problems);
  std::error_code ignored;
  if (!s.workload.trace_file.empty() && std::filesystem::path(s.workload.trace_file).is_relative() &&
      std::filesystem::exists(base / s.workload.trace_file, ignored))
    s.workload.trace_file = (base / s.workload.trace_file).string();

  const std::optional<YamlMap> overrides = root.optional_map("overrides");
  const auto readable = [&](std::string_view kind, std::string_view key, auto use) {
    const std::size_t before = problems.all().size();
    const YamlNode name = root.node(key);
    with_config(kind, key, name.text(key), name, overrides, base, problems, use);
    return problems.all().size() == before;
  };
  Readable parts;
  parts.model = readable("models", "model", [&](const YamlDocument& d) { s.model = read_architecture(d); });
  parts.device = readable("devices", "device", [&](const YamlDocument& d) { s.device = read_device(d); });
  read_tensor_parallel(root, parts, s);
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
