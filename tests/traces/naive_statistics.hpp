// Figures of routing worked out from their definitions, token by token and set by set.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "tests/traces/random_traces.hpp"

namespace moelab::test {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Set = std::vector<std::uint16_t>;
using Requests = std::vector<std::vector<Set>>;

inline bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::abs(a - b) < 1e-9;
}

inline double ratio(double a, double b) {
  return b == 0 ? kNaN : a / b;
}

inline bool among(std::uint16_t e, const Set& set) {
  return std::find(set.begin(), set.end(), e) != set.end();
}

/// The tokens for which a layer runs, by request.
inline Requests layer_of(const PlainTrace& trace, std::uint32_t layer) {
  Requests requests;
  for (const auto& request : trace.requests) {
    requests.emplace_back();
    for (const auto& row : request.rows)
      if (row.ids[layer][0] != kNoExpert) requests.back().push_back(row.ids[layer]);
  }
  return requests;
}

using Shares = std::vector<double>;

inline std::vector<double> counts_of(const std::vector<const std::vector<Set>*>& requests,
                                     std::uint32_t experts) {
  std::vector<double> counts(experts);
  for (const auto* request : requests)
    for (const Set& token : *request)
      for (const std::uint16_t e : token) ++counts[e];
  return counts;
}

inline double total(const std::vector<double>& counts) {
  return std::accumulate(counts.begin(), counts.end(), 0.0);
}

/// sum_g w_g KL(p_g || m), m = sum_g w_g p_g, w_g the groups' shares of all uses: the definition.
inline double divergence(const std::vector<std::vector<double>>& groups) {
  Shares mixture(groups.empty() ? 0 : groups[0].size());
  double all = 0;
  for (const auto& group : groups) {
    all += total(group);
    for (std::size_t e = 0; e < mixture.size(); ++e) mixture[e] += group[e];
  }
  if (all == 0) return kNaN;
  double bits = 0;
  for (const auto& group : groups) {
    const double own = total(group);
    for (std::size_t e = 0; e < mixture.size(); ++e)
      if (group[e] > 0) bits += own / all * group[e] / own * std::log2(group[e] / own / (mixture[e] / all));
  }
  return bits;
}

/// Miller's (m - 1) / (2 n ln 2) of each group, weighted by its share, less the one of all together,
/// not below 0.
inline double chance(const std::vector<std::vector<double>>& groups) {
  std::vector<double> all(groups.empty() ? 0 : groups[0].size());
  double bits = 0, uses = 0;
  const auto used = [](const std::vector<double>& counts) {
    return static_cast<double>(std::count_if(counts.begin(), counts.end(), [](double n) { return n > 0; }));
  };
  for (const auto& group : groups) {
    uses += total(group);
    for (std::size_t e = 0; e < all.size(); ++e) all[e] += group[e];
    if (total(group) > 0) bits += (used(group) - 1) / (2 * std::log(2.0));
  }
  if (uses == 0) return kNaN;
  return std::max(0.0, bits - (used(all) - 1) / (2 * std::log(2.0))) / uses;
}

inline double naive_reuse(const Requests& requests, std::uint32_t k) {
  double reused = 0, experts = 0;
  for (const auto& request : requests)
    for (std::size_t t = 1; t < request.size(); ++t) {
      experts += k;
      for (const std::uint16_t e : request[t]) reused += among(e, request[t - 1]);
    }
  return ratio(reused, experts);
}

inline double naive_distinct(const Requests& requests, std::size_t window) {
  double found = 0, windows = 0;
  for (const auto& request : requests)
    for (std::size_t begin = 0; begin + window <= request.size(); begin += window) {
      std::set<std::uint16_t> distinct;
      for (std::size_t t = begin; t < begin + window; ++t)
        distinct.insert(request[t].begin(), request[t].end());
      found += static_cast<double>(distinct.size());
      ++windows;
    }
  return ratio(found, windows);
}

/// Recalls of the two predictors. The transition scores are sums of fractions, which the code adds up in
/// single precision: where two differ by less than that tells apart, either order is right, so that a token's
/// hits lie between two bounds; experts with the very same counts are equal in any precision.
struct Recalls {
  double least = 0, most = 0, popularity = 0, tokens = 0;
};

inline Recalls naive_recalls(const PlainTrace& trace, std::uint32_t layer) {
  const std::uint32_t n = trace.about.experts, k = trace.about.top_k;
  std::vector<std::vector<double>> together(n, std::vector<double>(n));
  std::vector<double> before_uses(n), uses(n);
  Recalls recalls;
  for (const auto& request : trace.requests)
    for (const auto& row : request.rows) {
      if (layer == 0 || row.ids[layer][0] == kNoExpert || row.ids[layer - 1][0] == kNoExpert) continue;
      const Set &before = row.ids[layer - 1], &now = row.ids[layer];
      Shares score(n);
      for (const std::uint16_t e : before)
        for (std::uint32_t f = 0; f < n; ++f)
          if (before_uses[e] > 0) score[f] += together[e][f] / before_uses[e];
      const auto alike = [&](std::uint32_t f, std::uint32_t g) {
        return std::all_of(before.begin(), before.end(),
                           [&](std::uint16_t e) { return together[e][f] == together[e][g]; });
      };
      for (const std::uint16_t f : now) {
        std::uint32_t surely = 0, perhaps = 0, busier = 0;
        for (std::uint32_t g = 0; g < n; ++g) {
          if (g == f) continue;
          busier += uses[g] > uses[f] || (uses[g] == uses[f] && g < f);
          if (alike(f, g))
            surely += g < f;
          else if (std::abs(score[g] - score[f]) < 1e-5)
            ++perhaps;
          else
            surely += score[g] > score[f];
        }
        recalls.least += surely + perhaps < k;
        recalls.most += surely < k;
        recalls.popularity += busier < k;
      }
      ++recalls.tokens;
      for (const std::uint16_t e : before) {
        ++before_uses[e];
        for (const std::uint16_t f : now) ++together[e][f];
      }
      for (const std::uint16_t f : now) ++uses[f];
    }
  return recalls;
}

inline Shares naive_gates(const PlainTrace& trace, std::uint32_t layer, double tokens) {
  if (!trace.about.gate_scores) return {};
  Shares gates(trace.about.top_k);
  for (const auto& request : trace.requests)
    for (const auto& row : request.rows) {
      if (row.ids[layer][0] == kNoExpert) continue;
      std::multiset<float, std::greater<>> sorted(row.gates[layer].begin(), row.gates[layer].end());
      std::size_t r = 0;
      for (const float gate : sorted) gates[r++] += gate / tokens;
    }
  if (tokens == 0) std::fill(gates.begin(), gates.end(), kNaN);
  return gates;
}

}  // namespace moelab::test
