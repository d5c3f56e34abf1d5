// What a scenario's servers are asked to do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/scenario/request_mix.hpp"
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
  /// The rate goes from one value to another, as much each second, and stays there.
  struct Ramp {
    double from = 0, to = 0;  // requests a second, above 0
    double over_s = 0;        // 0: in the time in which all requests come, 2 n / (from + to)
  };
  std::optional<Ramp> ramp = {};
};

/// Users of which each sends its next request a think time after the answer to the one before.
struct ClosedLoop {
  std::uint32_t users = 1;
  double think_s = 0;        // its mean
  bool exponential = false;  // think times; else all are the same
};

/// What of a run its statistics leave out: requests that come early or late.
struct LeftOutEnds {
  /// A part of them: those that come within so many seconds, or so many requests.
  struct Part {
    double seconds = 0;
    std::uint64_t requests = 0;
  };
  std::optional<Part> warm_up = {};    // seconds from the run's begin
  std::optional<Part> cool_down = {};  // seconds before the last request comes
  bool any() const { return warm_up || cool_down; }
};

struct WorkloadConfig {
  std::uint32_t batch = 1;  // requests that run at once; with data parallelism on each GPU
  std::uint32_t requests = 1;
  std::uint32_t prompt_tokens = 0;                        // of each; 0: as `mix` or a log says
  std::uint32_t output_tokens = 0;                        // the first one included; likewise
  std::vector<RequestClass> mix;                          // from which lengths are drawn; empty: none are
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
  ArrivalsConfig arrivals;                // of these
  std::optional<ClosedLoop> closed_loop;  // in their place
  LeftOutEnds left_out;                   // of the statistics
  std::string request_log;                // "": `requests` of the lengths above
  std::vector<RequestRecord> log;  // what it holds, `speed` times as fast or at `rate` requests a second
  std::string pace_key;            // which of these two the workload has; "": none

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

/// Whether a workload's requests are of classes that have names.
inline bool has_classes(const WorkloadConfig& w) {
  return !w.mix.empty() && !w.mix.front().name.empty();
}
/// Names of the classes that a workload's requests are of, in order; none where they have no names.
std::vector<std::string> class_names(const WorkloadConfig& w);
/// Whether any of its requests go on with a conversation, so that they come when others are answered.
bool has_conversations(const WorkloadConfig& w);
/// Whether it says what its prompts have in common.
bool shares_prefixes(const WorkloadConfig& w);
/// Whether some of its requests go before others by their priorities.
bool has_priorities(const WorkloadConfig& w);
/// Whether it says when its requests come: at a rate, by a log, or when users send them. The times of a trace
/// are none.
bool says_arrivals(const WorkloadConfig& w);

/// The requests of a log a second: of n requests n - 1 in the time from the first to the last. 0 where all
/// come at the same moment.
double rate_of_log(const std::vector<RequestRecord>& log);
/// The log with each arrival `times` as late.
void stretch_log(std::vector<RequestRecord>& log, double times);

/// The path of a file that a scenario in folder `base` names: within that folder where it is there.
std::string named_file(const std::string& name, const std::string& base);

}  // namespace moelab
