#include "sim/results/latency_causes.hpp"

#include <algorithm>
#include <numeric>

#include "sim/results/cause_words.hpp"

namespace moelab {
namespace {

struct Absence {
  double from_s = 0, to_s = 0;
};

/// When a server was away, in order; to the end of the run where it did not return.
std::vector<Absence> absences_of(const RunResult& r, const std::string& server) {
  std::vector<Absence> absences;
  bool away = false;
  for (const FaultRecord& fault : r.cluster.faults) {
    if (fault.server != server) continue;
    if (fault.event == "leaves" && !away) {
      absences.push_back({fault.at_s, r.metrics.wall_s});
      away = true;
    } else if (fault.event == "returns" && away) {
      absences.back().to_s = fault.at_s;
      away = false;
    }
  }
  return absences;
}

double away_between(const std::vector<Absence>& absences, double from_s, double to_s) {
  double seconds = 0;
  for (const Absence& absence : absences)
    seconds += std::max(0.0, std::min(to_s, absence.to_s) - std::max(from_s, absence.from_s));
  return seconds;
}

}  // namespace

LatencySums latency_sums(const RunResult& r) {
  std::vector<std::vector<Absence>> absences;
  for (const ServerResult& server : r.cluster.servers) absences.push_back(absences_of(r, server.name));
  LatencySums sums;
  for (const RequestTimes& request : r.metrics.requests) {
    if (!request.answered()) continue;
    const double away_s = away_between(absences.at(request.server), request.arrival_s, request.started_s);
    sums.away_s += away_s;
    sums.queued_s += std::max(0.0, request.started_s - request.arrival_s - away_s);
    sums.served_s += request.end_s - request.started_s;
  }
  return sums;
}

std::vector<std::pair<std::string, double>> latency_causes(const RunResult& r) {
  std::vector<std::pair<std::string, double>> causes;
  if (r.cluster.servers.empty()) return causes;
  const LatencySums sums = latency_sums(r);
  if (sums.away_s > 0) causes.emplace_back(kAwayCause, sums.away_s);
  if (sums.queued_s > 0) causes.emplace_back(kQueueCause, sums.queued_s);
  const auto& stall_s = r.metrics.stall_s;
  const double stalls = std::accumulate(stall_s.begin(), stall_s.end(), 0.0);
  for (std::size_t c = 0; c < kCauses; ++c)
    if (stall_s[c] > 0 && sums.served_s > 0)
      causes.emplace_back(kCauseNames[c], sums.served_s * (stall_s[c] / stalls));
  return causes;
}

}  // namespace moelab
