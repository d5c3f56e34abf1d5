// moelab models, model import, devices, clusters, systems, policies: what there is.
#include <array>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>

#include "cli/commands.hpp"
#include "models/cluster.hpp"
#include "models/config_store.hpp"
#include "models/device.hpp"
#include "models/json.hpp"
#include "models/model_import.hpp"
#include "models/part.hpp"
#include "models/runtime.hpp"
#include "models/stored_weights.hpp"
#include "models/yaml_reader.hpp"
#include "policies/batching/batching.hpp"
#include "policies/cache/cache.hpp"
#include "policies/execution/execution.hpp"
#include "policies/placement/placement.hpp"
#include "policies/planning/planning.hpp"
#include "policies/prefetch/prefetch.hpp"
#include "policies/pressure/pressure.hpp"
#include "policies/residency/residency.hpp"
#include "policies/routing/routing.hpp"
#include "policies/schedule/schedule.hpp"
#include "policies/storage/storage.hpp"
#include "sim/results/text_table.hpp"
#include "sim/scenario.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

void list_models(const std::string& format) {
  Json all = Json::array();
  if (format == "table")
    std::cout << padded("model", 24) << padded("parameters", 12) << padded("active", 10)
              << padded("experts", 9) << padded("k", 4) << padded("MoE layers", 12) << padded("an expert", 11)
              << padded("non-expert", 11) << "KV a token\n";
  for (const std::string& name : config_names("models")) {
    const Architecture a = load_any_architecture(name);
    const FeedForward& experts = a.experts_or_none();
    const double tensor = a.is_moe() ? expert_tensor_bytes(a).value() : 0;
    const auto billions = [](double weights) {
      std::array<char, 32> text{};
      std::snprintf(text.data(), text.size(), "%.4g B", weights / 1e9);
      return std::string(text.data());
    };
    if (format == "table")
      std::cout << padded(name, 24) << padded(billions(total_weights(a)), 12)
                << padded(billions(active_weights(a)), 10) << padded(std::to_string(experts.experts), 9)
                << padded(std::to_string(experts.top_k), 4)
                << padded(std::to_string(a.moe_layers().size()), 12)
                << padded(to_string(expert_bytes_or_none(a)), 11)
                << padded(to_string(non_expert_bytes(a)), 11) << to_string(kv_bytes_per_token(a)) << "\n";
    all.push_back({{"name", name},
                   {"title", a.title},
                   {"parameters", total_weights(a)},
                   {"active_parameters", active_weights(a)},
                   {"experts", experts.experts},
                   {"top_k", experts.top_k},
                   {"moe_layers", a.moe_layers().size()},
                   {"expert_bytes", expert_bytes_or_none(a).value()},
                   {"expert_tensor_bytes", tensor},
                   {"non_expert_bytes", non_expert_bytes(a).value()},
                   {"kv_bytes_per_token", kv_bytes_per_token(a).value()},
                   {"source", a.source}});
  }
  if (format == "json") std::cout << all.dump(2) << "\n";
}

void list_devices(const std::string& format) {
  Json all = Json::array();
  for (const std::string& name : config_names("devices")) {
    const DeviceProfile d = load_device(name);
    if (format == "table") {
      std::cout << padded(name, 24) << d.title << (d.unmeasured ? " (not measured by this project)" : "")
                << "\n";
      for (const std::string& line : d.provenance) std::cout << "    " << line << "\n";
    }
    all.push_back(
        {{"name", name}, {"title", d.title}, {"unmeasured", d.unmeasured}, {"provenance", d.provenance}});
  }
  if (format == "json") std::cout << all.dump(2) << "\n";
}

void list_clusters(const std::string& format) {
  Json all = Json::array();
  for (const std::string& name : config_names("clusters")) {
    const ClusterProfile c = load_cluster(name);
    int gpus = 0;
    for (std::size_t i = 0; i < c.servers.size(); ++i) gpus += c.device(i).gpu ? c.servers[i].gpus : 0;
    if (format == "table")
      std::cout << padded(name, 24) << c.title << (c.unmeasured ? " (not measured by this project)" : "")
                << "\n";
    all.push_back({{"name", name},
                   {"title", c.title},
                   {"servers", c.servers.size()},
                   {"gpus", gpus},
                   {"unmeasured", c.unmeasured},
                   {"provenance", c.provenance}});
  }
  if (format == "json") std::cout << all.dump(2) << "\n";
}

