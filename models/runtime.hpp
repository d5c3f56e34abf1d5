// What a runtime costs apart from the machine: launches, synchronisation, and which share of a data sheet's
// bandwidth and peak its kernels get (configs/runtimes/*.yaml).
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/device.hpp"
#include "models/part.hpp"
#include "models/runtime_costs.hpp"
#include "models/weight_format.hpp"

namespace moelab {

class YamlMap;

/// What is different on one generation of GPUs (GpuPart::generation), or on those whose names begin so
/// ("a100" is "a100-80gb" and "a100-40gb-pcie"): a factor on the runtime's slowdown, and constants in the
/// place of its own.
struct RuntimeClass {
  double slowdown = 1;
  std::size_t own = 1;  // values that its runtime's own file gives; 0: all are of one that it stands on
  std::vector<std::pair<double RuntimeCosts::*, double>> constants = {};
  bool operator==(const RuntimeClass&) const = default;
};

/// Which GGUF files it reads, where not all.
struct GgufLimits {
  std::vector<std::string> types;  // as in "gguf-q4_k_m"; empty: all
  std::string types_source;        // what says so
  int width_multiple = 1;          // the experts' width is one of it
  std::string width_source;
};

/// A fault that users met with some models and that is open.
struct RuntimeCaveat {
  std::vector<std::string> models;  // of which the name begins so
  std::string weights;              // the format's name begins so: "gguf"
  std::string what;                 // what happens, and who says so
  bool concerns(std::string_view model, std::string_view format) const;
};

struct Runtime : SourcedNumbers, RuntimeCosts {
  std::string name;      // "llama.cpp-cuda"
  std::string title;     // "llama.cpp (CUDA)"
  std::string based_on;  // the runtime whose constants it takes where it has none of its own; empty: none
  std::map<std::string, RuntimeClass> classes;  // by generation of the GPU, or the begin of its name
  GgufLimits gguf;                              // its own, and those of the runtime that it stands on
  std::vector<RuntimeCaveat> caveats;           // likewise

  /// The name of a GPU's class: of those that its name begins with the longest, else its generation's. Empty:
  /// none.
  std::string class_of(const GpuPart& gpu) const;
  /// That class, and those of it for weights stored so ("a100/mxfp4": what is in the format's name).
  std::vector<const RuntimeClass*> classes_of(const GpuPart& gpu, const StoredWeights& stored) const;
  /// What it costs on that GPU with weights stored so: launches times the slowdown, shares of the GPU's peak
  /// over it; of products of quantised weights more than the peak, which is that of 16 bits, where the GPU
  /// has faster 8-bit products and the runtime takes them.
  RuntimeCosts on(const std::optional<GpuPart>& gpu, const StoredWeights& stored) const;

  /// What Runtime's constants are called in files, their unit and what they mean.
  struct Constant {
    std::string_view name;
    double RuntimeCosts::*value;
    enum class Unit { share, seconds, count, bytes } unit;
    double low, high;
    std::string_view what;
    bool optional = false;  // may be absent everywhere: then as RuntimeCosts has it
  };
  static std::span<const Constant> constants();
  /// Constants of its own that were fitted to published runs (their source is called `world`), not taken from
  /// elsewhere.
  std::vector<const Constant*> fitted() const;
  std::vector<std::string> own;             // names of the constants that its own file gives
  std::vector<std::string> sources_of_own;  // by those, the keys of their sources
};

/// Where a runtime's numbers are from, a line each, those of the runtimes that it stands on too.
std::vector<std::string> runtime_provenance(const Runtime& runtime);

/// `folder`: of the file that `root` is in; a path in `based_on` is looked for there first.
Runtime read_runtime(const YamlMap& root, const std::string& folder = "");
/// By name or path, through the configuration store. Throws InputError.
Runtime load_runtime(std::string_view name, const std::string& base = {});

}  // namespace moelab
