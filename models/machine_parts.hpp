// A machine put together from catalogue parts.
#pragma once

#include <optional>
#include <string>
#include <string_view>

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

/// Linux gives a GPU of AMD that works in the host's memory half of it as its translation table (GTT):
/// "default to half of ram to align with ttm" (kernel commit f7ba887f606b, 2022). AMD's amd-ttm prints a
/// default of 16469033 pages, 62.82 of 125.65 GiB. `ttm.pages_limit=N` on the kernel's command line makes it
/// N pages of 4 KiB (ROCm's page on the optimization of RDNA 3.5 systems); older kernels take
/// `amdgpu.gttsize`, in MiB.
inline constexpr double kGttShare = 0.5;

/// The part that a machine is taken to have whose SSD is not named.
inline constexpr std::string_view kUnnamedSsd = "pcie4-x4";

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
  /// What Linux lets a GPU of AMD take of `ram` where nothing was set (kGttShare); absent as above.
  std::optional<Bytes> gtt_share_of_ram() const;
  /// The cores that work beside the GPU: the CPU, or where none is named that of the GPU's chip.
  std::optional<CpuPart> cores() const;
  /// The SSD, or the one that is taken where none is named; it reads no faster than the board's slot.
  SsdPart ssd_in_slot() const;
  /// That the slot is slower than the SSD; empty where it is not, or nothing is said of it.
  std::string slot_note() const;
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

/// What people write of a machine, as text: empty, or not said. A part of a user's own is JSON
/// (held_part()).
struct MachineText {
  std::string gpu{};  // "rtx-4090-24gb"
  int gpus = 1;
  std::string cpu{};  // "Xeon Gold 6454S"
  int sockets = 1;
  std::string memory{};  // "ddr5-5600, 2 channels"
  std::string ram{};     // "64 GiB"
  std::string ssd{};
  bool readable = true;  // false: what a part of a user's own says could not be read, and was reported
};
/// Throws InputError that names the key: parts that are not known, memory that the CPU does not take, more
/// sockets than it works in, no processor at all.
MachineParts machine_of(const MachineText& text);

/// `{gpu: rtx-4090-24gb, gpus: 1, cpu: ryzen-9-7950x, sockets: 1, memory: ddr5-6000 x 2, ram: 64 GiB, ssd:
/// pcie4-x4}`; problems go to the map's document, at the key that they are of. In the place of a part's name
/// may stand a map of a user's own part, or the file that has it (held_part(); `base`: as there).
std::optional<MachineParts> read_machine(const YamlMap& map, const std::string& base = {});
/// The same, not yet put together.
MachineText read_machine_text(const YamlMap& map, const std::string& base = {});
/// With each part of a user's own as JSON. Throws as held_part().
MachineText held_machine(MachineText text);

}  // namespace moelab
