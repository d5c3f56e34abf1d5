#include "models/runtime.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "models/config_store.hpp"
#include "models/input_error.hpp"
#include "models/sourced_reader.hpp"
#include "models/stored_weights.hpp"
#include "models/yaml_reader.hpp"

namespace moelab {
namespace {

using ConstantUnit = Runtime::Constant::Unit;
constexpr std::array kConstants{
    Runtime::Constant{"slowdown", &RuntimeCosts::slowdown, ConstantUnit::count, 0.05, 20,
                      "of the GPU's kernels: times what launches take, under all shares of the peak", true},
    Runtime::Constant{"launch", &RuntimeCosts::launch, ConstantUnit::seconds, 0, 0.01,
                      "one GPU kernel for one token, with idling around it"},
    Runtime::Constant{"launch_batched", &RuntimeCosts::launch_batched, ConstantUnit::seconds, 0, 0.01,
                      "one GPU kernel for several tokens"},
    Runtime::Constant{"activation_bytes", &RuntimeCosts::activation_bytes, ConstantUnit::count, 0, 1000,
                      "bytes that a kernel for several tokens moves, by token and value of its hidden state"},
    Runtime::Constant{"step", &RuntimeCosts::step, ConstantUnit::seconds, 0, 1,
                      "one step: scheduling, sampling"},
    Runtime::Constant{
        "eager_layer", &RuntimeCosts::eager_layer, ConstantUnit::seconds, 0, 0.1,
        "at least, a layer's attention where prompts run: the host launches its kernels one by one", true},
    Runtime::Constant{"dense_bandwidth", &RuntimeCosts::dense_bandwidth, ConstantUnit::share, 0.01, 1,
                      "of the GPU's bandwidth: attention, dense and shared matrices, head"},
    Runtime::Constant{"expert_bandwidth", &RuntimeCosts::expert_bandwidth, ConstantUnit::share, 0.01, 1,
                      "of the GPU's bandwidth: experts for one token"},
    Runtime::Constant{"batched_bandwidth", &RuntimeCosts::batched_bandwidth, ConstantUnit::share, 0.01, 1,
                      "of the GPU's bandwidth: experts for several tokens"},
    Runtime::Constant{"attention_bandwidth", &RuntimeCosts::attention_bandwidth, ConstantUnit::share, 0.01, 1,
                      "of the GPU's bandwidth: keys and values"},
    Runtime::Constant{"dense_peak", &RuntimeCosts::dense_peak, ConstantUnit::share, 0.01, 1,
                      "of the GPU's peak: dense products"},
    Runtime::Constant{"expert_peak", &RuntimeCosts::expert_peak, ConstantUnit::share, 0.01, 1,
                      "of the GPU's peak: expert products of many tokens an expert"},
    Runtime::Constant{"expert_tokens", &RuntimeCosts::expert_tokens, ConstantUnit::count, 0, 1e4,
                      "tokens an expert at which its products reach half of expert_peak"},
    Runtime::Constant{"gpu_bytes", &RuntimeCosts::gpu_bytes, ConstantUnit::count, 0, 1,
                      "1: quantised weights by the GPU's 8-bit products; 0: without", true},
    Runtime::Constant{"attention_peak", &RuntimeCosts::attention_peak, ConstantUnit::share, 0.01, 1,
                      "of the GPU's peak: attention of prompts"},
    Runtime::Constant{"recurrence_peak", &RuntimeCosts::recurrence_peak, ConstantUnit::share, 0.0001, 1,
                      "of the GPU's peak: states of linear attention"},
    Runtime::Constant{"overlap", &RuntimeCosts::overlap, ConstantUnit::count, 0, 1,
                      "experts for several tokens: 1 memory and arithmetic at once, 0 one by one"},
    Runtime::Constant{"dense_overlap", &RuntimeCosts::dense_overlap, ConstantUnit::count, 0, 1,
                      "dense products for several tokens: 1 memory and arithmetic at once, 0 one by one",
                      true},
    Runtime::Constant{"mixed_tile", &RuntimeCosts::mixed_tile, ConstantUnit::count, 1, 256,
                      "query rows that attention computes for one that decodes beside a prompt", true},
    Runtime::Constant{"request", &RuntimeCosts::request, ConstantUnit::seconds, 0, 0.01,
                      "each request that gets a token from a step", true},
    Runtime::Constant{"all_reduce_bandwidth", &RuntimeCosts::all_reduce_bandwidth, ConstantUnit::share, 0, 1,
                      "of the link's rate: sums over GPUs; 0: half of what copies get", true},
    Runtime::Constant{"peer_bandwidth", &RuntimeCosts::peer_bandwidth, ConstantUnit::share, 0.01, 1,
                      "of the rate between GPUs that have links of their own (NVLink): sums over GPUs"},
    Runtime::Constant{"cpu_bandwidth", &RuntimeCosts::cpu_bandwidth, ConstantUnit::share, 0.01, 1,
                      "of the host's bandwidth: what the CPU computes"},
    Runtime::Constant{"cpu_doubling", &RuntimeCosts::cpu_doubling, ConstantUnit::share, 0.3, 1,
                      "of cpu_bandwidth: what is left at each doubling of a socket's bandwidth over 90 GB/s"},
    Runtime::Constant{"second_socket", &RuntimeCosts::second_socket, ConstantUnit::share, 0.01, 1,
                      "of twice one socket's bandwidth and arithmetic: what two reach"},
    Runtime::Constant{"cpu_peak", &RuntimeCosts::cpu_peak, ConstantUnit::share, 0.001, 8,
                      "of the CPU's FP32 peak: several tokens"},
    Runtime::Constant{"cpu_bytes", &RuntimeCosts::cpu_bytes, ConstantUnit::count, 0, 1,
                      "1: quantised weights by the CPU's 8-bit products (VNNI); 0: without", true},
    Runtime::Constant{"cpu_layer", &RuntimeCosts::cpu_layer, ConstantUnit::seconds, 0, 0.1,
                      "a layer's experts to the CPU and back"},
    Runtime::Constant{"cpu_launch", &RuntimeCosts::cpu_launch, ConstantUnit::seconds, 0, 0.1,
                      "one kernel where the CPU computes everything"},
    Runtime::Constant{"link", &RuntimeCosts::link, ConstantUnit::share, 0.01, 1,
                      "of the link's rate: experts copied for a prompt"},
    Runtime::Constant{"stream_from", &RuntimeCosts::stream_from, ConstantUnit::count, 0, 1e6,
                      "tokens from which on a prompt's experts are copied to the GPU; 0: never"},
    Runtime::Constant{"micro_batch", &RuntimeCosts::micro_batch, ConstantUnit::count, 1, 1e6,
                      "tokens of a prompt that go through the layers at once"},
    Runtime::Constant{"all_reduce", &RuntimeCosts::all_reduce, ConstantUnit::seconds, 0, 0.1,
                      "one sum over GPUs"},
    Runtime::Constant{"peer_all_reduce", &RuntimeCosts::peer_all_reduce, ConstantUnit::seconds, 0, 0.1,
                      "one sum over GPUs that have links of their own (NVLink); 0: all_reduce", true},
    Runtime::Constant{"tensor_parallel", &RuntimeCosts::tensor_parallel, ConstantUnit::count, 0, 1,
                      "1: several GPUs share each layer; 0: each has its own layers"},
    Runtime::Constant{"bias_kernels", &RuntimeCosts::bias_kernels, ConstantUnit::count, 0, 1,
                      "1: each addition of a bias is a kernel of its own where a step has one token"},
    Runtime::Constant{"bias_kernels_batched", &RuntimeCosts::bias_kernels_batched, ConstantUnit::count, 0, 1,
                      "1: each addition of a bias is a kernel of its own where a step has several"},
    Runtime::Constant{"gpu_reserve", &RuntimeCosts::gpu_reserve, ConstantUnit::bytes, 0, 1e11,
                      "GPU memory of context, driver and workspaces"},
    Runtime::Constant{"expert_host", &RuntimeCosts::expert_host, ConstantUnit::seconds, 0, 0.1,
                      "the host's time for each expert of a layer, when all have run"},
    Runtime::Constant{"call", &RuntimeCosts::call, ConstantUnit::seconds, 0, 1,
                      "one message to another server, before it goes"},
    Runtime::Constant{"launch_each", &RuntimeCosts::launch_each, ConstantUnit::count, 0, 1,
                      "1: kernels for each expert; 0: one product for all of a layer's"},
    Runtime::Constant{"mask_bytes", &RuntimeCosts::mask_bytes, ConstantUnit::count, 0, 4,
                      "of an attention mask's entry; 0: gpu_reserve stands for all buffers", true},
    Runtime::Constant{"logits_rows", &RuntimeCosts::logits_rows, ConstantUnit::count, 0, 1,
                      "1: logits of a whole micro-batch are reserved; 0: of the sequences alone", true},
    Runtime::Constant{"kv_copy", &RuntimeCosts::kv_copy, ConstantUnit::count, 0, 1,
                      "1: quantised keys and values of one layer are copied in 16 bits", true},
    Runtime::Constant{"hidden_states", &RuntimeCosts::hidden_states, ConstantUnit::count, 0, 16,
                      "that live at once while a layer is computed", true},
    Runtime::Constant{"expert_outputs", &RuntimeCosts::expert_outputs, ConstantUnit::count, 0, 16,
                      "of all chosen experts, that live at once", true},
    Runtime::Constant{"input_copies", &RuntimeCosts::input_copies, ConstantUnit::count, 0, 16,
                      "on each of several GPUs that work one behind the other", true},
    Runtime::Constant{"gpu_context", &RuntimeCosts::gpu_context, ConstantUnit::bytes, 0, 1e11,
                      "GPU memory of driver, libraries and pools, on each GPU", true},
};

/// Files that stand on each other, at most: more is a circle.
constexpr int kLongestChain = 6;

/// `label`: of the number, where the runtime says what its numbers are from.
Sourced<double> read_value(SourcedReader& reader, const YamlMap& constants, const std::string& label,
                           const Runtime::Constant& c) {
  const std::string name(c.name);
  switch (c.unit) {
    case ConstantUnit::seconds: {
      const auto v = reader.quantity<Seconds>(constants, label, name, {Seconds(c.low), Seconds(c.high)});
      return {v.value.value(), v.source};
    }
    case ConstantUnit::bytes: {
      const auto v = reader.quantity<Bytes>(constants, label, name, {Bytes(c.low), Bytes(c.high)});
      return {v.value.value(), v.source};
    }
    case ConstantUnit::share:
    case ConstantUnit::count:
      break;
  }
  return reader.number(constants, label, name, {c.low, c.high});
}

/// One class: its factor, and constants that take the place of the runtime's, beside what an inherited one
/// says.
void read_class(const YamlMap& map, const std::string& name, SourcedReader& reader, RuntimeClass& factors) {
  factors.own = 0;
  for (const Runtime::Constant& c : kConstants) {
    if (!map.has(c.name)) continue;
    const double value = read_value(reader, map, name + "." + std::string(c.name), c).value;
    ++factors.own;
    if (c.value == &RuntimeCosts::slowdown)
      factors.slowdown = value;
    else {
      std::erase_if(factors.constants, [&](const auto& known) { return known.first == c.value; });
      factors.constants.emplace_back(c.value, value);
    }
  }
  if (factors.own == 0) map.fail("slowdown", "says nothing: expected a slowdown, or constants");
  map.done();
}

/// Generations of GPUs on which it is another way, beside those of the runtime that it stands on.
void read_classes(const YamlMap& root, SourcedReader& reader, Runtime& r) {
  for (auto& [name, factors] : r.classes) factors.own = 0;
  const std::optional<YamlMap> classes = root.optional_map("classes");
  if (!classes) return;
  for (const std::string& name : classes->keys())
    read_class(classes->map(name), name, reader, r.classes[name]);
  classes->done();
}

/// A type that GGUF files are called by: "q4_k_m".
std::string read_gguf_type(const YamlNode& node) {
  static const std::vector<std::string> known = [] {
    constexpr std::string_view kGguf = "gguf-";
    std::vector<std::string> names;
    for (const std::string& name : stored_names())
      if (name.starts_with(kGguf)) names.push_back(name.substr(kGguf.size()));
    return names;
  }();
  std::string type = node.text("a type of GGUF files");
  if (node.is_scalar() && std::find(known.begin(), known.end(), type) == known.end())
    node.fail("'" + type + "' is no type of GGUF files" + suggestion(type, known) +
              "; `moelab formats` lists them behind gguf-");
  return type;
}

/// What it says of GGUF files takes the place of what the runtime says that it stands on.
void read_gguf(const YamlMap& root, const SourcedReader& reader, Runtime& r) {
  const std::optional<YamlMap> map = root.optional_map("gguf");
  if (!map) return;
  const std::string source = reader.source_text(*map);
  if (map->has("types")) {
    r.gguf.types.clear();
    for (const YamlNode& type : map->list("types")) r.gguf.types.push_back(read_gguf_type(type));
    if (r.gguf.types.empty()) map->fail("types", "names none; leave it out where all can be read");
    r.gguf.types_source = source;
  }
  if (map->has("width_multiple")) {
    r.gguf.width_multiple = static_cast<int>(map->integer("width_multiple", 1, 65536));
    r.gguf.width_source = source;
  }
  map->done();
}

void read_caveats(const YamlMap& root, const SourcedReader& reader, Runtime& r) {
  for (const YamlNode& node : root.list_or_empty("caveats")) {
    const YamlMap map = node.map("a caveat");
    RuntimeCaveat caveat;
    for (const YamlNode& model : map.list("models")) caveat.models.push_back(model.text("a model's name"));
    caveat.weights = map.text("weights", "");
    caveat.what = map.text("what") + " (" + reader.source_text(map) + ")";
    map.done();
    r.caveats.push_back(std::move(caveat));
  }
}

std::string folder_of_file(const std::string& name) {
  return std::filesystem::path(name).parent_path().string();
}

/// `folder`: of the file that `root` is in, for a file that it names beside it.
Runtime read_chain(const YamlMap& root, const std::string& folder, int depth) {
  Runtime r;
  std::string base = root.text("based_on", "");
  if (!base.empty() && depth == kLongestChain) {
    root.fail("based_on", "more than " + std::to_string(kLongestChain) + " files stand on each other");
  } else if (!base.empty()) {
    try {
      const ConfigText file = find_config("runtimes", base, folder);
      if (is_config_path(base)) base = file.name;  // from here, not from there
      Problems problems;
      const YamlDocument document = YamlDocument::from_text(file.name, file.text, problems);
      r = read_chain(document.root(), folder_of_file(file.name), depth + 1);
      problems.throw_if_any();
    } catch (const InputError& error) {
      root.fail("based_on", error.problems().front().what);
    }
  }
  r.own.clear();
  r.sources_of_own.clear();
  r.provenance.clear();
  r.sources.clear();
  r.based_on = base;
  r.name = root.text("name");
  r.title = root.text("title", r.name);
  if (std::any_of(r.title.begin(), r.title.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }))
    root.fail("title", "has control characters");
  SourcedReader reader(r);
  reader.sources(root);
  const YamlMap constants = root.map("constants");
  for (const Runtime::Constant& c : kConstants) {
    if (!constants.has(c.name)) {
      if (base.empty() && !c.optional)
        constants.fail(c.name, "missing key '" + std::string(c.name) + "': " + std::string(c.what));
      continue;
    }
    r.own.emplace_back(c.name);
    const Sourced<double> read = read_value(reader, constants, std::string(c.name), c);
    r.sources_of_own.push_back(read.source);
    r.*c.value = read.value;
    for (auto& [name, of_class] : r.classes)  // what this file says goes before what an inherited class says
      std::erase_if(of_class.constants, [&](const auto& known) { return known.first == c.value; });
  }
  constants.done();
  read_classes(root, reader, r);
  read_gguf(root, reader, r);
  read_caveats(root, reader, r);
  root.done();
  return r;
}

}  // namespace

