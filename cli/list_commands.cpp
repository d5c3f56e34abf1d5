// moelab models, model import, devices, clusters, systems, parts, runtimes, formats: what there is.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/commands.hpp"
#include "cli/import_note.hpp"
#include "cli/layer_table.hpp"
#include "cli/list_command.hpp"
#include "cli/wrapped_text.hpp"
#include "models/cluster.hpp"
#include "models/config_store.hpp"
#include "models/device.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "models/model_import.hpp"
#include "models/part.hpp"
#include "models/runtime.hpp"
#include "models/stored_weights.hpp"
#include "models/yaml_reader.hpp"
#include "sim/results/text_table.hpp"
#include "sim/scenario.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

void list_models(const ListOptions& options) {
  Json all = Json::array();
  std::vector<std::vector<std::string>> rows{{"model", "parameters", "active", "experts", "k", "MoE layers",
                                              "an expert", "non-expert", "KV a token"}};
  for (const std::string& name : config_names("models")) {
    const Architecture a = load_any_architecture(name);
    const FeedForward& experts = a.experts_or_none();
    const double tensor = a.is_moe() ? expert_tensor_bytes(a).value() : 0;
    const auto billions = [](double weights) {
      std::array<char, 32> text{};
      std::snprintf(text.data(), text.size(), "%.4g B", weights / 1e9);
      return std::string(text.data());
    };
    rows.push_back({name, billions(total_weights(a)), billions(active_weights(a)),
                    std::to_string(experts.experts), std::to_string(experts.top_k),
                    std::to_string(a.moe_layers().size()), to_string(expert_bytes_or_none(a)),
                    to_string(non_expert_bytes(a)), to_string(kv_bytes_per_token(a))});
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
  std::cout << (options.format == "json" ? all.dump(2) + "\n" : align_columns(rows, 1, line_width()));
}

/// "" where all of it was measured.
std::string unmeasured_text(const SourcedNumbers& numbers) {
  return numbers.unmeasured ? " (not measured by this project)" : "";
}

std::string sources_text(const std::vector<std::string>& provenance) {
  std::string text;
  for (const std::string& line : provenance) {
    const std::size_t end = std::min(line.find(' '), line.size());
    text += hanging("    " + line.substr(0, end), line.substr(end), 8, output_width());
  }
  return text;
}

void print_titles(const std::vector<std::vector<std::string>>& rows) {
  std::cout << wrapped_table(rows, output_width());
}

/// The table, and below each row where its numbers are from.
void print_titles_and_sources(const std::vector<std::vector<std::string>>& rows,
                              const std::vector<std::vector<std::string>>& provenance) {
  for (std::size_t i = 1; i < rows.size(); ++i)
    std::cout << hanging(rows[i].front() + ":", rows[i].back(), rows[i].front().size() + 2, output_width())
              << sources_text(provenance[i - 1]);
}

void print_list(const ListOptions& options, const Json& all,
                const std::vector<std::vector<std::string>>& rows,
                const std::vector<std::vector<std::string>>& provenance) {
  if (options.format == "json")
    std::cout << all.dump(2) << "\n";
  else if (options.sources)
    print_titles_and_sources(rows, provenance);
  else
    print_titles(rows);
}

/// Of a profile that moelab calibrate wrote: some of its numbers may still be derived or assumed.
std::string measured_text(const DeviceProfile& device) {
  return device.measured_on && device.unmeasured
             ? " (measured by this project, but not every number: --sources)"
             : unmeasured_text(device);
}

void list_devices(const ListOptions& options) {
  Json all = Json::array();
  std::vector<std::vector<std::string>> rows{{"device", "what it is"}}, provenance;
  for (const std::string& name : config_names("devices")) {
    const DeviceProfile d = load_device(name);
    rows.push_back({name, d.title + measured_text(d)});
    provenance.push_back(d.provenance);
    all.push_back(
        {{"name", name}, {"title", d.title}, {"unmeasured", d.unmeasured}, {"provenance", d.provenance}});
  }
  print_list(options, all, rows, provenance);
}

void list_clusters(const ListOptions& options) {
  Json all = Json::array();
  std::vector<std::vector<std::string>> rows{{"cluster", "what it is"}};
  for (const std::string& name : config_names("clusters")) {
    const ClusterProfile c = load_cluster(name);
    int gpus = 0;
    for (std::size_t i = 0; i < c.servers.size(); ++i) gpus += c.device(i).gpu ? c.servers[i].gpus : 0;
    rows.push_back({name, c.title + unmeasured_text(c)});
    all.push_back({{"name", name},
                   {"title", c.title},
                   {"servers", c.servers.size()},
                   {"gpus", gpus},
                   {"unmeasured", c.unmeasured},
                   {"provenance", c.provenance}});
  }
  if (options.format == "json")
    std::cout << all.dump(2) << "\n";
  else
    print_titles(rows);
}

void list_systems(const ListOptions& options) {
  Json all = Json::array();
  std::vector<std::vector<std::string>> rows{{"system", "what it is"}};
  for (const std::string& name : config_names("systems")) {
    const ConfigText config = find_config("systems", name);
    Problems problems;
    const YamlDocument document = YamlDocument::from_text(config.name, config.text, problems);
    const SystemConfig s = read_system(document);
    problems.throw_if_any();
    rows.push_back({name, s.title});
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
  if (options.format == "json")
    std::cout << all.dump(2) << "\n";
  else
    print_titles(rows);
}

/// Whether a part has all words that were asked for.
bool is_asked(const ListOptions& options, const std::string& kind, const std::string& name,
              const std::string& title) {
  return has_words(options, {kind, name, title});
}

[[noreturn]] void refuse_part_words(const ListOptions& options) {
  std::vector<std::string> known;
  for (const GpuPart& p : gpu_parts()) known.push_back(p.name);
  for (const CpuPart& p : cpu_parts()) known.push_back(p.name);
  for (const SsdPart& p : ssd_parts()) known.push_back(p.name);
  refuse_words(options, "part", "parts", known);
}

/// "700 W"; "-" where the data sheet does not say.
std::string rated_power(double watts) {
  return watts > 0 ? shortest_text(watts) + " W" : "-";
}

void list_parts(const ListOptions& options) {
  Json all{{"gpus", Json::array()}, {"cpus", Json::array()}, {"ssds", Json::array()}};
  std::vector<std::vector<std::string>> gpus{{"GPU", "memory", "bandwidth", "16-bit peak", "power", "link"}};
  for (const GpuPart& p : gpu_parts()) {
    if (!is_asked(options, "gpus", p.name, p.title)) continue;
    gpus.push_back({p.name, p.unified() ? "the host's" : to_string(p.memory), to_string(p.bandwidth),
                    to_string(p.peak), rated_power(p.watts), p.unified() ? "-" : p.link});
    all["gpus"].push_back({{"name", p.name},
                           {"title", p.title},
                           {"memory", p.memory.value()},
                           {"bandwidth", p.bandwidth.value()},
                           {"peak", p.peak.value()},
                           {"link", p.link},
                           {"power_w", p.watts > 0 ? Json(p.watts) : Json(nullptr)},
                           {"source", p.source}});
  }
  std::vector<std::vector<std::string>> cpus{{"CPU", "cores", "FP32 peak", "power", "memory", "channels"}};
  for (const CpuPart& p : cpu_parts()) {
    if (!is_asked(options, "cpus", p.name, p.title)) continue;
    cpus.push_back({p.name, std::to_string(p.cores + p.efficiency_cores), to_string(p.peak()),
                    rated_power(p.watts), p.memory, std::to_string(p.channels)});
    all["cpus"].push_back({{"name", p.name},
                           {"title", p.title},
                           {"cores", p.cores},
                           {"efficiency_cores", p.efficiency_cores},
                           {"peak", p.peak().value()},
                           {"memory", p.memory},
                           {"channels", p.channels},
                           {"power_w", p.watts > 0 ? Json(p.watts) : Json(nullptr)},
                           {"source", p.source}});
  }
  std::vector<std::vector<std::string>> ssds{{"SSD", "read", "latency"}};
  for (const SsdPart& p : ssd_parts()) {
    if (!is_asked(options, "ssds", p.name, p.title)) continue;
    ssds.push_back({p.name, to_string(p.read), to_string(p.latency)});
    all["ssds"].push_back({{"name", p.name},
                           {"title", p.title},
                           {"read", p.read.value()},
                           {"latency", p.latency.value()},
                           {"source", p.source}});
  }
  if (gpus.size() + cpus.size() + ssds.size() == 3) refuse_part_words(options);
  if (options.format == "json") {
    std::cout << all.dump(2) << "\n";
    return;
  }
  const char* between = "";
  for (const auto* const table : {&gpus, &cpus, &ssds}) {
    if (table->size() == 1) continue;
    std::cout << between << align_columns(*table, 1, line_width());
    between = "\n";
  }
}

void list_runtimes(const ListOptions& options) {
  Json all = Json::array();
  std::vector<std::vector<std::string>> rows{{"runtime", "a launch", "a step", "of bandwidth", "what it is"}},
      provenance;
  for (const std::string& name : config_names("runtimes")) {
    const Runtime r = load_runtime(name);
    Json constants;
    for (const Runtime::Constant& c : Runtime::constants()) constants[std::string(c.name)] = r.*c.value;
    rows.push_back({name, to_string(Seconds(r.launch)), to_string(Seconds(r.step)),
                    percent(r.expert_bandwidth, 1) + " %",
                    r.title + (r.based_on.empty() ? "" : ", on " + r.based_on)});
    std::vector<std::string> notes = r.provenance;
    if (!r.gguf.types.empty()) notes.push_back("gguf.types: " + r.gguf.types_source);
    if (r.gguf.width_multiple > 1) notes.push_back("gguf.width_multiple: " + r.gguf.width_source);
    Json caveats = Json::array();
    for (const RuntimeCaveat& caveat : r.caveats) {
      notes.push_back("caveat: " + caveat.what);
      caveats.push_back({{"models", caveat.models}, {"weights", caveat.weights}, {"what", caveat.what}});
    }
    provenance.push_back(std::move(notes));
    all.push_back({{"name", name},
                   {"title", r.title},
                   {"based_on", r.based_on},
                   {"constants", constants},
                   {"gguf_types", r.gguf.types},
                   {"gguf_width_multiple", r.gguf.width_multiple},
                   {"caveats", caveats},
                   {"provenance", r.provenance}});
  }
  print_list(options, all, rows, provenance);
}

void list_formats(const ListOptions& options) {
  Json all{{"parts", Json::array()}, {"models", stored_names()}};
  std::vector<std::vector<std::string>> table{{"format of a part", "bits a weight", "from"}};
  for (const WeightFormat& f : weight_formats()) {
    table.push_back({std::string(f.name), shortest_text(f.bits), std::string(f.source)});
    all["parts"].push_back({{"name", f.name}, {"bits", f.bits}, {"source", f.source}});
  }
  if (options.format == "json") {
    std::cout << all.dump(2) << "\n";
    return;
  }
  std::string whole;
  for (const std::string& name : stored_names()) whole += (whole.empty() ? "" : " ") + name;
  std::cout << wrapped_table(table, output_width()) << "\n"
            << hanging("Of a whole model (weights: NAME):", whole, 4, output_width());
}

/// The model's file, and what a reader may look at beside it: all files of its folder.
std::vector<std::string> files_beside(const std::string& model) {
  std::error_code none;
  const bool is_folder = std::filesystem::is_directory(model, none);
  const std::filesystem::path folder =
      is_folder ? std::filesystem::path(model) : std::filesystem::absolute(model, none).parent_path();
  std::vector<std::string> files{model};
  for (const char* name : {"config.json", "model.safetensors.index.json", "hf_quant_config.json"})
    files.push_back((folder / name).string());
  return files;
}

void print_imported(const std::string& path, const std::string& format, const std::string& out) {
  check_outputs({out}, files_beside(path));
  const Architecture a = import_model(path);
  const std::string yaml = architecture_to_yaml(a);
  if (!out.empty()) write_outputs({{out, yaml}});
  say_import_note(a);
  if (format != "json") {
    std::cout << (out.empty() ? yaml : "model: " + out + "\n");
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
  add_example(*model, "moelab model import model-Q4_K_M.gguf --out my-model.yaml");
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
  const auto out = std::make_shared<std::string>();
  import->add_option("--out", *out, "Model file to write it to; default: print it")->check(names_a_file);
  add_example(*import, "moelab model import config.json --out my-model.yaml");
  import->callback([path, format, out] { print_imported(*path, *format, *out);
});
}  // namespace moelab::cli

void add_devices(CLI::App& program) {
  add_list(program, "devices", "List the device profiles, and where each of their numbers is from",
           list_devices, ListSources::on_request);
}
void add_clusters(CLI::App& program) {
  add_list(program, "clusters", "List the cluster profiles: servers and the network between them",
           list_clusters);
}
void add_systems(CLI::App& program) {
  add_list(program, "systems", "List the serving systems", list_systems);
}
void add_parts(CLI::App& program) {
  add_list(program, "parts", "List the GPUs, CPUs and SSDs that machines are put together from", list_parts,
           ListSources::none, ListWords::taken);
  add_list(program, "runtimes", "List the runtimes, their constants and where each is from", list_runtimes,
           ListSources::on_request);
  add_list(program, "formats", "List the weight formats of parts and of whole models", list_formats);
}

}  // namespace moelab::cli
