#include "cli/keys/key_readings.hpp"

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/keys/key_table.hpp"
#include "models/architecture.hpp"
#include "models/cluster.hpp"
#include "models/config_store.hpp"
#include "models/device.hpp"
#include "models/input_error.hpp"
#include "models/part.hpp"
#include "models/runtime.hpp"
#include "models/yaml_reader.hpp"
#include "sim/scenario.hpp"
#include "sim/sweep/sweep_file.hpp"
#include "traces/law/routing_law.hpp"

namespace moelab::cli {
namespace {

/// In the order of kFileKinds.
std::vector<std::string> folders() {
  std::vector<std::string> all;
  for (const FileKind& kind : kFileKinds) all.push_back("configs/" + std::string(kind.name) + "s/");
  return all;
}

/// Readers look for keys of a section only where it stands. What is wrong with such a scenario does not
/// matter.
constexpr KeyProbe kProbes[] = {
    {"zipmoe-orin", "workload",
     "{requests: 1, prompt_tokens: {distribution: lognormal, mean: 1, sigma: 1}, output_tokens: "
     "{distribution: "
     "lognormal, mean: 1, sigma: 1}, arrivals_per_s: {from: 1, to: 2, over: 1 s}, arrivals: {process: gamma, "
     "burstiness: 1}, warm_up: 1, cool_down: 1}"},
    {"zipmoe-orin", "workload",
     "{requests: 1, prompt_tokens: {distribution: lognormal, median: 1, sigma: 1}, output_tokens: "
     "{distribution: "
     "lognormal, median: 1, sigma: 1}, closed_loop: {users: 1, think_time: 1 s}}"},
    {"zipmoe-orin", "workload", "{requests: 1, prompt_tokens: [1, 2], output_tokens: [1, 2]}"},
    {"zipmoe-orin", "workload",
     "{requests: 1, prompt_tokens: {distribution: uniform, least: 1, most: 2}, "
     "output_tokens: {distribution: uniform, least: 1, most: 2}}"},
    {"zipmoe-orin", "workload", "{request_log: none.jsonl, speed: 1}"},
    {"zipmoe-orin", "workload", "{request_log: none.jsonl, rate: 1}"},
    {"zipmoe-orin", "workload", "{requests: 1, lengths_of: none.jsonl}"},
    {"zipmoe-orin", "workload",
     "{requests: 1, prompt_tokens: 1, output_tokens: 1, shared_prefix: 1, "
     "conversations: {turns: 2, think_time: 1 s, most: 9}}"},
    {"zipmoe-orin", "workload",
     "{requests: 1, prompt_tokens: 1, output_tokens: 1, "
     "conversations: {turns: {distribution: lognormal, mean: 1, sigma: 1}}}"},
    {"zipmoe-orin", "workload",
     "{requests: 1, prompt_tokens: 1, output_tokens: 1, "
     "conversations: {turns: {distribution: lognormal, median: 1, sigma: 1}}}"},
    {"zipmoe-orin", "workload",
     "{requests: 1, prompt_tokens: 1, output_tokens: 1, "
     "conversations: {turns: {distribution: uniform, least: 1, most: 2}}}"},
    {"zipmoe-orin", "workload",
     "{requests: 1, prompt_tokens: 1, output_tokens: 1, conversations: {turns: [1, 2]}}"},
    {"zipmoe-orin", "workload",
     "{classes: [{name: a, share: 1, priority: 1, lengths_of: none.jsonl}, {name: b, share: 1, "
     "prompt_tokens: 1, "
     "output_tokens: 1}, {name: c, share: 1, prompt_tokens: [1, 2], output_tokens: [1, 2]}, {name: d, share: "
     "1, prompt_tokens: {distribution: uniform, least: 1, most: 2}, output_tokens: {distribution: uniform, "
     "least: 1, most: 2}}, {name: e, share: 1, prompt_tokens: {distribution: lognormal, mean: 1, sigma: 1}, "
     "output_tokens: {distribution: lognormal, mean: 1, sigma: 1}}, "
     "{name: f, share: 1, prompt_tokens: 1, output_tokens: 1, conversations: {turns: 2}}, "
     "{name: g, share: 1, prompt_tokens: 1, output_tokens: 1, conversations: {turns: [1, 2]}}, "
     "{name: h, share: 1, prompt_tokens: 1, output_tokens: 1, "
     "conversations: {turns: {distribution: uniform, least: 1, most: 2}}}, "
     "{name: i, share: 1, prompt_tokens: 1, output_tokens: 1, "
     "conversations: {turns: {distribution: lognormal, mean: 1, sigma: 1}}}, "
     "{name: j, share: 1, prompt_tokens: 1, output_tokens: 1, "
     "conversations: {turns: {distribution: lognormal, median: 1, sigma: 1}}}]}"},
    {"zipmoe-orin", "model",
     "{name: a, layers: 10000, dense_layers: [1], weights: {all: bf16, attention: bf16, dense: bf16, shared: "
     "bf16, router: bf16, experts: bf16, embedding: bf16, head: bf16, kv: bf16}, encoder: {layers: 10000, "
     "dense_layers: [1]}}"},
    {"zipmoe-orin", "model", "{name: a, bytes_per_weight: {name: a}}"},
    {"zipmoe-orin", "model", "{name: a, bytes_per_weight: 2}"},
    {"zipmoe-orin", "device", "{name: a}"},
    {"zipmoe-orin", "runtime", "{name: a}"},
    {"zipmoe-orin", "machine", "{gpu: {name: a}, cpu: {name: a}, ssd: {name: a}}"},
    {"zipmoe-orin", "weights",
     "{all: bf16, attention: bf16, dense: bf16, shared: bf16, router: bf16, experts: bf16, embedding: bf16, "
     "head: bf16, kv: bf16}"},
    {"zipmoe-orin", "weights", "bf16"},
    {"zipmoe-orin", "policy_libraries", "[/dev/null/none.so]"},
    {"zipmoe-orin", "speculation", "{tokens: 1, acceptance: 1, draft: ngram}"},
    {"zipmoe-orin", "speculation",
     "{tokens: 1, acceptance: 1, draft: {bytes: 1 MB, time: 1 ms, source: none}}"},
    {"zipmoe-orin", "speculation", "{tokens: 1, acceptance: 1, draft: {model: {name: a}}}"},
    {"zipmoe-orin", "speculation", "{tokens: 1, acceptance: 1, draft: {model: qwen3-8b, weights: bf16}}"},
    {"zipmoe-orin", "speculation",
     "{tokens: 1, acceptance: 1, draft: {model: qwen3-8b, weights: {all: bf16, attention: bf16, dense: bf16, "
     "shared: bf16, router: bf16, experts: bf16, embedding: bf16, head: bf16, kv: bf16}}}"},
    {"zipmoe-orin", "overrides.device.memory.controller", "{value: 1 GB/s, source: rule}"},
    {"zipmoe-orin", "overrides.device.cpu.recover.source", "rule"},
    {"zipmoe-orin", "overrides.device.cpu.sharing.source", "rule"},
    {"zipmoe-orin", "overrides.device.cpu.slowdown_while_reading.source", "rule"},
    {"zipmoe-orin", "overrides.device.codecs.lz4hc.decompress",
     "{latency: 1 us, rate: 1 GB/s, source: rule}"},
    {"zipmoe-orin", "systems",
     "[{name: a, weights: whole, runtime: bare, kv: {policy: experts-yield}, "
     "prefetch: {policy: layer-window, buffer_layers: 1}}, {name: b, runtime: {name: a}}]"},
    {"zipmoe-orin", "systems",
     "[{name: a, weights: paged, paging: {backends: [resident]}, instances: {colocated: 1}}, {name: b, "
     "weights: "
     "paged, paging: {backends: [resident]}, instances: {prefill: 1, decode: 1, link: {bandwidth: 1 GB/s, "
     "source: none}}}]"},
    {"prism-offload", "systems",
     "[{name: a, weights: placed, placement: {policy: uniform}, detection: 1 s, stored: compressed, codec: "
     "lz4hc, "
     "shards: 1, threads: 1, execution: {policy: load}, cache: {policy: lru, share: 0.5}, host_overhead: "
     "{per_call: 1 us, source: none}, migration: {every: 1 s, statistics: window, window: 1 s, "
     "computing_every: "
     "1 s}}]"},
    {"prism-offload", "faults",
     "{leaves_every: 1 s, returns_after: 1 s, events: [{at: 1 s, event: bandwidth, server: server1, "
     "bandwidth: 1 "
     "MB/s}]}"},
    {"prism-offload", "workload",
     "{tasks: [{name: a, trace: none.safetensors}, {name: b, prompt_tokens: 1, output_tokens: 1}, {name: c, "
     "prompt_tokens: [1, 2], output_tokens: [1, 2]}], counts: none, servers: [{server: server1, tasks: {a: "
     "1}, "
     "request_log: none.jsonl}, {server: server2, tasks: {a: 1}, requests: 1, arrivals_per_s: 1, history: "
     "{a: 1}}]}"},
    {"prism-offload", "cluster",
     "{name: a, title: a, sources: {s: {kind: assumed, text: a}}, network: {topology: platform, file: "
     "none.xml}, "
     "servers: [{name: a, device: a100-40gb, budget: {value: 1 GB, source: s}, out: {value: 1 GB/s, source: "
     "s}, "
     "in: {value: 1 GB/s, source: s}, host: a}], devices: {a100-40gb: {name: a}}}"},
};

/// Every kind of attention where one can stand: for all layers, in a list, in a pattern, and in an encoder.
std::vector<std::string> model_probes() {
  std::vector<std::string> texts;
  for (const std::string kind : {"kv_heads", "mla", "linear", "mamba2", "none"})
    for (const std::string& stack : {"attention: {kind: " + kind + "}", "attention: [{kind: " + kind + "}]",
                                     "pattern: A, blocks: {A: {kind: " + kind + "}}"})
      texts.push_back("{name: a, layers: 10000, " + stack + ", encoder: {layers: 10000, " + stack + "}}");
  return texts;
}

/// A sweep of all that a sweep can say.
constexpr std::string_view kSweepProbe =
    "{name: a, question: a, scenario: zipmoe-orin, systems: [zipmoe], set: {workload.batch: 1}, axes: "
    "{budget: "
    "[16 GB]}, zip: [{workload.skew: [1]}], series: {a: {seed: 1}}, repeats: 1, limits: {time: 1 s, memory: "
    "1 "
    "GB}, executor: fast, where: workload.skew > 0}";

/// What probes of zipmoe-orin are read with that ask for no system's keys: its systems have been read by
/// then.
constexpr const char* kOneSystem = "[zipmoe]";

std::vector<std::pair<std::string, std::string>> probe_settings(const KeyProbe& probe) {
  std::vector<std::pair<std::string, std::string>> settings{{probe.path, probe.value}};
  if (std::string_view(probe.scenario) == "zipmoe-orin" && std::string_view(probe.path) != "systems")
    settings.emplace_back("systems", kOneSystem);
  return settings;
}

/// Reads all that is in the program, and the probes.
void read_everything() {
  const auto attempt = [](const auto& read) {
    try {
      read();
    } catch (const InputError&) {  // of a probe
    }
  };
  for (const std::string& name : config_names("scenarios")) attempt([&] { load_scenario(name); });
  for (const std::string& name : config_names("systems"))
    attempt([&] {
      const ConfigText config = find_config("systems", name);
      Problems problems;
      read_system(YamlDocument::from_text(config.name, config.text, problems));
    });
  for (const std::string& name : config_names("devices")) attempt([&] { load_device(name); });
  for (const std::string& name : config_names("clusters")) attempt([&] { load_cluster(name); });
  for (const std::string& name : config_names("models")) attempt([&] { load_architecture(name); });
  for (const std::string& name : config_names("sweeps")) attempt([&] { load_sweep(name); });
  for (const std::string& name : config_names("runtimes")) attempt([&] { load_runtime(name); });
  for (const std::string& name : config_names("laws")) attempt([&] { load_routing_law(name); });
  attempt([] { check_part_tables(); });
  attempt([] { read_sweep({"configs/sweeps/probe.yaml", std::string(kSweepProbe)}); });
  for (const KeyProbe& probe : kProbes)
    attempt([&] { load_scenario(probe.scenario, probe_settings(probe)); });
  for (const std::string& model : model_probes())
    attempt([&] { load_scenario("zipmoe-orin", {{"systems", kOneSystem}, {"model", model}}); });
}

/// Where a key is explained that was asked for in a document of `root`; "": nowhere.
std::string explained_at(const std::string& root, const std::string& path) {
  if (root == "scenario") {
    // What stands in a scenario, or changes what it names, is explained where it has a file of its own.
    static const std::array<std::pair<std::string_view, std::string_view>, 9> kInPlace = {
        {{"systems[].", "system"},
         {"machine.gpu.", "part.gpus[]"},
         {"machine.cpu.", "part.cpus[]"},
         {"machine.ssd.", "part.ssds[]"},
         {"device.", "device"},
         {"cluster.", "cluster"},
         {"model.", "model"},
         {"runtime.", "runtime"},
         {"speculation.draft.model.", "model"}}};
    for (const auto& [prefix, own] : kInPlace)
      if (path.starts_with(prefix)) return explained_at(std::string(own), path.substr(prefix.size()));
    if (path.starts_with("overrides.")) return "";
  }
  if (root == "system" && path.starts_with("runtime.")) return path;
  // Settings and values of a sweep have the keys of scenarios.
  if (root == "sweep" && (path.starts_with("axes.NAME.") || path.starts_with("series.NAME."))) return "";
  constexpr std::string_view kDevices = "devices.";
  if (root == "cluster" && path.starts_with(kDevices)) {
    const std::size_t end = path.find('.', kDevices.size());
    return end == std::string::npos ? "cluster.devices.NAME" : "device." + path.substr(end + 1);
  }
  return root + "." + path;
}

}  // namespace

std::span<const KeyProbe> key_probes() {
  return kProbes;
}

KeyReadings key_readings() {
  const AskedKeys asked(folders());
  read_everything();
  KeyReadings all;
  for (std::size_t i = 0; i < kFileKinds.size(); ++i) {
    const std::string kind(kFileKinds[i].name);
    const AskedKeys::OfPrefix& found = asked.found()[i];
    for (AskedKey key : found.keys) {
      const std::string path = explained_at(kind, key.path);
      key.path.clear();
      if (!path.empty()) all.forms[path].insert(std::move(key));
    }
    for (const std::string& path : found.unasked) all.unasked.insert(explained_at(kind, path));
    for (const auto& of_map : found.always) {
      const std::string path = of_map.first.empty() ? kind : explained_at(kind, of_map.first);
      const std::set<std::string>& keys = of_map.second;
      const auto [known, is_new] = all.always.emplace(path, keys);
      if (!is_new) std::erase_if(known->second, [&](const std::string& key) { return !keys.contains(key); });
    }
  }
  return all;
}

}  // namespace moelab::cli
