// A device profile: what one machine can do, each number with where it is from.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/curve.hpp"
#include "models/units.hpp"
#include "models/yaml_reader.hpp"

namespace moelab {

/// Where a number is from. A profile lists its sources once and every number names one.
struct Source {
  enum class Kind { measured, datasheet, paper, derived, assumed };
  std::string name;  // key in the profile
  Kind kind = Kind::assumed;
  std::string text;  // command, date and machine; document; or the derivation
};
std::string_view to_string(Source::Kind kind);

/// A number and the profile key of its source.
template <class T>
struct Sourced {
  T value{};
  std::string source;
};

/// A lossless codec for exponent planes, as it runs on this device's CPU threads.
struct CodecProfile {
  Sourced<double> ratio;               // compressed over plain size of an exponent plane
  Sourced<BytesPerSecond> decompress;  // plain bytes a second and thread
};

struct DeviceProfile {
  std::string name;  // "jetson-agx-orin-64gb"
  std::string title;
  std::map<std::string, Source> sources;

  struct {
    Sourced<Bytes> total;
    Sourced<Bytes>
        system_reserve;  // what the operating system and other programs hold: neither budget nor page cache
    Sourced<BytesPerSecond> bandwidth;  // GPU streaming reads and writes, achievable
    /// What the memory controller moves for all its users together: storage, CPU, GPU. Executors that resolve
    /// shared capacity (simgrid) share it; `fast` has the slowdowns below instead. Absent: no limit.
    std::optional<Sourced<BytesPerSecond>> controller;
  } memory;
  struct {
    Sourced<int> threads;       // cores that can decompress
    Sourced<Seconds> dispatch;  // hand-off cost of one operation to a thread or a queue
  } cpu;
  struct {
    Sourced<Curve> read;                           // seconds over bytes of one read, cold, queue depth 1
    Sourced<double> slowdown_while_decompressing;  // factor >= 1 on reads that start while decompression runs
    Sourced<std::vector<double>>
        readers;  // [n - 1]: factor on each of n concurrent reads' time; {1, 2, ...}: fixed total rate
  } ssd;
  struct {
    Sourced<Curve> read;  // seconds over bytes of one read served from the page cache
  } page_cache;
  std::map<std::string, CodecProfile> codecs;
  struct {
    Sourced<FlopsPerSecond> peak;      // dense BF16 matrix rate
    Sourced<double> flops_efficiency;  // achievable share of peak
    Sourced<Seconds> launch;           // one kernel launch
  } gpu;

  /// Every number's path and its source, in the profile's order: "ssd.read: paper (...)".
  std::vector<std::string> provenance;
  /// True when any number that a simulation uses was not measured on the device itself.
  bool unmeasured = false;
};

DeviceProfile read_device(const YamlDocument& document);
/// By name or path, through the configuration store. Throws InputError.
DeviceProfile load_device(std::string_view name, const std::filesystem::path& base = {});

}  // namespace moelab