bool RuntimeCaveat::concerns(std::string_view model, std::string_view format) const {
  return format.starts_with(weights) && std::any_of(models.begin(), models.end(), [&](const std::string& m) {
           return model.starts_with(m);
         });
}

double RuntimeCosts::share_at(double socket_bytes_per_second) const {
  constexpr double kTwoChannels = 90e9;  // bytes a second, of DDR5-5600
  const double doublings = std::log2(std::max(1.0, socket_bytes_per_second / kTwoChannels));
  return std::pow(cpu_doubling, doublings);
}

std::string Runtime::class_of(const GpuPart& gpu) const {
  std::string longest;
  for (const auto& [begin, its_class] : classes)
    if (begin.size() > longest.size() && (gpu.name == begin || gpu.name.starts_with(begin + "-")))
      longest = begin;
  if (!longest.empty()) return longest;
  return classes.contains(gpu.generation) ? gpu.generation : "";
}

std::vector<const RuntimeClass*> Runtime::classes_of(const GpuPart& gpu, const StoredWeights& stored) const {
  const std::string general = class_of(gpu);
  std::vector<const RuntimeClass*> found;
  if (general.empty()) return found;
  found.push_back(&classes.at(general));
  for (const auto& [asked, its_class] : classes)
    if (asked.starts_with(general + "/") &&
        stored.name.find(asked.substr(general.size() + 1)) != std::string::npos)
      found.push_back(&its_class);
  return found;
}

