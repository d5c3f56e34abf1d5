// A device profile: what one machine can do, each number with where it is from. configs/devices/README.md
// describes the file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "models/curve.hpp"
#include "models/machine_identity.hpp"
#include "models/runtime_costs.hpp"
#include "models/units.hpp"

namespace moelab {

class YamlDocument;
class YamlMap;

/// Where a number is from. A profile lists its sources once and every number names one.
struct Source {
  enum class Kind { measured, datasheet, paper, derived, assumed, fitted };
  std::string name;  // key in the profile
  Kind kind = Kind::assumed;
  std::string text;  // command, date and machine; document; or the derivation
  bool operator==(const Source&) const = default;
};
std::string_view to_string(Source::Kind kind);

/// How a number swung while it was measured. In its base unit; of a curve or a list of factors that on its
/// values: {0.9, 1, 1.4} says that one measurement in ten took 1.4 times what the curve says, or more.
/// Shown in provenance, not simulated.
struct Spread {
  double p10 = 0, p50 = 0, p90 = 0;
  bool operator==(const Spread&) const = default;
};

/// A number, the profile key of its source and, where it was kept, its spread.
template <class T>
struct Sourced {
  T value{};
  std::string source;
  std::optional<Spread> spread{};
  bool operator==(const Sourced&) const = default;
};

/// A lossless codec for exponent planes, as it runs on this device's CPU threads.
struct CodecProfile {
  Sourced<double> ratio;  // compressed over plain size of an exponent plane
  /// On one thread: plain bytes a second, or seconds over the plain bytes of one chunk.
  std::variant<Sourced<BytesPerSecond>, Sourced<Curve>> decompress;

  /// Of a chunk of `plain` bytes on one thread.
  Seconds decompress_seconds(Bytes plain) const;
  bool operator==(const CodecProfile&) const = default;
};

/// BF16 experts of one shape, executed by the CPU: seconds over tokens, weights read once.
struct CpuExperts {
  int hidden = 0, width = 0, matrices = 0;
  Sourced<Curve> seconds;
  bool operator==(const CpuExperts&) const = default;
};

struct MemoryProfile {
  Sourced<Bytes> total;
  /// What the operating system and other programs hold: neither budget nor page cache.
  Sourced<Bytes> system_reserve;
  /// GPU streaming reads and writes, achievable. Present exactly when there is a GPU that shares this memory.
  std::optional<Sourced<BytesPerSecond>> bandwidth;
  /// What the memory controller moves for all its users together: storage, CPU, GPU. Executors that resolve
  /// shared capacity (simgrid) share it; `fast` has the slowdowns below alone. Absent: no limit.
  std::optional<Sourced<BytesPerSecond>> controller;
  bool operator==(const MemoryProfile&) const = default;
};

struct CpuProfile {
  Sourced<int> threads;       // cores that can decompress
  Sourced<Seconds> dispatch;  // hand-off cost of one operation to a thread or a queue
  /// Seconds over the elements of one tensor whose planes are joined. Present: recovery runs on the CPU.
  std::optional<Sourced<Curve>> recover;
  /// Of different shapes. Without a GPU all experts run here; with one, those that a system leaves to the
  /// CPU.
  std::vector<CpuExperts> experts;
  // Roofline of what the CPU computes and was not measured, as the GPU's: BF16 rate, streaming reads, and one
  // kernel's fixed cost. Of the cores that work on one expert together: one where `moelab calibrate`
  // measured, else as the sources say.
  std::optional<Sourced<FlopsPerSecond>> peak;
  std::optional<Sourced<BytesPerSecond>> bandwidth;
  std::optional<Sourced<Seconds>> dense_launch;
  /// [n - 1]: factor on each of n operations that the CPU does at once (decompression, recovery, experts and
  /// dense kernels where the CPU computes them, reads from the page cache); the last one grows linearly. The
  /// first is 1. Absent: they do not hinder each other.
  std::optional<Sourced<std::vector<double>>> sharing;
  /// Factor >= 1 on all that `sharing` is of while at least one read of the SSD is under way, which takes the
  /// CPU's time (most of all where storage is virtual); times those factors. Only beside `sharing`.
  /// Absent: 1.
  std::optional<Sourced<double>> slowdown_while_reading;
  bool operator==(const CpuProfile&) const = default;
};

struct SsdProfile {
  Sourced<Curve> read;                           // seconds over bytes of one read, cold, queue depth 1
  Sourced<double> slowdown_while_decompressing;  // factor >= 1 on reads while decompression runs
  Sourced<std::vector<double>>
      readers;  // [n - 1]: factor on each of n concurrent reads' time; {1, 2, ...}: fixed total rate
  bool operator==(const SsdProfile&) const = default;
};

struct PageCacheProfile {
  Sourced<Curve> read;  // seconds over bytes of one read served from the page cache
  bool operator==(const PageCacheProfile&) const = default;
};

/// Between the host's memory and the GPU's: seconds over the bytes of one transfer that has the link to
/// itself.
struct LinkProfile {
  Sourced<Curve> to_device, to_host;         // from and to host memory that is pinned
  std::optional<Sourced<Curve>> pageable{};  // to the device, from host memory that is not
  bool operator==(const LinkProfile&) const = default;
};

/// What a discrete GPU has to itself.
struct GpuMemory {
  Sourced<Bytes> total;
  Sourced<Bytes> reserve;             // what driver, context and framework hold of it
  Sourced<BytesPerSecond> bandwidth;  // streaming reads and writes, achievable; not of a stand-in
  LinkProfile link;
  bool operator==(const GpuMemory&) const = default;
};

/// A lossless code for BF16 weights that the GPU decodes from its own memory into it.
struct GpuCodecProfile {
  Sourced<double> ratio;         // stored over plain size of whole weights
  Sourced<BytesPerSecond> rate;  // plain bytes made ready, with the GPU to itself
  /// Stored over plain size of the exponents, half of the bytes, where it codes these alone; at most 0: it
  /// does more than that.
  double exponent_ratio() const { return 2 * ratio.value - 1; }
  bool operator==(const GpuCodecProfile&) const = default;
};

/// Sums up `bytes` on each of `gpus` GPUs: seconds over the bytes of one GPU.
struct AllReduceProfile {
  int gpus = 0;
  Sourced<Curve> seconds;
  bool operator==(const AllReduceProfile&) const = default;
};

/// GPUs of the same kind in one machine, each with a link of its own.
struct NodeProfile {
  Sourced<int> gpus;
  std::vector<AllReduceProfile> all_reduce;  // by rising gpus
  bool operator==(const NodeProfile&) const = default;
};

struct GpuProfile {
  // Not of a stand-in.
  Sourced<FlopsPerSecond> peak;      // dense BF16 matrix rate
  Sourced<double> flops_efficiency;  // achievable share of peak
  Sourced<Seconds> launch;           // one kernel launch
  std::optional<GpuMemory> own{};    // absent: an integrated GPU, which works in the host's memory
  /// No real GPU: a part of the host's memory set apart (`own`), copies by the CPU in place of a link, and
  /// the CPU computes, as `cpu` says. For validating what runs on discrete GPUs where there is none.
  bool stand_in = false;
  // Of a GPU with memory of its own; a stand-in has no node.
  std::map<std::string, GpuCodecProfile> codecs{};
  /// Seconds to back `bytes` of address space with other physical memory (cuMemMap and its like; of a
  /// stand-in, what moves pages of the process).
  std::optional<Sourced<Curve>> remap{};
  std::optional<NodeProfile> node{};  // absent: one GPU
  bool operator==(const GpuProfile&) const = default;
};

/// The account that a profile keeps of where its numbers are from.
struct SourcedNumbers {
  std::map<std::string, Source> sources;
  /// Every number's path, its source and spread, in the profile's order: "ssd.read: paper (...)".
  std::vector<std::string> provenance;
  /// True when any number that a simulation uses was not measured on the thing itself.
  bool unmeasured = false;
  bool operator==(const SourcedNumbers&) const = default;
};

struct DeviceProfile : SourcedNumbers {
  std::string name;  // "jetson-agx-orin-64gb"
  std::string title;
  std::optional<MeasuredOn> measured_on;

