// Several servers of one system behind one address (system key `instances`), each of which is the scenario's
// machine: alike, or those that run prompts and those that go on with the answers (disaggregated prefill).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/units.hpp"

namespace moelab {

class YamlMap;
class YamlNode;
struct Scenario;
struct SystemConfig;

/// What a request's KV cache crosses from the instance that ran its prompt.
struct KvLink {
  BytesPerSecond bandwidth;  // of each GPU, out of a prefilling instance and into a decoding one
  Seconds latency;           // before each request's bytes
  std::string source;
};

struct InstancesConfig {
  std::uint32_t colocated = 0;            // that run prompts and decode; else 0, and the next two are not
  std::uint32_t prefill = 0, decode = 0;  // that run prompts; that go on behind the first token
  KvLink link;                            // between these

  std::uint32_t count() const { return colocated + prefill + decode; }
  bool disaggregated() const { return prefill > 0; }
  /// "decode1": instances are numbered from 0 on, those that run prompts first.
  std::string name(std::uint32_t number) const;
};

/// The section `instances` of a system that has paging; nullopt where there is none.
std::optional<InstancesConfig> read_instances(const YamlMap& root);
/// What the system and the workload must be like for that; problems at `where`.
void check_instances(const SystemConfig& system, const Scenario& scenario, const YamlNode& where);

}  // namespace moelab
