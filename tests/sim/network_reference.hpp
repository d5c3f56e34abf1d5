// Flows over a star or mesh, worked out by recurrences that share no code with the engine: at every instant
// all rates anew, then time moves on to the next start or end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

#include "sim/engine/network.hpp"

namespace moelab::test {

struct NaiveFlow {
  engine::NodeId from = 0, to = 0;
  double start_s = 0, bytes = 0;
};

/// The links that each flow crosses, by number, and their bandwidths.
struct NaiveLinks {
  std::vector<double> bandwidth;
  std::vector<std::vector<std::size_t>> crossed;

  NaiveLinks(const engine::NetworkLaw& law, const std::vector<NaiveFlow>& flows) {
    const std::size_t n = law.nodes.size();
    if (law.topology == engine::NetworkLaw::Topology::star) {
      for (const auto& node : law.nodes) bandwidth.push_back(node.out);
      for (const auto& node : law.nodes) bandwidth.push_back(node.in);
      for (const NaiveFlow& f : flows) crossed.push_back({f.from, n + f.to});
    } else {
      for (const auto& from : law.nodes)
        for (const auto& to : law.nodes) bandwidth.push_back(std::min(from.out, to.in));
      for (const NaiveFlow& f : flows) crossed.push_back({f.from * n + f.to});
    }
  }
};

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// Max-min by progressive filling: all rates rise together; a flow stops when a link that it crosses is full.
inline std::vector<double> max_min_rates(const NaiveLinks& links, const std::vector<bool>& active) {
  std::vector<double> rate(active.size(), 0), room = links.bandwidth;
  std::vector<bool> rises = active;
  while (std::find(rises.begin(), rises.end(), true) != rises.end()) {
    std::vector<double> rising(room.size(), 0);
    for (std::size_t f = 0; f < rate.size(); ++f)
      if (rises[f])
        for (const std::size_t l : links.crossed[f]) rising[l] += 1;
    std::size_t fullest = 0;
    double step = std::numeric_limits<double>::infinity();
    for (std::size_t l = 0; l < room.size(); ++l)
      if (rising[l] > 0 && room[l] / rising[l] < step) step = room[fullest = l] / rising[l];
    for (std::size_t l = 0; l < room.size(); ++l) room[l] -= step * rising[l];
    room[fullest] = 0;
    for (std::size_t f = 0; f < rate.size(); ++f) {
      if (!rises[f]) continue;
      rate[f] += step;
      for (const std::size_t l : links.crossed[f])
        if (room[l] < kNoLimit && room[l] <= 1e-12 * links.bandwidth[l]) rises[f] = false;
    }
  }
  return rate;
}

/// The least share of the links that are crossed.
inline std::vector<double> fair_rates(const NaiveLinks& links, const std::vector<bool>& active) {
  std::vector<double> rate(active.size(), 0), users(links.bandwidth.size(), 0);
  for (std::size_t f = 0; f < active.size(); ++f)
    if (active[f])
      for (const std::size_t l : links.crossed[f]) users[l] += 1;
  for (std::size_t f = 0; f < active.size(); ++f) {
    if (!active[f]) continue;
    rate[f] = std::numeric_limits<double>::infinity();
    for (const std::size_t l : links.crossed[f]) rate[f] = std::min(rate[f], links.bandwidth[l] / users[l]);
  }
  return rate;
}

using Rates = std::function<std::vector<double>(const NaiveLinks&, const std::vector<bool>&)>;

/// Ends of the flows. The bandwidths are those of `law` until `change_s` and those of `then` from there on.
inline std::vector<double> naive_ends(const engine::NetworkLaw& law, const std::vector<NaiveFlow>& flows,
                                      const Rates& rates_of, const engine::NetworkLaw* then = nullptr,
                                      double change_s = std::numeric_limits<double>::infinity()) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  NaiveLinks links(law, flows);
  std::vector<double> left, ends(flows.size(), -1);
  for (const NaiveFlow& f : flows) left.push_back(f.bytes);
  std::vector<bool> active(flows.size(), false);
  double now = 0;
  for (std::size_t done = 0; done < flows.size();) {
    for (std::size_t f = 0; f < flows.size(); ++f) active[f] = ends[f] < 0 && flows[f].start_s <= now;
    const std::vector<double> rate = rates_of(links, active);
    double next = now < change_s ? change_s : kNever;
    for (std::size_t f = 0; f < flows.size(); ++f)
      if (active[f])
        next = std::min(next, now + left[f] / rate[f]);
      else if (ends[f] < 0)
        next = std::min(next, flows[f].start_s);
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (!active[f]) continue;
      left[f] -= rate[f] * (next - now);
      if (left[f] > 1e-12 * flows[f].bytes) continue;
      ends[f] = next;
      ++done;
    }
    now = next;
    if (now >= change_s && then != nullptr) links = NaiveLinks(*then, flows);
  }
  return ends;
}

}  // namespace moelab::test
