// What runs for a known time, by when it ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/engine/graph.hpp"

namespace moelab::engine {

/// What an operation does once its own seconds are over.
enum class Then : std::uint8_t { ends, shares, flows };

struct Running {
  double end;
  Graph* graph;
  OpIndex op;
  Then then = Then::ends;
};

/// Of one server few operations run at a time (as many as there are slots), and insertion into a sorted array
/// beats a heap; of a cluster there are thousands. So those that end soonest are sorted, kMostSorted at most,
/// and what ends no sooner than all of them is in a heap behind.
class RunningSet {
 public:
  double next_end() const {
    return sorted_.empty() ? std::numeric_limits<double>::infinity() : sorted_.back().end;
  }
  void insert(const Running& entry) {
    if (!later_.empty() && entry.end >= later_.front().end) return push_later(entry);
    std::size_t i = sorted_.size();
    sorted_.push_back(entry);
    while (i > 0 && sorted_[i - 1].end < entry.end) {
      sorted_[i] = sorted_[i - 1];
      --i;
    }
    sorted_[i] = entry;
    if (sorted_.size() > kMostSorted) put_back();
  }
  /// Of those that end next, one; never empty.
  Running take_next() {
    const Running next = sorted_.back();
    sorted_.pop_back();
    if (sorted_.empty() && !later_.empty()) bring_forward();
    return next;
  }

 private:
  static constexpr std::size_t kMostSorted = 64;
  static bool ends_later(const Running& a, const Running& b) { return a.end > b.end; }

  void push_later(const Running& entry) {
    later_.push_back(entry);
    std::push_heap(later_.begin(), later_.end(), ends_later);
  }
  void put_back() {  // the later half
    const auto half = sorted_.begin() + kMostSorted / 2;
    for (auto i = sorted_.begin(); i != half; ++i) push_later(*i);
    sorted_.erase(sorted_.begin(), half);
  }
  void bring_forward() {
    while (!later_.empty() && sorted_.size() < kMostSorted / 2) {
      std::pop_heap(later_.begin(), later_.end(), ends_later);
      sorted_.push_back(later_.back());
      later_.pop_back();
    }
    std::reverse(sorted_.begin(), sorted_.end());
  }

  std::vector<Running> sorted_;  // latest end first
  std::vector<Running> later_;   // a heap, soonest end first
};

}  // namespace moelab::engine
