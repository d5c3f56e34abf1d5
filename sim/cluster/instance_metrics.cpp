#include "sim/cluster/instance_metrics.hpp"

#include <algorithm>
#include <numeric>

namespace moelab {

std::string to_string(InstanceKind kind) {
  switch (kind) {
    case InstanceKind::prefill:
      return "prefill";
    case InstanceKind::decode:
      return "decode";
    case InstanceKind::colocated:
      break;
  }
  return "colocated";
}

std::string busiest_of_all(const std::string& name, std::size_t instances) {
  return name + ", the busiest of " + std::to_string(instances) + " instances";
}

double InstanceResult::served_s() const {
  return std::accumulate(stall_s.begin(), stall_s.end(), 0.0);
}

std::vector<std::size_t> InstancesResult::busiest() const {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    const auto same = std::ranges::find_if(
        places, [&](std::size_t place) { return servers[place].kind == servers[i].kind; });
    if (same == places.end())
      places.push_back(i);
    else if (servers[i].served_s() > servers[*same].served_s())
      *same = i;
  }
  std::ranges::stable_sort(
      places, [&](std::size_t a, std::size_t b) { return servers[a].served_s() > servers[b].served_s(); });
  return places;
}

std::size_t InstancesResult::count(InstanceKind kind) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(servers, [&](const InstanceResult& one) { return one.kind == kind; }));
}

std::string InstancesResult::busiest_words(std::size_t place) const {
  const InstanceResult& one = servers.at(place);
  if (servers.size() > 1 && place == busiest().front()) return busiest_of_all(one.name, servers.size());
  const std::size_t alike = count(one.kind);
  if (alike < 2 || servers.size() == alike) return one.name;
  return one.name + ", the busiest of " + std::to_string(alike) +
         (one.kind == InstanceKind::prefill ? " that run prompts" : " that decode");
}

}  // namespace moelab
