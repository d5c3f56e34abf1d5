#include "cli/keys/key_examples.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "cli/keys/key_readings.hpp"
#include "models/config_store.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "models/yaml_reader.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLongestExample = 60;

/// Of keys that no shipped file has: the key, and behind it a value.
constexpr std::string_view kWritten = R"(
scenario.policy_libraries [libmy-cache.so]
scenario.machine {gpu: rtx-4090-24gb, cpu: i9-14900K, memory: ddr5-6000 x 2}
scenario.machine.gpu rtx-4090-24gb
scenario.machine.gpus 2
scenario.power 5.6 kW
scenario.price 2.5 USD/h
scenario.machine.cpu i9-14900K
scenario.machine.sockets 2
scenario.machine.memory ddr5-6000 x 2
scenario.machine.ram 96 GiB
scenario.machine.ssd pcie4-x4
scenario.weights.group 128
scenario.speculation.draft.weights.group 128
scenario.workload.classes[].prompt_tokens.least 16
scenario.workload.classes[].lengths_of log.csv
scenario.workload.closed_loop.distribution exponential
scenario.workload.conversations {turns: [1, 8], think_time: 20 s}
scenario.workload.conversations.turns [1, 8]
scenario.workload.conversations.turns.least 1
scenario.workload.conversations.turns.most 8
scenario.workload.conversations.turns.median 3
scenario.workload.conversations.turns.mean 4
scenario.workload.conversations.turns.sigma 0.8
scenario.workload.conversations.turns.distribution lognormal
scenario.workload.conversations.think_time 20 s
scenario.workload.conversations.distribution exponential
scenario.workload.conversations.most 32768
scenario.workload.classes[].conversations {turns: 4, think_time: 20 s}
scenario.workload.classes[].shared_prefix 1200
scenario.workload.classes[].priority 10
scenario.workload.counts counts.safetensors
scenario.workload.drift 0.2
scenario.workload.gate_decay 0.5
scenario.workload.lengths_of log.csv
scenario.workload.request_log log.csv
scenario.workload.reuse 0.3
scenario.workload.shared_prefix 1200
scenario.workload.servers[].request_log log.csv
scenario.workload.tasks[].domain physics
scenario.workload.tasks[].trace my-trace.safetensors
system.cache.keep_as C
system.calls_by gpu
system.host_overhead.per_pass 5 ms
system.host_overhead.source measured on my framework
system.kv.grows true
system.instances.link {bandwidth: 50 GB/s, latency: 10 us, source: data sheet}
system.instances.link.source data sheet of the network interface
system.migration.load_from nearest
device.cpu.experts[].seconds {source: bench, points: [[1, 0.4 ms], [8, 0.9 ms]]}
device.cpu.recover {source: bench, points: [[1e6, 0.2 ms]]}
device.cpu.slowdown_while_reading {value: 1.06, source: bench}
device.gpu.link.pageable {latency: 20 us, rate: 9 GB/s, source: bench}
device.gpu.node.all_reduce[].seconds {latency: 20 us, rate: 20 GB/s, source: bench}
device.gpu.stand_in true
device.measured_on.command moelab calibrate --quick
device.measured_on.driver 580.159.04
law.domains[].name licences
law.domains[].share 0.5
law.layers[].bias [1.2, 0.4, -0.3, -1.1]
law.layers[].encoder true
law.layers[].gate_gaps [0.62, 0.87, 0.98]
law.layers[].gate_sum 1
law.provenance "fitted to a recording of my model"
cluster.title two edge servers
cluster.network.file platform.xml
cluster.servers[].budget {value: 12 GB, source: operator}
cluster.servers[].host host-1
cluster.servers[].in {value: 500 Mbit/s, source: operator}
cluster.servers[].out {value: 500 Mbit/s, source: operator}
cluster.sources.NAME.text what the operator says
part.decompress.NAME.source measured on my machine
)";

std::string flow_scalar(const Json& value) {
  if (!value.is_string()) return value.dump();
  const auto text = value.get<std::string>();
  const bool plain = !text.empty() && text.find_first_of("{}[],:#&*!|>'\"%@`\\\n") == std::string::npos;
  return plain ? text : value.dump();
}

std::string flow_text(const Json& value) {
  if (!value.is_structured()) return flow_scalar(value);
  std::string text(1, value.is_array() ? '[' : '{');
  for (const auto& item : value.items()) {
    if (text.size() > 1) text += ", ";
    if (value.is_object()) text += item.key() + ": ";
    text += flow_text(item.value());
  }
  return text + (value.is_array() ? ']' : '}');
}

/// Notes what stands in documents under the keys that are known.
class ExampleCollector {
 public:
  explicit ExampleCollector(const std::vector<KeyRow>& keys) {
    for (const KeyRow& row : keys) known_.insert(row.path);
  }

  void note_written() {
    for (std::string_view text = kWritten.substr(1); !text.empty(); text.remove_prefix(text.find('\n') + 1)) {
      const std::string_view line = text.substr(0, text.find('\n'));
      found_.emplace(line.substr(0, line.find(' ')), line.substr(line.find(' ') + 1));
    }
  }

  /// `path`: of a key or of an entry of a list, "workload.classes[]".
  void note(const Json& value, const std::string& path) {
    const std::string own = own_path(path);
    if (known_.contains(own))
      if (const std::string text = flow_text(value); text.size() <= kLongestExample)
        found_.emplace(own, text);
    const std::string section = own.empty() ? path : own;
    if (value.is_array())
      for (const Json& item : value) note(item, section + "[]");
    if (!value.is_object() || section == "scenario.overrides") return;  // those are of other files
    const bool open = known_.contains(section + ".NAME");
    for (const auto& [key, below] : value.items()) note(below, section + "." + (open ? "NAME" : key));
  }

  std::map<std::string, std::string> take() { return std::move(found_); }

 private:
  /// What stands in a scenario in the place of a name is explained where it has a file of its own.
  static std::string own_path(const std::string& path) {
    if (path == "scenario.systems[]") return "system";
    return path;
  }

  std::set<std::string> known_;
  std::map<std::string, std::string> found_;
};

Json parsed(const std::string& name, std::string_view text) {
  Problems problems;
  const YamlDocument document = YamlDocument::from_text(name, text, problems);
  problems.throw_if_any();
  return Json::parse(document.node().json());
}

}  // namespace

std::map<std::string, std::string> key_examples(const std::vector<KeyRow>& keys) {
  ExampleCollector examples(keys);
  for (const std::string& kind : file_kinds(keys))
    for (const std::string& name : config_names(kind + "s")) {
      const ConfigText config = find_config(kind + "s", name);
      examples.note(parsed(config.name, config.text), kind);
    }
  examples.note_written();
  for (const KeyProbe& probe : key_probes()) {
    constexpr std::string_view kOverrides = "overrides.";
    const std::string path = probe.path;
    const bool is_other = path.starts_with(kOverrides);
    examples.note(parsed(path, probe.value), is_other ? path.substr(kOverrides.size()) : "scenario." + path);
  }
  return examples.take();
}

}  // namespace moelab::cli