void list_systems(const std::string& format) {
  Json all = Json::array();
  for (const std::string& name : config_names("systems")) {
    const ConfigText config = find_config("systems", name);
    Problems problems;
    const YamlDocument document = YamlDocument::from_text(config.name, config.text, problems);
    const SystemConfig s = read_system(document);
    problems.throw_if_any();
    if (format == "table") std::cout << padded(name, 26) << s.title << "\n";
    all.push_back({{"name", name}, {"title", s.title}, {"source", s.source}});
    if (s.paging)
      all.back().update({{"storage", s.paging->storage.name},
                         {"residency", s.paging->residency.name},
                         {"batching", s.batching->policy.name},
                         {"cache", s.cache.name},
                         {"routing", s.routing.name}});
    else
      all.back().update({{"schedule", s.schedule.name},
                         {"cache", s.cache.name},
                         {"planning", s.planning.name},
                         {"prefetch", s.prefetch.name}});
  }
  if (format == "json") std::cout << all.dump(2) << "\n";
}

template <class Entry>
void add_family(const char* family, const PolicyTable<Entry>& table, const std::string& format, Json& all) {
  if (format == "table") std::cout << family << "\n";
  for (const Entry& entry : table) {
    const PolicyInfo& info = entry.info;
    Json parameters = Json::array();
    if (format == "table")
      std::cout << "  " << padded(std::string(info.name), 24) << info.help << " [" << info.source
                << (info.library.empty() ? "" : "; ") << info.library << "]\n";
    for (const PolicyParameter& p : info.parameters) {
      if (format == "table")
        std::cout << "      " << padded(std::string(p.name), 14) << p.help << " (default "
                  << Json(p.default_value) << ", " << Json(p.low) << " to "
                  << (std::isfinite(p.high) ? Json(p.high).dump() : "any") << ")\n";
      parameters.push_back({{"name", p.name},
                            {"unit", p.unit},
                            {"default", p.default_value},
                            {"low", p.low},
                            {"high", p.high},
                            {"help", p.help}});
    }
    all.push_back({{"family", family},
                   {"name", info.name},
                   {"help", info.help},
                   {"source", info.source},
                   {"parameters", parameters}});
    if (!info.library.empty()) all.back()["library"] = info.library;
  }
}

void list_policies(const std::string& format) {
  Json all = Json::array();
  add_family("routing", routing_policies(), format, all);
  add_family("schedule", schedule_policies(), format, all);
  add_family("cache", cache_policies(), format, all);
  add_family("planning", planning_policies(), format, all);
  add_family("prefetch", prefetch_policies(), format, all);
  add_family("execution", execution_policies(), format, all);
  add_family("batching", batching_policies(), format, all);
  add_family("pressure", pressure_policies(), format, all);
  add_family("storage", storage_policies(), format, all);
  add_family("residency", residency_policies(), format, all);
  add_family("placement", placement_policies(), format, all);
  if (format == "json") std::cout << all.dump(2) << "\n";
}

void list_parts(const std::string& format) {
  Json all{{"gpus", Json::array()}, {"cpus", Json::array()}, {"ssds", Json::array()}};
  std::vector<std::vector<std::string>> gpus{{"GPU", "memory", "bandwidth", "16-bit peak", "link"}};
  for (const GpuPart& p : gpu_parts()) {
    gpus.push_back({p.name, p.unified() ? "the host's" : to_string(p.memory), to_string(p.bandwidth),
                    to_string(p.peak), p.unified() ? "-" : p.link});
    all["gpus"].push_back({{"name", p.name},
                           {"title", p.title},
                           {"memory", p.memory.value()},
                           {"bandwidth", p.bandwidth.value()},
                           {"peak", p.peak.value()},
                           {"link", p.link},
                           {"source", p.source}});
  }
  std::vector<std::vector<std::string>> cpus{{"CPU", "cores", "FP32 peak", "memory", "channels"}};
  for (const CpuPart& p : cpu_parts()) {
    cpus.push_back({p.name, std::to_string(p.cores + p.efficiency_cores), to_string(p.peak()), p.memory,
                    std::to_string(p.channels)});
    all["cpus"].push_back({{"name", p.name},
                           {"title", p.title},
                           {"cores", p.cores},
                           {"efficiency_cores", p.efficiency_cores},
                           {"peak", p.peak().value()},
                           {"memory", p.memory},
                           {"channels", p.channels},
                           {"source", p.source}});
  }
  std::vector<std::vector<std::string>> ssds{{"SSD", "read", "latency"}};
  for (const SsdPart& p : ssd_parts()) {
    ssds.push_back({p.name, to_string(p.read), to_string(p.latency)});
    all["ssds"].push_back({{"name", p.name},
                           {"title", p.title},
                           {"read", p.read.value()},
                           {"latency", p.latency.value()},
                           {"source", p.source}});
  }
  if (format == "json")
    std::cout << all.dump(2) << "\n";
  else
    std::cout << align_columns(gpus, 1) << "\n" << align_columns(cpus, 1) << "\n" << align_columns(ssds, 1);
}

