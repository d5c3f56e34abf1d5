#include "models/machine_parts.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>
#include <vector>

#include "models/input_error.hpp"
#include "models/physical_bounds.hpp"
#include "models/yaml_reader.hpp"

namespace moelab {

FlopsPerSecond MachineParts::cpu_peak() const {
  return cpu ? cpu->peak() * sockets : FlopsPerSecond(0);
}

FlopsPerSecond MachineParts::cpu_peak(const StoredWeights& weights, const RuntimeCosts& runtime) const {
  const bool by_bytes = cpu && runtime.cpu_bytes > 0 && weights.quantised(WeightPart::experts);
  return cpu_peak() * runtime.share_of_sockets(sockets) * (by_bytes ? cpu->byte_products : 1);
}

Curve MachineParts::all_reduce(int ranks, const RuntimeCosts& runtime) const {
  const double own = gpu->peer_link.value() * runtime.peer_bandwidth;
  if (own > 0) {
    const double once = runtime.peer_all_reduce > 0 ? runtime.peer_all_reduce : runtime.all_reduce;
    return Curve::affine(once, own * ranks / (2.0 * (ranks - 1)));
  }
  const double share = runtime.all_reduce_bandwidth > 0 ? runtime.all_reduce_bandwidth : runtime.link / 2;
  return Curve::affine(runtime.all_reduce, link_rate(gpu->link).value() * share);
}

std::optional<Bytes> MachineParts::usable_ram() const {
  if (!ram) return {};
  return Bytes(std::max(0.0, ram->value() - kSystemReserve));
}

std::optional<Bytes> MachineParts::gpu_share_of_ram() const {
  if (!ram || !gpu || gpu->maker != "apple") return {};
  return *ram * (ram->value() < kMacShares.large_from ? kMacShares.small : kMacShares.large);
}

std::optional<Bytes> MachineParts::gtt_share_of_ram() const {
  if (!ram || !gpu || !gpu->unified() || gpu->maker != "amd") return {};
  return *ram * kGttShare;
}

std::optional<CpuPart> MachineParts::cores() const {
  if (cpu || !gpu || gpu->cpu.empty()) return cpu;
  return find_cpu(gpu->cpu);
}

SsdPart MachineParts::ssd_in_slot() const {
  SsdPart part = ssd ? *ssd : find_ssd(kUnnamedSsd);
  if (gpu && !gpu->ssd_slot.empty()) part.read = std::min(part.read, link_rate(gpu->ssd_slot));
  return part;
}

std::string MachineParts::slot_note() const {
  const SsdPart one = ssd ? *ssd : find_ssd(kUnnamedSsd);
  const BytesPerSecond read = ssd_in_slot().read;
  if (!(read < one.read)) return {};
  const std::string rate = to_string(one.read);
  const std::string what = !ssd       ? "no SSD is named, and one as is assumed would read " + rate
                           : ssd->own ? one.title + " reads " + rate
                                      : one.title + " reads " + rate + " by its data sheet";
  return what + "; the slot of " + gpu->title + " carries " + to_string(read) + " at most (" + gpu->ssd_slot +
         "), and no more is counted on";
}

std::string MachineParts::lacks_ram(Bytes needed) const {
  const std::optional<Bytes> usable = usable_ram();
  if (!usable || needed <= *usable) return {};
  return "the host's memory needs " + to_string(needed) + " and has " + to_string(*usable) + ": " +
         to_string(*ram) + " less " + to_string(Bytes(kSystemReserve)) +
         " of the operating system and other programs";
}

std::string MachineParts::title() const {
  std::string text;
  if (gpu) text = (gpus > 1 ? std::to_string(gpus) + " x " : "") + gpu->title;
  if (!cpu) return text;
  text += (text.empty() ? "" : ", ") + (sockets > 1 ? std::to_string(sockets) + " x " : std::string()) +
          cpu->title;
  if (memory.channels > 0 || memory.stated)
    text += ", " + (memory.type.empty() ? "memory" : memory.type) + " of " + to_string(memory.bandwidth()) +
            (sockets > 1 ? " a socket" : "");
  return text;
}

namespace {

/// What is wrong, and which key of a machine says it.
struct KeyFault {
  std::string key, what;
};

/// `make` of a part; what it says is wrong is of the key.
template <class Make>
auto of_key(const char* key, const Make& make) {
  try {
    return make();
  } catch (const InputError& error) {
    throw KeyFault{key, error.problems().front().what};
  }
}

/// What a board with one memory has of it, where its name says so: "jetson-agx-orin-64gb",
/// "apple-m4-max-128gb". GiB, as sold.
std::optional<Bytes> memory_in_name(const std::string& asked, const std::string& part) {
  for (const std::string& name : {asked, part}) {
    const std::size_t dash = name.rfind('-');
    if (dash == std::string::npos || !name.ends_with("gb")) continue;
    double gib = 0;
    const char* const end = name.data() + name.size() - 2;
    const auto [rest, error] = std::from_chars(name.data() + dash + 1, end, gib);
    if (error == std::errc() && rest == end && gib > 0) return Bytes(gib * 0x1p30);
  }
  return {};
}

/// What is said of the channels, a socket's: "24 channels over 2 sockets" are 12.
void check_channels(const MachineText& text, MachineParts& machine) {
  int& channels = machine.memory.channels;
  if (machine.sockets > 1 && text.memory.find("over ") != std::string::npos &&
      text.memory.find("channel") != std::string::npos)
    channels = (channels + machine.sockets - 1) / machine.sockets;
  if (!machine.cpu || machine.cpu->bandwidth || channels <= machine.cpu->channels) return;
  throw KeyFault{"memory", "memory '" + text.memory + "': " + machine.cpu->title + " has " +
                               std::to_string(machine.cpu->channels) + " channels a socket"};
}

void read_memories(const MachineText& text, MachineParts& machine) {
  machine.memory =
      of_key("memory", [&] { return read_memory(text.memory, machine.cpu ? &*machine.cpu : nullptr); });
  check_channels(text, machine);
  const bool shared = machine.gpu && machine.gpu->unified(), soldered = machine.cpu && machine.cpu->bandwidth;
  if (text.memory.starts_with("unified") && machine.cpu && !shared && !soldered)
    throw KeyFault{"memory", "memory '" + text.memory + "': " + machine.cpu->title + " has modules of " +
                                 machine.cpu->memory + ", which no GPU shares"};
  if (machine.gpu && machine.gpu->unified()) {
    // The memory is soldered: it is the GPU's data sheet that says how fast it is.
    if (machine.memory.stated && text.memory.find("unified") != std::string::npos)
      machine.gpu->bandwidth = *machine.memory.stated;
    machine.memory.stated = machine.gpu->bandwidth;
  }
}

void read_ram(const MachineText& text, MachineParts& machine) {
  const bool shared = machine.gpu && machine.gpu->unified();
  const std::optional<Bytes> built_in = shared ? memory_in_name(text.gpu, machine.gpu->name) : std::nullopt;
  machine.ram = built_in;
  if (text.ram.empty()) return;
  Bytes ram;
  std::string expected;
  if (!parse(text.ram, ram, expected) || ram <= Bytes(0))
    throw KeyFault{"ram", "ram '" + text.ram + "': expected " +
                              (expected.empty() ? "more than nothing: 64 GiB" : expected)};
  if (const std::string beyond = beyond_physical(ram); !beyond.empty())
    throw KeyFault{"ram", "ram '" + text.ram + "'" + beyond};
  if (built_in && ram > *built_in)
    throw KeyFault{"ram", "ram '" + text.ram + "': " + machine.gpu->title + " has " + to_string(*built_in)};
  machine.ram = ram;
}

/// Whether the processors make a machine, and how many sockets.
void check_processors(const MachineText& text, MachineParts& machine) {
  if (!machine.gpu && !machine.cpu)
    throw KeyFault{"gpu",
                   "a machine needs a GPU or a CPU: give 'gpu: rtx-4090-24gb' or 'cpu: ryzen-9-7950x'"};
  if (machine.gpu && machine.gpu->unified() && machine.gpus > 1)
    throw KeyFault{"gpus", machine.gpu->title + " works in the host's memory: there is one in a machine"};
  machine.sockets = std::max(1, text.sockets);
  if (machine.cpu && machine.sockets > machine.cpu->sockets)
    throw KeyFault{"sockets", machine.cpu->title + " works in machines of " +
                                  std::to_string(machine.cpu->sockets) + " socket" +
                                  (machine.cpu->sockets == 1 ? "" : "s") + ", not of " +
                                  std::to_string(machine.sockets)};
  if (machine.gpu && machine.gpu->unified() && machine.cpu && !machine.cpu->bandwidth)
    throw KeyFault{"cpu", machine.gpu->title + " works in the memory of its own CPU, " + machine.cpu->title +
                              " has " + machine.cpu->memory + " in modules"};
}

/// The CPU's name; where it is a catalogue's name that is short for that of the GPU's chip, the latter:
/// "jetson-agx-orin" has eight cores on the board of 32 GB, twelve on that of 64 GB.
std::string cpu_meant(const std::string& text, const MachineParts& machine) {
  if (!machine.gpu || !machine.gpu->cpu.starts_with(text + "-")) return text;
  try {
    const CpuPart &named = find_cpu(text), &chip = find_cpu(machine.gpu->cpu);
    return named.generation == chip.generation && named.bandwidth == chip.bandwidth ? chip.name : text;
  } catch (const InputError&) {  // said of the name as it stands
    return text;
  }
}

/// All that is wrong of parts that do not depend on each other, and the first of those that do.
MachineParts put_together(const MachineText& text, std::vector<KeyFault>& faults) {
  MachineParts machine;
  const auto attempt = [&](const auto& make) {
    try {
      make();
    } catch (const KeyFault& fault) {
      faults.push_back(fault);
    }
  };
  if (!text.gpu.empty() && text.gpus > 0) {
    attempt([&] {
      machine.gpu = of_key("gpu", [&] {
        GpuPart part = gpu_part(text.gpu);
        if (!part.cpu.empty()) (void)find_cpu(part.cpu);
        return part;
      });
    });
    machine.gpus = text.gpus;
  }
  if (!text.cpu.empty())
    attempt([&] { machine.cpu = of_key("cpu", [&] { return cpu_part(cpu_meant(text.cpu, machine)); }); });
  if (faults.empty()) attempt([&] { check_processors(text, machine); });
  if (faults.empty()) attempt([&] { read_memories(text, machine); });
  attempt([&] { read_ram(text, machine); });
  if (!text.ssd.empty()) attempt([&] { machine.ssd = of_key("ssd", [&] { return ssd_part(text.ssd); }); });
  return machine;
}

}  // namespace

MachineParts machine_of(const MachineText& text) {
  std::vector<KeyFault> faults;
  MachineParts machine = put_together(text, faults);
  Problems problems;
  for (const KeyFault& fault : faults)  // some begin with their key already
    problems.add({fault.what.starts_with(fault.key) ? "" : fault.key, 0, 0, fault.what});
  problems.throw_if_any();
  return machine;
}

namespace {

constexpr const char* kUnlike =
    "is a list: unlike GPUs in one machine are not simulated; expected one kind, and of several alike how "
    "many "
    "they are: gpu: rtx-3090-24gb and gpus: 2";

/// A part's name, or a part of a user's own as JSON. What is wrong of the latter is reported, and `readable`
/// false.
std::string part_text(const YamlMap& map, const char* key, PartKind kind, const std::string& base,
                      bool& readable) {
  if (map.has(key) && map.node(key).is_list()) {
    map.fail(key, kind == PartKind::gpu ? kUnlike : "is a list; expected one part");
    readable = false;
    return {};
  }
  const bool in_place = map.has(key) && map.node(key).is_map();
  if (in_place) check_part(kind, map.map(key));
  const std::string text = in_place ? map.node(key).json() : map.text(key, "");
  try {
    return held_part(kind, text, base);
  } catch (const InputError& error) {
    readable = false;
    if (!in_place)
      for (const Problem& problem : error.problems()) map.fail(key, to_string(problem));
    return text;
  }
}

}  // namespace

MachineText held_machine(MachineText text) {
  text.gpu = held_part(PartKind::gpu, text.gpu);
  text.cpu = held_part(PartKind::cpu, text.cpu);
  text.ssd = held_part(PartKind::ssd, text.ssd);
  return text;
}

MachineText read_machine_text(const YamlMap& map, const std::string& base) {
  MachineText text;
  text.gpu = part_text(map, "gpu", PartKind::gpu, base, text.readable);
  text.gpus = static_cast<int>(map.integer("gpus", 1, 64, 1));
  text.cpu = part_text(map, "cpu", PartKind::cpu, base, text.readable);
  text.sockets = static_cast<int>(map.integer("sockets", 1, 8, 1));
  text.memory = map.text("memory", "");
  text.ram = map.text("ram", "");
  text.ssd = part_text(map, "ssd", PartKind::ssd, base, text.readable);
  map.done();
  return text;
}

std::optional<MachineParts> read_machine(const YamlMap& map, const std::string& base) {
  const MachineText text = read_machine_text(map, base);
  if (!text.readable) return {};
  std::vector<KeyFault> faults;
  MachineParts machine = put_together(text, faults);
  for (const KeyFault& fault : faults) map.fail(fault.key, fault.what);
  if (!faults.empty()) return {};
  return machine;
}

}  // namespace moelab