  MemoryProfile memory;
  CpuProfile cpu;
  SsdProfile ssd;
  PageCacheProfile page_cache;
  std::map<std::string, CodecProfile> codecs;
  std::optional<GpuProfile> gpu;  // absent: recovery, experts and dense kernels run on the CPU
  /// What the software that runs on it costs (with_runtime()); absent: nothing but what the profile says of
  /// launches. Not a part of profile files.
  std::optional<RuntimeCosts> software;

  /// Whether there is a GPU with memory of its own; `memory` is then the host's.
  bool is_discrete() const { return gpu && gpu->own; }
  bool has_stand_in() const { return gpu && gpu->stand_in; }
  /// What a budget may take: of the memory that the GPU computes from, less what others hold of it.
  Bytes usable_memory() const {
    return is_discrete() ? gpu->own->total.value - gpu->own->reserve.value
                         : memory.total.value - memory.system_reserve.value;
  }

  bool operator==(const DeviceProfile&) const = default;

  // Compiled once: copying the members is most of what a source that takes one by value compiles.
  DeviceProfile();
  DeviceProfile(const DeviceProfile&);
  DeviceProfile(DeviceProfile&&) noexcept;
  DeviceProfile& operator=(const DeviceProfile&);
  DeviceProfile& operator=(DeviceProfile&&) noexcept;
  ~DeviceProfile();
};

/// What is wrong with reads of an SSD that a slip of a unit makes as fast as hundreds of drives, or slower
/// than a disk; empty where nothing is.
std::string implausible_reads(const Curve& ssd);

DeviceProfile read_device(const YamlDocument& document);
DeviceProfile read_device(const YamlMap& root);
/// By name or path, through the configuration store. Throws InputError.
DeviceProfile load_device(std::string_view name, const std::string& base = {});

/// Where a profile says that it was measured against where it is used: one sentence for each difference,
/// none when both are the same machine with the same software. A profile that does not say is one.
std::vector<std::string> machine_differences(const DeviceProfile& profile, const MachineIdentity& here);
bool same_machine(const DeviceProfile& profile, const MachineIdentity& here);

}  // namespace moelab
