// What a scenario's servers are asked to do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/law/routing_law.hpp"
#include "traces/requests.hpp"

namespace moelab {

class Problems;
class YamlMap;

/// The most requests, tokens or the like that a scenario may ask for.
inline constexpr std::int64_t kMostCounted = 1'000'000;

/// What the gaps between requests that come at a rate are like.
struct ArrivalsConfig {
  enum class Process : std::uint8_t { poisson, gamma, fixed };
  Process process = Process::poisson;
  double burstiness = 1;  // of gamma: its shape; below 1 burstier than Poisson, above 1 more even
};

struct WorkloadConfig {
  std::uint32_t batch = 1;  // requests that run at once; with data parallelism on each GPU
  std::uint32_t requests = 1;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;                        // the first one included
  std::string trace_file;                                 // "": generated
  std::uint32_t trace_requests = 0;                       // of it, from its first; 0: all
  double skew = 0, reuse = 0, drift = 0, gate_decay = 0;  // of the generator
  bool has_parameters = false;  // at least one of these four is said, not left at what the generator has
  bool has_law =
      false;  // in the generator's place: drawn from `law`, at the model's sizes. A workload that
              // says nothing of its routing gets its model's (law_of_model()) when its model is known
  std::string law_file;  // where the law is from, as messages show it; "": by rule
  RoutingLaw law;

  bool prefilled = false;  // prompts are run elsewhere: their keys and values come with the requests
  /// 0: all requests are there from the start, or, of systems without a batching policy, each batch comes
  /// when the one before is done.
  double arrivals_per_s = 0;
  ArrivalsConfig arrivals;         // of these
  std::string request_log;         // "": `requests` of the lengths above
  std::vector<RequestRecord> log;  // what it holds, `speed` times as fast or at `rate` requests a second

  // Compiled once: copying the members is most of what a source that takes one by value compiles.
  WorkloadConfig();
  WorkloadConfig(const WorkloadConfig&);
  WorkloadConfig(WorkloadConfig&&) noexcept;
  WorkloadConfig& operator=(const WorkloadConfig&);
  WorkloadConfig& operator=(WorkloadConfig&&) noexcept;
  ~WorkloadConfig();
};

/// Reads a scenario's section `workload`. Files that it names are relative to `base`, or to the working
/// folder; what is wrong with them goes to `problems` too.
WorkloadConfig read_workload(const YamlMap& root, const std::string& base, Problems& problems);

/// The requests of a log a second: of n requests n - 1 in the time from the first to the last. 0 where all
/// come at the same moment.
double rate_of_log(const std::vector<RequestRecord>& log);
/// The log with each arrival `times` as late.
void stretch_log(std::vector<RequestRecord>& log, double times);

/// The path of a file that a scenario in folder `base` names: within that folder where it is there.
std::string named_file(const std::string& name, const std::string& base);

}  // namespace moelab