RuntimeCosts Runtime::on(const std::optional<GpuPart>& gpu, const StoredWeights& stored) const {
  RuntimeCosts costs = *this;
  double slower = slowdown;
  if (gpu)
    for (const RuntimeClass* its_class : classes_of(*gpu, stored)) {
      for (const auto& [constant, value] : its_class->constants) costs.*constant = value;
      slower *= its_class->slowdown;
    }
  costs.slowdown = 1;
  for (double RuntimeCosts::*time : {&RuntimeCosts::launch, &RuntimeCosts::launch_batched})
    costs.*time *= slower;
  const auto products = [&](WeightPart part) {
    return gpu && gpu_bytes > 0 && stored.quantised(part) ? gpu->byte_products : 1;
  };
  const auto share = [&](double RuntimeCosts::*of, double times) {
    costs.*of = times * std::min(1.0, costs.*of / slower);
  };
  share(&RuntimeCosts::dense_peak, products(WeightPart::attention));
  share(&RuntimeCosts::expert_peak, products(WeightPart::experts));
  share(&RuntimeCosts::attention_peak, 1);
  share(&RuntimeCosts::recurrence_peak, 1);
  return costs;
}

RuntimeCosts RuntimeCosts::times_alone() const {
  RuntimeCosts costs = *this;
  for (const Runtime::Constant& c : kConstants)
    if (c.unit == ConstantUnit::share && c.low > 0) costs.*c.value = 1;
  costs.attention_peak = std::min(1.0, attention_peak / dense_peak);
  costs.overlap = costs.dense_overlap = costs.mixed_tile = 1;
  costs.activation_bytes = costs.expert_tokens = 0;
  return costs;
}

