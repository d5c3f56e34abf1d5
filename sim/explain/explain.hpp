// Why a run took as long as it did, and what would change that: from its result and from simulating it again.
//
// A result carries its whole scenario. That is run again as it is, which shows whether this program still
// gives that result; then with one kind of resources at a time infinitely fast; then with its cache replaced
// by the policy family's ceiling (belady, which knows the future) and floor (none). Policies decide as they
// did and plans count on the times they counted on, so each is the bound of what a faster part alone brings.
// Making one faster can make the whole slower: the engine starts what is ready, and another order may come of
// it (Graham, Bounds on multiprocessing timing anomalies, 1969). Then the gain is below 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/explain/result_file.hpp"

namespace moelab {

/// A figure that is not what the file says.
struct ChangedFigure {
  std::string path;
  double was = 0, is = 0;
};

/// A kind of resources, how busy it was, and the run with all of it infinitely fast.
struct FreedResource {
  std::string kind;
  double slots = 1;   // of all resources of the kind; infinity: any number at once
  double busy_s = 0;  // in the run as it was, summed over slots
  ResultFile result;
};

/// The run with another cache policy.
struct CacheReference {
  std::string policy;
  std::string refused;  // why there is none; "": there is one
  std::optional<ResultFile> result;
};

/// The runs with routing at both ends of how well it is known: LRU's hit rates lower and higher by so much.
struct RoutingRange {
  std::string routing;  // routing_title() of the run as it was
  double points = 0;    // 0.02: two points of a hit rate
  ResultFile lower, higher;
};

struct Explanation {
  ResultFile given;
  bool ran = true;   // false: it did not fit, and there is nothing below
  ResultFile again;  // as this program has it
  std::vector<ChangedFigure> changed;
  std::vector<std::string> changed_data;   // files whose bytes are not what they were
  std::string version;                     // this program's
  std::vector<FreedResource> freed;        // which brings most first
  std::string cache;                       // its policy; "": it keeps experts by none
  std::vector<CacheReference> references;  // belady, none
  std::optional<RoutingRange> routing;  // where the routing is drawn from a law that says how near it comes
};

/// Seconds that a run is judged by: its time per output token, or where no request has a second one, its
/// whole time.
double judged_seconds(const ResultFile& result);

/// How far an explanation is.
struct ExplainProgress {
  std::string what;                   // "with link infinitely fast"
  std::size_t run = 0, runs = 0;      // the run's number from 1, and of how many; 0: not known yet
  std::uint64_t tokens = 0, all = 0;  // that the run has generated, of those that it will; 0, 0 as it begins
};

/// Throws InputError for a scenario that this program cannot run.
Explanation explain(const ResultFile& result,
                    const std::function<void(const ExplainProgress&)>& progress = {});

}  // namespace moelab
