// A machine put together from catalogue parts.
#pragma once

#include <optional>
#include <string>

#include "models/curve.hpp"
#include "models/part.hpp"
#include "models/runtime_costs.hpp"
#include "models/weight_format.hpp"

namespace moelab {

class YamlMap;

/// Of a machine's memory, what its operating system and other programs hold: a rule, which no part's data
/// sheet says.
inline constexpr double kSystemReserve = 3e9;  // bytes

/// Metal's recommendedMaxWorkingSetSize over all memory, as llama.cpp logs it: 10.7 of 16 GiB (M1 Pro), 21.3
/// of 32 (llama.cpp, pull request 2011), 27 of 36 (M4 Max, macOS 15.7), 48 of 64, 72 of 96 and 144 of 192
/// (Rapid-MLX, pull request 183). macOS 26 gives more to a large memory: 107.5 of 128 GiB (antirez/ds4, pull
/// request 893), where earlier versions gave 96. `sudo sysctl iogpu.wired_limit_mb=N` sets it to N MiB (MLX's
/// page of set_wired_limit).
struct MacShares {
  double large_from = 36e9;  // bytes of memory
  double small = 2.0 / 3, large = 3.0 / 4;
};
inline constexpr MacShares kMacShares;

struct MachineParts {
  std::optional<GpuPart> gpu;
  int gpus = 0;  // of that kind, each with a link of its own
  std::optional<CpuPart> cpu;
  int sockets = 1;  // that take part
  MemoryPart memory;
  std::optional<Bytes> ram;  // of the host, all of it; absent: as much as is needed
  std::optional<SsdPart> ssd;

  /// What all GPUs hold; what a GPU that works in the host's memory holds is the host's.
  Bytes gpu_memory() const { return Bytes(gpu ? gpu->memory.value() * gpus : 0); }
  /// What a model may have of the host's memory: `ram` less kSystemReserve, at least 0.
  std::optional<Bytes> usable_ram() const;
  /// What macOS lets a GPU of Apple take of `ram` where nothing was set (kMacShares); absent for others, and
  /// where the memory's size is not known.
  std::optional<Bytes> gpu_share_of_ram() const;
  /// Why the host's memory does not hold so much; empty where it does, or its size is not known.
  std::string lacks_ram(Bytes needed) const;
  /// Of all sockets, by the data sheet.
  BytesPerSecond host_bandwidth() const { return memory.bandwidth() * sockets; }
  FlopsPerSecond cpu_peak() const;
  /// What a runtime can use of it for weights that are stored so: several times as much where experts are
  /// quantised, the CPU has instructions for 8-bit products, and the runtime has them.
  FlopsPerSecond cpu_peak(const StoredWeights& weights, const RuntimeCosts& runtime) const;
  /// Seconds of a sum over `ranks` > 1 of its GPUs, by the bytes that each has: over their own links as in a
  /// ring, 2 (ranks - 1) / ranks of the bytes, else twice the bytes over the link to the host.
  Curve all_reduce(int ranks, const RuntimeCosts& runtime) const;
  std::string title() const;
};

/// What people write of a machine, as text: empty, or not said.
struct MachineText {
  std::string gpu{};  // "rtx-4090-24gb"
  int gpus = 1;
  std::string cpu{};  // "Xeon Gold 6454S"
  int sockets = 1;
  std::string memory{};  // "ddr5-5600, 2 channels"
  std::string ram{};     // "64 GiB"
  std::string ssd{};
};
/// Throws InputError that names the key: parts that are not known, memory that the CPU does not take, more
/// sockets than it works in, no processor at all.
MachineParts machine_of(const MachineText& text);

/// `{gpu: rtx-4090-24gb, gpus: 1, cpu: ryzen-9-7950x, sockets: 1, memory: ddr5-6000 x 2, ram: 64 GiB, ssd:
/// pcie4-x4}`; problems go to the map's document, at the key that they are of.
std::optional<MachineParts> read_machine(const YamlMap& map);
/// The same, not yet put together.
MachineText read_machine_text(const YamlMap& map);

}  // namespace moelab
