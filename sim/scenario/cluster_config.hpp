// What a scenario says of a cluster: its servers, the tasks their users bring, and what goes wrong when.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/architecture.hpp"
#include "models/cluster.hpp"
#include "sim/scenario/workload_config.hpp"

namespace moelab {

class Problems;
class YamlMap;

/// Drawn evenly from low to high, both included.
struct TokenRange {
  std::uint32_t low = 1, high = 1;
};

/// A kind of requests: how long they are, and whose experts they use.
struct TaskConfig {
  std::string name;
  TokenRange prompt, output;  // of requests that are drawn
  std::string domain;         // of the counts file; the task's name where the file does not say
  std::string trace_file{};   // of recorded requests, which its users bring as they were; "": drawn
};

/// A server's users for so many requests: by task, its share of them; sums to 1.
struct LoadPhase {
  std::uint32_t requests = 0;
  std::vector<double> shares;
};

/// What one server's users ask.
struct ServerLoad {
  std::vector<LoadPhase> phases;   // one after the other; none: no users ask
  std::vector<double> history;     // by task: what the first placement is made from
  double arrivals_per_s = 0;       // of a Poisson process; 0: all are there from the start
  std::string request_log;         // "": lengths as the tasks say
  std::vector<RequestRecord> log;  // what it holds
};

/// Something that goes wrong, or right again. A group's is one for each of its servers.
struct FaultEvent {
  enum class Kind : std::uint8_t { leaves, returns, bandwidth };
  double at_s = 0;
  Kind kind = Kind::leaves;
  std::size_t server = 0;
  BytesPerSecond bandwidth{};  // of its network interface from then on, both ways
};

/// Servers that leave and come back at random: exponential times with these means.
struct FaultRates {
  Seconds leaves_every;  // of each server
  Seconds returns_after;
};

struct ClusterConfig {
  ClusterProfile profile;
  std::vector<TaskConfig> tasks;          // one at least
  std::vector<ServerLoad> loads;          // by server
  std::vector<std::string> request_logs;  // by entry of workload.servers, as ServerLoad::request_log
  /// Whose experts the tasks use: counts by domain, or drawn: all tasks share one popularity of experts, of
  /// which each has so much of its own.
  std::string counts_file;
  double own_popularity = 0;
  std::vector<FaultEvent> faults;  // by rising time
  std::optional<FaultRates> fault_rates;

  // Compiled once: copying the members is most of what a source that takes one by value compiles.
  ClusterConfig();
  ClusterConfig(const ClusterConfig&);
  ClusterConfig(ClusterConfig&&) noexcept;
  ClusterConfig& operator=(const ClusterConfig&);
  ClusterConfig& operator=(ClusterConfig&&) noexcept;
  ~ClusterConfig();
};

/// Reads the section `workload` of a scenario with a cluster into `workload` and `cluster`, whose profile is
/// there already.
void read_cluster_workload(const YamlMap& root, const std::string& base, Problems& problems,
                           WorkloadConfig& workload, ClusterConfig& cluster);
/// Reads the section `faults`, if there is one.
void read_faults(const YamlMap& root, ClusterConfig& cluster);

}  // namespace moelab