void list_runtimes(const std::string& format) {
  Json all = Json::array();
  for (const std::string& name : config_names("runtimes")) {
    const Runtime r = load_runtime(name);
    Json constants;
    for (const Runtime::Constant& c : Runtime::constants()) constants[std::string(c.name)] = r.*c.value;
    if (format == "table") {
      std::cout << padded(name, 20) << r.title << (r.based_on.empty() ? "" : ", on " + r.based_on) << "\n";
      for (const std::string& line : r.provenance) std::cout << "    " << line << "\n";
    }
    all.push_back({{"name", name},
                   {"title", r.title},
                   {"based_on", r.based_on},
                   {"constants", constants},
                   {"provenance", r.provenance}});
  }
  if (format == "json") std::cout << all.dump(2) << "\n";
}

void list_formats(const std::string& format) {
  Json all{{"parts", Json::array()}, {"models", stored_names()}};
  std::vector<std::vector<std::string>> table{{"format of a part", "bits a weight", "from"}};
  for (const WeightFormat& f : weight_formats()) {
    table.push_back({std::string(f.name), shortest_text(f.bits), std::string(f.source)});
    all["parts"].push_back({{"name", f.name}, {"bits", f.bits}, {"source", f.source}});
  }
  if (format == "json") {
    std::cout << all.dump(2) << "\n";
    return;
  }
  std::cout << align_columns(table, 3) << "\nOf a whole model (weights: NAME):";
  for (const std::string& name : stored_names()) std::cout << " " << name;
  std::cout << "\n";
}

CLI::App* add_list(CLI::App& program, const char* name, const char* help, void (*list)(const std::string&)) {
  const auto format = std::make_shared<std::string>("table");
  CLI::App* command = program.add_subcommand(name, help);
  add_format(*command, *format);
  add_example(*command, std::string("moelab ") + name + " --format json");
  command->callback([format, list] { list(*format); });
  return command;
}

void print_imported(const std::string& path, const std::string& format) {
  const Architecture a = import_model(path);
  const std::string yaml = architecture_to_yaml(a);
  if (format != "json") {
    std::cout << yaml;
    return;
  }
  Json bytes;
  for (std::size_t p = 0; p < kWeightParts; ++p) {
    const auto part = static_cast<WeightPart>(p);
    bytes[std::string(to_string(part))] = a.stored.of(part);
  }
  const double expert = a.is_moe() ? expert_bytes(a).value() : 0;
  std::cout << Json{{"name", a.name},
                    {"parameters", total_weights(a)},
                    {"bytes", total_bytes(a).value()},
                    {"expert_bytes", expert},
                    {"weights", a.stored.name},
                    {"bytes_per_weight", bytes},
                    {"yaml", yaml}}
                   .dump(2)
            << "\n";
}

}  // namespace

void add_models(CLI::App& program) {
  add_list(program, "models", "List the known architectures with what they weigh", list_models);
  CLI::App* model = program.add_subcommand("model", "Work with one architecture");
  model->require_subcommand(1);
  add_example(*model, "moelab model import model-Q4_K_M.gguf > my-model.yaml");
  const auto path = std::make_shared<std::string>();
  const auto format = std::make_shared<std::string>("table");
  CLI::App* import = model->add_subcommand(
      "import", "Turn a GGUF file, or a Hugging Face folder or config.json, into a model file");
  import
      ->add_option(
          "FILE", *path,
          "A GGUF file (its first megabytes will do), config.json, safetensors index, or their folder")
      ->required();
  add_format(*import, *format);
  add_example(*import, "moelab model import config.json > my-model.yaml");
  import->callback([path, format] { print_imported(*path, *format);
});
}  // namespace moelab::cli

void add_devices(CLI::App& program) {
  add_list(program, "devices", "List the device profiles and where each of their numbers is from",
           list_devices);
}
void add_clusters(CLI::App& program) {
  add_list(program, "clusters", "List the cluster profiles: servers and the network between them",
           list_clusters);
}
void add_systems(CLI::App& program) {
  add_list(program, "systems", "List the serving systems", list_systems);
}
void add_parts(CLI::App& program) {
  add_list(program, "parts", "List the GPUs, CPUs and SSDs that machines are put together from", list_parts);
  add_list(program, "runtimes", "List the runtimes, their constants and where each is from", list_runtimes);
  add_list(program, "formats", "List the weight formats of parts and of whole models", list_formats);
}
void add_policies(CLI::App& program) {
  add_policy_library(*add_list(program, "policies",
                               "List every policy by family, with its parameters and source", list_policies));
}

}  // namespace moelab::cli
