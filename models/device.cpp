#include "models/device.hpp"

#include <algorithm>
#include <array>

#include "models/config_store.hpp"
#include "models/sourced_reader.hpp"
#include "models/yaml_text.hpp"

namespace moelab {
namespace {

constexpr std::array<std::string_view, 4> kOwnMemoryKeys = {"memory", "reserve", "bandwidth", "link"};

/// Whether the profile says anything of a GPU's own memory: all of it is then needed.
bool has_own_memory(const YamlMap& gpu) {
  return std::any_of(kOwnMemoryKeys.begin(), kOwnMemoryKeys.end(),
                     [&](std::string_view key) { return gpu.has(key); });
}
bool is_discrete(const YamlMap& root) {
  if (!root.has("gpu") || !root.node("gpu").is_map()) return false;
  const YamlMap gpu = root.map("gpu");
  return gpu.has("stand_in") || has_own_memory(gpu);
}

std::optional<Sourced<BytesPerSecond>> read_shared_bandwidth(const YamlMap& root, const YamlMap& memory,
                                                             SourcedReader& read) {
  const bool discrete = is_discrete(root);
  if (root.has("gpu") && !discrete)
    return read.quantity(memory, "memory.bandwidth", "bandwidth", above(BytesPerSecond(0)));
  if (memory.has("bandwidth"))
    memory.fail("bandwidth",
                discrete
                    ? "memory.bandwidth is what a GPU streams that shares this memory, and the profile's "
                      "has memory of its own: it streams gpu.bandwidth"
                    : "memory.bandwidth is what the GPU streams, and the profile has no 'gpu' section; "
                      "what the CPU streams is cpu.bandwidth");
  return std::nullopt;
}

MemoryProfile read_memory(const YamlMap& root, SourcedReader& read) {
  MemoryProfile m;
  const YamlMap memory = root.map("memory");
  m.total = read.quantity(memory, "memory.total", "total", above(Bytes(0)));
  m.system_reserve = read.quantity(memory, "memory.system_reserve", "system_reserve", at_least(Bytes(0)));
  m.bandwidth = read_shared_bandwidth(root, memory, read);
  if (memory.has("controller"))
    m.controller = read.quantity(memory, "memory.controller", "controller", above(BytesPerSecond(0)));
  if (m.controller && m.bandwidth && m.controller->value < m.bandwidth->value)
    memory.fail("controller",
                "memory.controller is less than memory.bandwidth, which the GPU alone moves through it");
  memory.done();
  return m;
}

std::vector<CpuExperts> read_experts(const YamlMap& cpu, SourcedReader& read) {
  constexpr std::int64_t kMost = 1 << 20;
  std::vector<CpuExperts> list;
  for (const YamlNode& item : cpu.list_or_empty("experts")) {
    const YamlMap map = item.map("experts of a shape");
    CpuExperts e;
    e.hidden = static_cast<int>(map.integer("hidden", 1, kMost));
    e.width = static_cast<int>(map.integer("width", 1, kMost));
    e.matrices = static_cast<int>(map.integer("matrices", 2, 3));
    const std::string shape = std::to_string(e.matrices) + " matrices of " + std::to_string(e.hidden) +
                              " by " + std::to_string(e.width);
    e.seconds = read.curve(map, "cpu.experts, " + shape, "seconds", SourcedReader::Amount::tokens);
    const auto same = [&](const CpuExperts& other) {
      return other.hidden == e.hidden && other.width == e.width && other.matrices == e.matrices;
    };
    if (std::any_of(list.begin(), list.end(), same))
      item.fail("experts of " + shape + " are listed twice; expected one curve for each shape");
    map.done();
    list.push_back(std::move(e));
  }
  return list;
}

CpuProfile read_cpu(const YamlMap& root, SourcedReader& read) {
  CpuProfile c;
  const YamlMap cpu = root.map("cpu");
  c.threads = read.integer(cpu, "cpu.threads", "threads", 1, 4096);
  c.dispatch = read.quantity(cpu, "cpu.dispatch", "dispatch", at_least(Seconds(0)));
  if (cpu.has("recover"))
    c.recover = read.curve(cpu, "cpu.recover", "recover", SourcedReader::Amount::elements);
  c.experts = read_experts(cpu, read);
  if (cpu.has("peak")) c.peak = read.quantity(cpu, "cpu.peak", "peak", above(FlopsPerSecond(0)));
  if (cpu.has("bandwidth"))
    c.bandwidth = read.quantity(cpu, "cpu.bandwidth", "bandwidth", above(BytesPerSecond(0)));
  if (cpu.has("dense_launch"))
    c.dense_launch = read.quantity(cpu, "cpu.dense_launch", "dense_launch", at_least(Seconds(0)));
  if (cpu.has("sharing")) {
    c.sharing = read.factors(cpu, "cpu.sharing", "sharing");
    if (c.sharing->value.front() != 1)
      cpu.fail("sharing", "cpu.sharing begins with " + yaml::number(c.sharing->value.front()) +
                              "; expected 1: one operation alone is what all other numbers are of");
  }
  if (cpu.has("slowdown_while_reading")) {
    c.slowdown_while_reading =
        read.number(cpu, "cpu.slowdown_while_reading", "slowdown_while_reading", {1, 100});
    if (!c.sharing)
      cpu.fail("slowdown_while_reading",
               "cpu.slowdown_while_reading is given without cpu.sharing; expected both, or neither: it is a "
               "factor on what shares the CPU, in '{value: [1, 1], ...}' two operations that cost each other "
               "nothing");
  }
  cpu.done();
  return c;
}

/// What a machine must compute with that has no GPU, or one that the CPU plays.
void check_computes(const YamlMap& root, const DeviceProfile& device) {
  if ((root.has("gpu") && !device.has_stand_in()) || !root.has("cpu")) return;
  const CpuProfile& cpu = device.cpu;
  std::string missing;
  const auto want = [&](bool has, const char* name) {
    if (!has) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  want(cpu.recover.has_value(), "cpu.recover");
  want(cpu.peak.has_value(), "cpu.peak");
  want(cpu.bandwidth.has_value(), "cpu.bandwidth");
  want(cpu.dense_launch.has_value(), "cpu.dense_launch");
  if (!missing.empty())
    root.fail("gpu", std::string(device.has_stand_in() ? "the CPU stands in for the GPU"
                                                       : "the profile has no 'gpu' section") +
                         ", and not all is there that a machine without GPU needs; missing: " + missing);
}

std::map<std::string, CodecProfile> read_codecs(const YamlMap& root, SourcedReader& read) {
  std::map<std::string, CodecProfile> profiles;
  const YamlMap codecs = root.map("codecs");
  for (const std::string& name : codecs.keys()) {
    const YamlMap codec = codecs.map(name);
    const std::string path = "codecs." + name;
    CodecProfile& c = profiles[name];
    c.ratio = read.number(codec, path + ".ratio", "ratio", {0, 1.1, true});
    const YamlNode decompress = codec.node("decompress");
    const bool is_curve = decompress.is_map() && [&] {
      const YamlMap entry = decompress.map("decompress");
      return entry.has("points") || entry.has("latency") || entry.has("rate");
    }();
    if (is_curve)
      c.decompress = read.curve(codec, path + ".decompress", "decompress");
    else
      c.decompress = read.quantity(codec, path + ".decompress", "decompress", above(BytesPerSecond(0)));
    codec.done();
  }
  codecs.done();
  return profiles;
}

LinkProfile read_link(const YamlMap& gpu, SourcedReader& read) {
  LinkProfile l;
  const YamlMap link = gpu.map("link");
  l.to_device = read.curve(link, "gpu.link.to_device", "to_device");
  l.to_host = read.curve(link, "gpu.link.to_host", "to_host");
  if (link.has("pageable")) l.pageable = read.curve(link, "gpu.link.pageable", "pageable");
  link.done();
  return l;
}

void read_memory_sizes(const YamlMap& gpu, GpuMemory& own, SourcedReader& read) {
  own.total = read.quantity(gpu, "gpu.memory", "memory", above(Bytes(0)));
  own.reserve = read.quantity(gpu, "gpu.reserve", "reserve", at_least(Bytes(0)));
  if (own.reserve.value >= own.total.value) gpu.fail("reserve", "gpu.reserve leaves nothing of gpu.memory");
}

void read_gpu_codecs(const YamlMap& gpu, GpuProfile& g, SourcedReader& read) {
  const auto codecs = gpu.optional_map("codecs");
  if (!codecs) return;
  for (const std::string& name : codecs->keys()) {
    const YamlMap codec = codecs->map(name);
    const std::string path = "gpu.codecs." + name;
    g.codecs[name] = {read.number(codec, path + ".ratio", "ratio", {0, 1.1, true}),
                      read.quantity(codec, path + ".rate", "rate", above(BytesPerSecond(0)))};
    codec.done();
  }
  codecs->done();
}

/// What streaming weights through the GPU's own memory takes.
void read_paging(const YamlMap& gpu, GpuProfile& g, SourcedReader& read) {
  read_gpu_codecs(gpu, g, read);
  if (gpu.has("remap")) g.remap = read.curve(gpu, "gpu.remap", "remap");
}

/// A GPU that the CPU plays: it has memory and a link, and computes as `cpu` says.
GpuProfile read_stand_in(const YamlMap& gpu, SourcedReader& read) {
  GpuProfile g;
  g.stand_in = true;
  for (const char* const key : {"peak", "flops_efficiency", "launch", "bandwidth"})
    if (gpu.has(key))
      gpu.fail(key, "gpu." + std::string(key) +
                        " is given beside gpu.stand_in; a stand-in computes as cpu.experts, cpu.peak and "
                        "cpu.bandwidth say");
  if (gpu.has("node")) gpu.fail("node", "gpu.node is given beside gpu.stand_in; the CPU plays one GPU");
  GpuMemory& own = g.own.emplace();
  read_memory_sizes(gpu, own, read);
  own.link = read_link(gpu, read);
  read_paging(gpu, g, read);
  return g;
}

std::optional<GpuMemory> read_own_memory(const YamlMap& gpu, SourcedReader& read) {
  if (!has_own_memory(gpu)) return std::nullopt;
  std::string given, missing;
  for (const std::string_view key : kOwnMemoryKeys) {
    std::string& list = gpu.has(key) ? given : missing;
    list += (list.empty() ? "gpu." : ", gpu.") + std::string(key);
  }
  if (!missing.empty()) {
    gpu.fail(given.substr(4, given.find(',') - 4),
             "a GPU with memory of its own has gpu.memory, gpu.reserve, gpu.bandwidth and gpu.link; given: " +
                 given + "; missing: " + missing);
    return std::nullopt;
  }
  GpuMemory own;
  read_memory_sizes(gpu, own, read);
  own.bandwidth = read.quantity(gpu, "gpu.bandwidth", "bandwidth", above(BytesPerSecond(0)));
  own.link = read_link(gpu, read);
  return own;
}

NodeProfile read_node(const YamlMap& gpu, SourcedReader& read) {
  constexpr int kMostGpus = 1024;
  NodeProfile node;
  const YamlMap map = gpu.map("node");
  node.gpus = read.integer(map, "gpu.node.gpus", "gpus", 2, kMostGpus);
  for (const YamlNode& item : map.list("all_reduce")) {
    const YamlMap entry = item.map("an all-reduce");
    AllReduceProfile& reduce = node.all_reduce.emplace_back();
    reduce.gpus = static_cast<int>(entry.integer("gpus", 2, kMostGpus));
    reduce.seconds =
        read.curve(entry, "gpu.node.all_reduce, " + std::to_string(reduce.gpus) + " GPUs", "seconds");
    entry.done();
    const std::size_t count = node.all_reduce.size();
    if (count > 1 && node.all_reduce[count - 2].gpus >= reduce.gpus)
      item.fail("the all-reduce of " + std::to_string(reduce.gpus) + " GPUs follows that of " +
                std::to_string(node.all_reduce[count - 2].gpus) +
                "; expected them by rising gpus, each once");
  }
  map.done();
  return node;
}

/// The same, and what its siblings do.
void read_streaming(const YamlMap& gpu, GpuProfile& g, SourcedReader& read) {
  for (const std::string_view key : {"codecs", "remap", "node"})
    if (gpu.has(key) && !g.own)
      gpu.fail(key, "gpu." + std::string(key) +
                        " is of a GPU with memory of its own; the profile has no gpu.memory");
  read_paging(gpu, g, read);
  if (gpu.has("node")) g.node = read_node(gpu, read);
}

GpuProfile read_gpu(const YamlMap& root, SourcedReader& read) {
  GpuProfile g;
  const YamlMap gpu = root.map("gpu");
  if (gpu.boolean("stand_in", false)) {
    g = read_stand_in(gpu, read);
    gpu.done();
    return g;
  }
  g.peak = read.quantity(gpu, "gpu.peak", "peak", above(FlopsPerSecond(0)));
  g.flops_efficiency = read.number(gpu, "gpu.flops_efficiency", "flops_efficiency", {0, 1, true});
  g.launch = read.quantity(gpu, "gpu.launch", "launch", at_least(Seconds(0)));
  g.own = read_own_memory(gpu, read);
  read_streaming(gpu, g, read);
  gpu.done();
  return g;
}

MeasuredOn read_measured_on(const YamlMap& entry) {
  MeasuredOn m;
  m.machine.cpu = entry.text("cpu");
  m.machine.kernel = entry.text("kernel");
  m.machine.driver = entry.text("driver", "");
  m.machine.gpu = entry.text("gpu", "");
  m.date = entry.text("date");
  m.command = entry.text("command");
  m.libraries = entry.text("libraries", "");
  entry.done();
  return m;
}

std::string shown(const MeasuredOn& m) {
  std::string text = "measured on " + m.machine.cpu + ", " + m.machine.kernel;
  if (!m.machine.gpu.empty()) text += ", " + m.machine.gpu;
  if (!m.machine.driver.empty()) text += ", driver " + m.machine.driver;
  if (!m.libraries.empty()) text += "; " + m.libraries;
  return text + "; " + m.date + ", " + m.command;
}

}  // namespace

DeviceProfile::DeviceProfile() = default;
DeviceProfile::DeviceProfile(const DeviceProfile&) = default;
DeviceProfile::DeviceProfile(DeviceProfile&&) noexcept = default;
DeviceProfile& DeviceProfile::operator=(const DeviceProfile&) = default;
DeviceProfile& DeviceProfile::operator=(DeviceProfile&&) noexcept = default;
DeviceProfile::~DeviceProfile() = default;

Seconds CodecProfile::decompress_seconds(Bytes plain) const {
  if (const auto* rate = std::get_if<Sourced<BytesPerSecond>>(&decompress)) return plain / rate->value;
  return Seconds(std::get<Sourced<Curve>>(decompress).value(plain.value()));
}

std::string implausible_reads(const Curve& ssd) {
  constexpr double kSmall = 4096, kLarge = 0x1p30;  // bytes
  // Assumed: three times the 15 ms that a disk's seek and turn take, and 20 of the fastest SSDs of
  // configs/parts (14.8 GB/s), are no SSD's.
  constexpr double kSlowest = 0.05;      // seconds, of a small read
  constexpr double kFastestRate = 3e11;  // bytes a second
  if (ssd.empty()) return "";
  if (ssd(kSmall) > kSlowest)
    return "takes " + to_string(Seconds(ssd(kSmall))) + " for 4 KiB, longer than any disk; expected up to " +
           to_string(Seconds(kSlowest));
  const double rate = kLarge / std::max(ssd(kLarge), 1e-12);
  return rate > kFastestRate ? "reads " + to_string(BytesPerSecond(rate)) +
                                   ", faster than any array of SSDs; expected up to " +
                                   to_string(BytesPerSecond(kFastestRate))
                             : "";
}

DeviceProfile read_device(const YamlDocument& document) {
  return read_device(document.root());
}

DeviceProfile read_device(const YamlMap& root) {
  DeviceProfile d;
  SourcedReader read(d);
  d.name = root.text("name");
  d.title = root.text("title");
  read.sources(root);
  if (const std::optional<YamlMap> entry = root.optional_map("measured_on")) {
    d.measured_on = read_measured_on(*entry);
    d.provenance.push_back(shown(*d.measured_on));
  }
  d.memory = read_memory(root, read);
  d.cpu = read_cpu(root, read);

  const YamlMap ssd = root.map("ssd");
  d.ssd.read = read.curve(ssd, "ssd.read", "read");
  d.ssd.slowdown_while_decompressing =
      read.number(ssd, "ssd.slowdown_while_decompressing", "slowdown_while_decompressing", {1, 100});
  d.ssd.readers = read.factors(ssd, "ssd.readers", "readers");
  ssd.done();

  const YamlMap cache = root.map("page_cache");
  d.page_cache.read = read.curve(cache, "page_cache.read", "read");
  cache.done();

  d.codecs = read_codecs(root, read);
  if (root.has("gpu")) d.gpu = read_gpu(root, read);
  check_computes(root, d);
  root.done();
  return d;
}

DeviceProfile load_device(std::string_view name, const std::string& base) {
  const ConfigText config = find_config("devices", name, base);
  Problems problems;
  const YamlDocument document = YamlDocument::from_text(config.name, config.text, problems);
  DeviceProfile device = read_device(document);
  problems.throw_if_any();
  return device;
}

std::vector<std::string> machine_differences(const DeviceProfile& profile, const MachineIdentity& here) {
  if (!profile.measured_on)
    return {"device profile '" + profile.name + "' does not say which machine it was measured on"};
  std::vector<std::string> differences;
  const auto compare = [&](const char* what, const std::string& there, const std::string& now) {
    const auto named = [](const std::string& text) { return text.empty() ? "none" : "'" + text + "'"; };
    if (there != now)
      differences.push_back(std::string(what) + ": device profile '" + profile.name + "' was measured with " +
                            named(there) + ", here is " + named(now));
  };
  const MachineIdentity& there = profile.measured_on->machine;
  compare("cpu", there.cpu, here.cpu);
  compare("kernel", there.kernel, here.kernel);
  compare("driver", there.driver, here.driver);
  compare("gpu", there.gpu, here.gpu);
  return differences;
}

bool same_machine(const DeviceProfile& profile, const MachineIdentity& here) {
  return machine_differences(profile, here).empty();
}

}  // namespace moelab
