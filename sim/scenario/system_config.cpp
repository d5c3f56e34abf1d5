#include "sim/scenario/system_config.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "models/json.hpp"
#include "models/yaml_reader.hpp"
#include "policies/batching/batching.hpp"
#include "policies/cache/cache.hpp"
#include "policies/execution/execution.hpp"
#include "policies/placement/placement.hpp"
#include "policies/planning/planning.hpp"
#include "policies/prefetch/prefetch.hpp"
#include "policies/pressure/pressure.hpp"
#include "policies/routing/routing.hpp"
#include "policies/schedule/schedule.hpp"
#include "sim/scenario/paging_config.hpp"
#include "sim/scenario/policy_choice.hpp"
#include "sim/scenario/workload_config.hpp"

namespace moelab {
namespace {

const std::vector<std::string>& state_names() {
  static const std::vector<std::string> names(kStateNames.begin(), kStateNames.begin() + 4);  // M is no pool
  return names;
}

/// One cache a layer, or one for the model, where the policy works with either.
void read_domain(const YamlMap& cache, SystemConfig& system) {
  static const std::vector<std::string> kDomains = {"layer", "model"};
  if (!cache.has("domain")) return;
  if (cache.choice("domain", kDomains) == 1) system.cache_domain = CacheDomain::model;
  const CachePolicyEntry* entry = find_cache_policy(system.cache.name);
  if (entry != nullptr && !entry->may_span_model)
    cache.fail("domain", "cache '" + system.cache.name + "' leaves no choice: it has one domain " +
                             (entry->per_model ? "for the whole model" : "a layer"));
}

void read_cache(const YamlMap& root, SystemConfig& system) {
  const auto cache = root.optional_map("cache");
  if (!cache) return;
  system.cache = read_policy(*cache, cache_policies());
  read_domain(*cache, system);
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
    if (cache->has("pools") && cache->node("policy").json() == nlohmann::json(system.cache.name).dump())
      cache->fail("pools",
                  "cache '" + system.cache.name +
                      "' has no pools to share out; to try it in this one's place: moelab compare SCENARIO "
                      "--system '" +
                      system.name + "' --cache " + system.cache.name);
    system.kept_as = static_cast<State>(cache->choice("keep_as", state_names(), 0));
  }
  if (system.placed && system.cache.name != "none")
    system.placed->cache_share = cache->number("share", {0.001, 1});
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
  static const std::vector<std::string> kRanks = {"history", "batch"};
  system.plan_ranks_by_batch = planning->choice("ranks", kRanks, 0) == 1;
  static const std::vector<std::string> kUsed = {"batch", "model"};
  system.plan_model_k = planning->choice("k", kUsed, 0) == 1;
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

/// Of exponents in chunks.
void read_codec(const YamlMap& root, SystemConfig& system) {
  system.codec = root.text("codec");
  system.shards = static_cast<std::uint32_t>(root.integer("shards", 1, 1024));
  static const std::vector<std::string> kDecoders = {"cpu", "gpu"};
  system.decoder = root.choice("decoder", kDecoders, 0) == 1 ? Decoder::gpu : Decoder::cpu;
  // A decoder that is not understood may be one that needs no threads: one mistake is one problem.
  const bool by_cpu =
      !root.has("decoder") || (root.node("decoder").is_scalar() && root.text("decoder") == kDecoders.front());
  if (by_cpu || root.has("threads"))
    system.threads = static_cast<std::uint32_t>(root.integer("threads", 1, 1024));
  static const std::vector<std::string> kReaders = {"io-thread", "workers"};
  system.worker_reads = root.choice("exponent_reads", kReaders, 0) == 1;
}

/// How experts lie where nothing is kept of them: `key` says in which of the `forms`, of which the second is
/// compressed; `usual` is that of a file that does not say.
void read_form(const YamlMap& root, std::string_view key, const std::vector<std::string>& forms,
               std::optional<std::size_t> usual, SystemConfig& system) {
  const std::size_t form = root.choice(key, forms, usual);
  const bool understood = root.has(key) ? root.node(key).is_scalar() && root.text(key) == forms[form]
                                        : usual.has_value() && !root.has("codec");
  // What was not understood is taken for what the other keys suit: one mistake is one problem.
  system.compressed = understood ? form == 1 : root.has("codec");
  if (system.compressed) read_codec(root, system);
  system.page_cache = root.boolean("page_cache", false);
}

void read_weights(const YamlMap& root, SystemConfig& system) {
  static const std::vector<std::string> kForms = {"whole", "compressed", "paged", "placed"};
  read_form(root, "weights", kForms, std::nullopt, system);
  static const std::vector<std::string> kFetch = {"used", "layer"};
  system.fetch_whole_layer = root.choice("fetch", kFetch, 0) == 1;
}

void read_host(const YamlMap& root, SystemConfig& system) {
  const auto host = root.optional_map("host_overhead");
  if (!host) return;
  system.host_per_layer = host->quantity<Seconds>("per_layer", at_least(Seconds(0)), Seconds(0));
  system.host_per_pass = host->quantity<Seconds>("per_pass", at_least(Seconds(0)), Seconds(0));
  if (system.placed)
    system.host_per_call = host->quantity<Seconds>("per_call", at_least(Seconds(0)), Seconds(0));
  system.host_source = host->text("source");
  host->done();
}

/// The system's own runtime; what a framework costs is then its.
void read_own_runtime(const YamlMap& root, SystemConfig& system) {
  if (!root.has("runtime")) return;
  system.runtime = read_named_runtime(root);
  if (root.has("host_overhead"))
    root.fail("host_overhead", "what software costs is said twice: by 'runtime' and by 'host_overhead'");
  if (system.runtime) set_runtime(*system.runtime, system);
}

bool has_weights(const YamlMap& root, std::string_view form) {
  return root.has("weights") && root.node("weights").is_scalar() && root.text("weights") == form;
}

/// Where experts are paged or placed requests come and go even if the section is left out.
std::optional<BatchingConfig> read_batching(const YamlMap& root, const SystemConfig& system) {
  const auto section = root.optional_map("batching");
  if (!section) return system.paging || system.placed ? std::optional(BatchingConfig()) : std::nullopt;
  BatchingConfig b;
  b.policy = read_policy(*section, batching_policies());
  if (!system.placed)  // whose steps take the longest prompt
    b.max_tokens = static_cast<std::uint32_t>(section->integer("max_tokens", 1, kMostCounted, b.max_tokens));
  section->done();
  return b;
}

/// Who gives way: where experts are paged requests do, unless the file says otherwise.
PolicyChoice read_pressure(const YamlMap& kv, bool paged, const PolicyChoice& usual) {
  if (kv.has("first"))
    kv.fail("first",
            "'kv.first' is now the policy of who gives way: expected 'policy: experts-yield' for "
            "true, 'policy: requests-yield' for false, or 'policy: cheapest-yields'");
  if (!kv.has("policy")) return usual;
  const PolicyChoice choice = read_policy(kv, pressure_policies());
  const PressurePolicyEntry* policy = find_pressure_policy(choice.name);
  if (paged && policy != nullptr && policy->needs_costs)
    kv.fail("policy", "policy '" + choice.name +
                          "' weighs loads of single experts; where experts are paged whole layers are "
                          "streamed beside the kernels, however few of them are used: expected "
                          "'experts-yield' or 'requests-yield', with paging.residency to let experts go "
                          "as the KV cache grows");
  return choice;
}

KvConfig read_kv(const YamlMap& root, bool paged) {
  KvConfig kv;
  if (paged) kv.pressure.name = "requests-yield";
  const auto section = root.optional_map("kv");
  if (!section) return kv;
  kv.block_tokens = static_cast<std::uint32_t>(section->integer("block_tokens", 1, 1 << 16, kv.block_tokens));
  kv.swap_space = section->quantity<Bytes>("swap_space", at_least(Bytes(0)), Bytes(0));
  kv.pressure = read_pressure(*section, paged, kv.pressure);
  kv.grows = section->boolean("grows", false);
  section->done();
  return kv;
}

MigrationConfig read_migration(const YamlMap& migration) {
  static const std::vector<std::string> kStatistics = {"since-change", "window", "decay"};
  static const std::vector<std::string> kSources = {"host", "ssd", "network", "nearest"};
  static const std::vector<std::string> kCosts = {"since-start", "since-change"};
  constexpr Seconds kLeastInterval(1e-6);  // they are numbered: no more than an integer counts
  MigrationConfig m;
  m.every = migration.quantity<Seconds>("every", above(Seconds(0)));
  m.horizon = migration.quantity<Seconds>("horizon", above(Seconds(0)), m.every);
  m.statistics = static_cast<MigrationConfig::Statistics>(migration.choice("statistics", kStatistics, 0));
  if (m.statistics != MigrationConfig::Statistics::since_change)
    m.window = migration.quantity<Seconds>("window", above(Seconds(0)));
  m.load_from = static_cast<MigrationConfig::From>(migration.choice("load_from", kSources, 3));
  m.costs = static_cast<MigrationConfig::Costs>(migration.choice("costs", kCosts, 0));
  if (migration.has("computing_every"))
    m.computing_every = migration.quantity<Seconds>("computing_every", at_least(kLeastInterval));
  migration.done();
  return m;
}

PlacedConfig read_placed(const YamlMap& root) {
  static const std::vector<std::string> kCalls = {"expert", "gpu"};
  static const std::vector<std::string> kExecutions = {"call", "load", "call-or-load"};
  PlacedConfig p;
  const YamlMap placement = root.map("placement");
  p.placement = read_policy(placement, placement_policies());
  p.copies = static_cast<std::uint32_t>(placement.integer("copies", 0, 1024, 1));
  placement.done();
  p.call_per_expert = root.choice("calls_by", kCalls, 0) == 0;
  if (const auto execution = root.optional_map("execution")) {
    p.execution = static_cast<PlacedExecution>(execution->choice("policy", kExecutions));
    execution->done();
  }
  if (const auto migration = root.optional_map("migration")) p.migration = read_migration(*migration);
  return p;
}

/// The store behind servers that load what they lack, and what their first GPU keeps of it.
void read_home_store(const YamlMap& root, SystemConfig& system) {
  PlacedConfig& placed = *system.placed;
  if (!placed.loads()) {
    for (const char* key : {"stored", "codec", "cache", "schedule", "planning", "page_cache"})
      if (root.has(key))
        root.fail(key,
                  "servers that only call each other never read the experts that they store, so there is "
                  "nothing to decode, to order or to keep: expected 'execution: {policy: call-or-load}' "
                  "(or load) with '" +
                      std::string(key) + "'");
    if (placed.copies == 0)
      root.map("placement")
          .fail("copies",
                "an expert that no server holds can be computed nowhere: expected 1 "
                "at least, or 'execution: {policy: call-or-load}' (or load), with "
                "which servers load it");
    return;
  }
  static const std::vector<std::string> kForms = {"whole", "compressed"};
  read_form(root, "stored", kForms, 0, system);
  if (const auto schedule = root.optional_map("schedule")) {
    system.schedule = read_policy(*schedule, schedule_policies());
    schedule->done();
  }
  read_cache(root, system);
  read_planning(root, system);
}

void read_redirection(const YamlMap& root, SystemConfig& system) {
  static const std::vector<std::string> kWays = {"none", "least-loaded"};
  system.redirection = static_cast<Redirection>(root.choice("redirection", kWays, 0));
}

}  // namespace

bool cache_spans_model(std::string_view policy, CacheDomain domain) {
  return domain == CacheDomain::model || find_cache_policy(policy)->per_model;
}

namespace {

/// An execution policy that does not say from which batches on it has experts loaded does as the runtime. One
/// token's are computed where they lie: that is what such a policy is.
void stream_as(const Runtime& runtime, PolicyChoice& execution) {
  constexpr std::string_view kStreamFrom = "stream_from";
  const ExecutionPolicyEntry* entry = find_execution_policy(execution.name);
  if (entry == nullptr) return;
  const auto& known = entry->info.parameters;
  const bool takes_it = std::any_of(known.begin(), known.end(),
                                    [&](const PolicyParameter& p) { return p.name == kStreamFrom; });
  if (!takes_it || runtime.stream_from == 0) return;
  execution.parameters.try_emplace(std::string(kStreamFrom), std::max(2.0, runtime.stream_from));
}

}  // namespace

void set_runtime(const Runtime& runtime, SystemConfig& system) {
  system.runtime = runtime;
  system.host_per_layer = Seconds(0);
  system.host_per_pass = Seconds(runtime.step);
  system.host_per_expert = Seconds(runtime.expert_host);
  system.host_per_call = Seconds(runtime.call);
  system.host_source = "runtime " + runtime.name;
  stream_as(runtime, system.execution);
}

std::uint32_t micro_batch_of(const SystemConfig& system) {
  return system.runtime ? static_cast<std::uint32_t>(system.runtime->micro_batch) : 0;
}

std::optional<Runtime> read_named_runtime(const YamlMap& root, const std::filesystem::path& base) {
  if (root.node("runtime").is_map()) return read_runtime(root.map("runtime"), base.string());
  const std::string name = root.text("runtime");
  if (name.empty()) return std::nullopt;  // a problem, reported already
  try {
    return load_runtime(name, base.string());
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems()) root.fail("runtime", problem.what);
    return std::nullopt;
  }
}