std::span<const Runtime::Constant> Runtime::constants() {
  return kConstants;
}

std::vector<const Runtime::Constant*> Runtime::fitted() const {
  std::vector<const Constant*> list;
  for (std::size_t i = 0; i < own.size() && i < sources_of_own.size(); ++i) {
    if (sources_of_own[i] != "world") continue;
    const auto constant = std::find_if(kConstants.begin(), kConstants.end(),
                                       [&](const Constant& c) { return c.name == own[i]; });
    list.push_back(&*constant);
  }
  return list;
}

std::vector<std::string> runtime_provenance(const Runtime& runtime) {
  std::vector<std::string> lines;
  for (const std::string& line : runtime.provenance)
    lines.push_back("runtime " + runtime.name + " constants." + line);
  if (!runtime.based_on.empty())
    for (const std::string& line : runtime_provenance(load_runtime(runtime.based_on))) lines.push_back(line);
  return lines;
}

Runtime read_runtime(const YamlMap& root, const std::string& folder) {
  return read_chain(root, folder, 0);
}

Runtime load_runtime(std::string_view name, const std::string& base) {
  const ConfigText file = find_config("runtimes", name, base);
  Problems problems;
  const YamlDocument document = YamlDocument::from_text(file.name, file.text, problems);
  Runtime r = read_runtime(document.root(), folder_of_file(file.name));
  problems.throw_if_any();
  return r;
}

}  // namespace moelab
