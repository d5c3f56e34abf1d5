// Runs at a request rate, as `moelab load` and `moelab tune workload.arrivals_per_s` both ask for them: how
// many requests a run has, whether it kept up with them, and which rate seeds that differ come to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/serving/metrics.hpp"

namespace moelab {

struct WorkloadConfig;

/// Of a run of drawn requests: of fewer, half of which come in the second half, chance decides too much.
inline constexpr std::uint32_t kLeastRequests = 2000;

/// The second half of a run is to last so many times what a request stays for: shorter, it ends before it has
/// met what more requests would. A choice; docs/serving-node.md has what shorter and longer runs find.
inline constexpr double kResidences = 10;
/// Requests of a run whose second half lasts kResidences, of a system that has `in_service` at once, on
/// average, when it does what it can (Little: its rate times what they stay for). kLeastRequests at least.
std::uint64_t requests_to_settle(double in_service);

/// Runs at a rate, each with a seed of its own, where no other number is asked for.
inline constexpr std::uint64_t kRateSeeds = 3;

/// What workload.requests is set to: what was asked for (0: nothing), else kLeastRequests where the scenario
/// draws fewer; nothing where its own number stands, or its log's or trace's.
std::optional<std::uint64_t> requests_at_rate(const WorkloadConfig& as_read, std::uint64_t asked);
/// Of so many seeds, those that must keep up and meet what is asked at a rate: the median of their highest
/// rates (of an even number the lower one of the middle) is the highest rate at which so many do.
std::size_t seeds_that_decide(std::size_t seeds);

/// What a run's requests came to while they came. The half is of the time from the first arrival to the last
/// of those that are measured; what is counted there is counted whenever it came.
struct Backlog {
  std::uint64_t came = 0;  // in the second half
  std::uint64_t started =
      0;  // in the second half: the first pass that ran some of it began, or it was dropped
  std::uint64_t answered = 0;  // in the second half
  /// Of those that came in the second half: from the arrival to that pass; below 0: none of them was
  /// answered.
  double least_wait_s = -1;
  double half_s = 0;       // the second half
  double residence_s = 0;  // median of answered requests, from the first pass to the last token
};
Backlog backlog_of(const std::vector<RequestTimes>& requests);
/// Of a cluster, of each server that served some, in the order of their numbers, in the same second half:
/// that of all measured requests. Of one machine, one.
std::vector<Backlog> backlogs_of(const std::vector<RequestTimes>& requests);

/// steady: it keeps up. saturated: requests come faster than it takes them. unsettled: requests stay for so
/// long, or come for so short a time, that the run says nothing of what more of them would meet.
enum class LoadVerdict : std::uint8_t { steady, saturated, unsettled };
std::string to_string(LoadVerdict verdict);

/// Of one run: unsettled where the second half does not last four median residences. Else saturated
/// where a queue stood through all of the second half, so that what was started there is what the system can
/// take, and that is less than what is offered: `rate` requests a second, or, of a log (no rate), as many as
/// came. A queue stood where also the least wait is long (kStandingShare of the residence): of a system that
/// keeps up some request comes just before a pass that takes it (as CoDel tells a standing queue: Nichols and
/// Jacobson, 2012). Saturated, too, where what is under way piles up in a batch that is not full yet: more
/// are started than answered, by more than 5 % and than chance, three standard deviations of the two numbers.
LoadVerdict verdict_of(const Backlog& backlog, std::optional<double> rate);
inline constexpr double kStandingShare = 0.05;  // as CoDel's target is of its interval: 5 ms of 100 ms
/// Of one run on several servers: unsettled where one of them is. Else saturated where servers to which more
/// than a tenth of the requests came are (kSaturatedShare), whatever the others have to spare: what is
/// offered to one is what came to it. Of many servers chance has some look so; a single one that few use
/// counts only where it started fewer than came by more than two standard deviations of what came.
LoadVerdict verdict_of_servers(const std::vector<Backlog>& servers, std::optional<double> rate);
inline constexpr double kSaturatedShare = 0.1;  // a choice, as the two deviations are: measured by nothing
/// Of runs at the same rate with other seeds: unsettled where one of them is, steady where as many are as
/// decide (seeds_that_decide).
LoadVerdict verdict_of_seeds(const std::vector<LoadVerdict>& runs);
/// What `rate` is there: where requests are drawn the rate at which they are, nothing where a log or a trace
/// says when they come.
std::optional<double> offered_rate(const WorkloadConfig& workload, double drawn_at);

}  // namespace moelab