SystemConfig::SystemConfig() = default;
SystemConfig::SystemConfig(const SystemConfig&) = default;
SystemConfig::SystemConfig(SystemConfig&&) noexcept = default;
SystemConfig& SystemConfig::operator=(const SystemConfig&) = default;
SystemConfig& SystemConfig::operator=(SystemConfig&&) noexcept = default;
SystemConfig::~SystemConfig() = default;

namespace {

void check_planes(const YamlMap& root, const SystemConfig& system) {
  if (!system.compressed &&
      (system.kept_as != State::F || system.pools[1] || system.pools[2] || system.pools[3]))
    root.fail("cache", "weights stored whole have no planes: only state F can be kept");
}

}  // namespace

SystemConfig read_system(const YamlMap& root) {
  SystemConfig system;
  system.name = root.text("name");
  system.title = root.text("title", system.name);
  system.source = root.text("source", "");
  if (has_weights(root, "paged")) system.paging = read_paging(root);
  if (has_weights(root, "placed")) system.placed = read_placed(root);
  if (root.has("detection")) system.detection = root.quantity<Seconds>("detection", at_least(Seconds(0.001)));
  system.batching = read_batching(root, system);
  if (!system.placed) system.kv = read_kv(root, system.paging.has_value());
  if (system.paging) {
    read_window(root, system);
    system.instances = read_instances(root);
  } else if (root.has("instances")) {
    root.fail("instances",
              "several instances serve from KV caches in blocks, which systems with 'weights: paged' have "
              "(such as vllm-v1); servers of other kinds are a cluster's ('cluster' of a scenario)");
  }
  if (system.placed) {
    read_home_store(root, system);
    check_planes(root, system);
  }
  if (system.paging || system.placed) {
    read_host(root, system);
    read_own_runtime(root, system);
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
      system.prefetch_buffer = static_cast<std::uint32_t>(prefetch->integer("buffer", 1, kMostCounted));
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
  read_own_runtime(root, system);
  read_redirection(root, system);
  check_planes(root, system);
  root.done();
  return system;
}

SystemConfig read_system(const YamlDocument& document) {
  return read_system(document.root());
}

}  // namespace moelab
