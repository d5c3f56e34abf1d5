// MoE-Infinity's prefetch and cache, written again from their definitions and without any of their
// bookkeeping: what the tests compare the policies with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "policies/prefetch/prefetch.hpp"

namespace moelab {

using Matrix = std::vector<std::vector<std::uint32_t>>;  // [layers][experts]: tokens

inline double row_sum(const std::vector<std::uint32_t>& row) {
  double sum = 0;
  for (const std::uint32_t count : row) sum += count;
  return sum;
}

// The similarity's definition, from the two matrices alone; cosines to the nearest multiple of 2^-40.
inline double naive_cosine_sum(const Matrix& a, const Matrix& b) {
  double sum = 0;
  for (std::size_t layer = 0; layer < a.size(); ++layer) {
    double dot = 0;
    double aa = 0;
    double bb = 0;
    for (std::size_t e = 0; e < a[layer].size(); ++e) {
      dot += static_cast<double>(a[layer][e]) * b[layer][e];
      aa += static_cast<double>(a[layer][e]) * a[layer][e];
      bb += static_cast<double>(b[layer][e]) * b[layer][e];
    }
    const double cosine = dot == 0 ? 0 : dot / (std::sqrt(aa) * std::sqrt(bb));
    sum += std::ldexp(std::nearbyint(std::ldexp(cosine, 40)), -40);
  }
  return sum;
}

// The header comment of moe_infinity_prefetch.cpp, recomputed from nothing at every call.
struct NaivePrefetch {
  std::uint32_t layers, experts;
  std::size_t collection;
  std::uint32_t layers_ahead;
  std::size_t fetches;
  double epsilon;
  std::vector<Matrix> past = {};
  Matrix running = Matrix(layers, std::vector<std::uint32_t>(experts, 0));

  std::size_t nearest() const {
    std::size_t best = 0;
    for (std::size_t k = 1; k < past.size(); ++k)
      if (naive_cosine_sum(running, past[k]) > naive_cosine_sum(running, past[best])) best = k;
    return best;
  }
  void begin_request() {
    double tokens = 0;
    for (const auto& row : running) tokens += row_sum(row);
    if (tokens == 0) return;
    if (past.size() < collection)
      past.push_back(running);
    else
      past[nearest()] = running;
    for (auto& row : running) std::fill(row.begin(), row.end(), 0);
  }
  std::vector<Fetch> after_gate(std::uint32_t layer, std::span<const ExpertUse> uses) {
    for (const ExpertUse& use : uses) running[layer][use.object] += use.tokens;
    if (past.empty()) return {};
    const Matrix& predicted = past[nearest()];
    std::vector<std::tuple<double, std::uint32_t, std::uint32_t>> wishes;  // ascending is most urgent first
    for (std::uint32_t m = layer + 1; m < layers && (layers_ahead == 0 || m <= layer + layers_ahead); ++m) {
      const double sum = row_sum(predicted[m]);
      for (std::uint32_t e = 0; e < experts; ++e) {
        const double priority = ((sum == 0 ? 0 : predicted[m][e] / sum) + epsilon) *
                                (1.0 - static_cast<double>(m - layer) / layers);
        if (priority > 0) wishes.emplace_back(-priority, m, e);
      }
    }
    std::sort(wishes.begin(), wishes.end());
    if (fetches != 0 && wishes.size() > fetches) wishes.resize(fetches);
    std::vector<Fetch> listed;
    for (const auto& [priority, m, e] : wishes) listed.push_back({m, e});
    return listed;
  }
};

// The header comment of moe_infinity_cache.cpp: every eviction looks at every kept expert.
struct NaiveCache {
  std::uint32_t layers, experts;
  std::size_t capacity;
  double epsilon;
  bool protect;
  Matrix running = Matrix(layers, std::vector<std::uint32_t>(experts, 0));
  struct Kept {
    bool unused_prefetch;
    std::uint64_t touched;
  };
  std::map<std::uint32_t, Kept> kept = {};
  std::uint64_t clock = 0;
  int running_layer = -1;

  // Ascending is first to leave.
  using Rank = std::tuple<bool, double, std::int64_t, std::uint64_t>;
  Rank rank(std::uint32_t object, bool unused_prefetch, std::uint64_t touched) const {
    const std::uint32_t layer = object / experts;
    const double sum = row_sum(running[layer]);
    const double ratio = sum == 0 ? 0 : running[layer][object % experts] / sum;
    return {unused_prefetch, (ratio + epsilon) * (1.0 - static_cast<double>(layer) / layers),
            -std::int64_t{layer}, touched};
  }
  std::uint32_t victim() const {
    auto best = kept.begin();
    for (auto it = kept.begin(); it != kept.end(); ++it)
      if (rank(it->first, it->second.unused_prefetch, it->second.touched) <
          rank(best->first, best->second.unused_prefetch, best->second.touched))
        best = it;
    return best->first;
  }
  void use(const ExpertUse& use) {
    running[use.object / experts][use.object % experts] += use.tokens;
    ++clock;
    if (capacity == 0) return;
    if (!kept.contains(use.object) && kept.size() == capacity) kept.erase(victim());
    kept[use.object] = {false, clock};
  }
  bool insert(std::uint32_t object) {
    if (kept.contains(object)) return true;
    if (capacity == 0) return false;
    if (kept.size() == capacity) {
      const std::uint32_t leaves = victim();
      const Rank lowest = rank(leaves, kept[leaves].unused_prefetch, 0);
      const Rank incoming = rank(object, protect, 0);
      if (std::pair(std::get<0>(lowest), std::get<1>(lowest)) >=
          std::pair(std::get<0>(incoming), std::get<1>(incoming)))
        return false;
      kept.erase(leaves);
    }
    kept[object] = {protect, ++clock};
    return true;
  }
  void begin_step(std::uint32_t layer) {
    for (auto& [object, k] : kept)
      if (running_layer == static_cast<int>(object / experts)) k.unused_prefetch = false;
    running_layer = static_cast<int>(layer);
  }
  void begin_request() {
    for (auto& row : running) std::fill(row.begin(), row.end(), 0);
  }
};

}  // namespace moelab
