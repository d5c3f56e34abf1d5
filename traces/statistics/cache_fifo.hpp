// FIFO caches, counted. FIFO is no stack algorithm: Belady, Nelson and Shedler ("An anomaly in space-time
// characteristics of certain programs running in a paging machine", CACM 12(6), 1969) show a sequence on
// which a larger cache finds less. So each capacity is simulated.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace moelab {

/// Caches of several capacities that see the same lookups, four to an instruction. A cache's entries are
/// numbered, and each expert keeps the number of its last one: the last C to enter are in the cache.
class CacheFifos {
 public:
  /// Numbers start again after so many.
  CacheFifos(std::uint32_t experts, const std::vector<std::uint32_t>& capacities,
             std::int32_t many_entries = 1 << 30)
      : many_entries_(many_entries), caches_(capacities.size()) {
    for (std::size_t first = 0; first < caches_; first += kTogether) {
      Some some;
      for (std::size_t i = 0; i < kTogether; ++i)  // what is left over repeats the last one
        some.capacity[i] = static_cast<std::int32_t>(capacities[std::min(first + i, caches_ - 1)]);
      for (std::size_t i = 0; i < kTogether; ++i) some.next[i] = some.capacity[i] + 1;
      some.entered.resize(experts, Numbers{});  // 0 is the number of one that left
      some_.push_back(std::move(some));
    }
  }

  /// Up to 2^30 lookups at once.
  void look_up(std::span<const std::uint16_t> lookups) {
    for (Some& some : some_) {
      Numbers next = some.next;
      for (const std::uint16_t expert : lookups) {
        Numbers& entered = some.entered[expert];
        for (std::size_t i = 0; i < kTogether; ++i) {
          const std::int32_t missing = next[i] - entered[i] > some.capacity[i] ? -1 : 0;
          entered[i] = (next[i] & missing) | (entered[i] & ~missing);
          next[i] -= missing;
        }
      }
      some.next = next;
      if (*std::max_element(next.begin(), next.end()) > many_entries_) count_again(some);
    }
  }

  std::vector<std::uint64_t> misses() const {
    std::vector<std::uint64_t> all;
    for (std::size_t c = 0; c < caches_; ++c) {
      const Some& some = some_[c / kTogether];
      const std::size_t i = c % kTogether;
      all.push_back(some.before[i] + static_cast<std::uint64_t>(some.next[i] - some.capacity[i] - 1));
    }
    return all;
  }

 private:
  static constexpr std::size_t kTogether = 4;
  using Numbers = std::array<std::int32_t, kTogether>;
  struct Some {
    Numbers capacity;
    Numbers next;                                   // number of the next entry
    std::vector<Numbers> entered;                   // by expert
    std::array<std::uint64_t, kTogether> before{};  // misses before the numbers last started again
  };

  /// Numbers start again: an expert that has left has 0 once more, the others their ages.
  void count_again(Some& some) {
    for (std::size_t i = 0; i < kTogether; ++i) {
      const std::int32_t past = some.next[i] - some.capacity[i] - 1;
      for (Numbers& entered : some.entered) entered[i] = std::max(entered[i] - past, 0);
      some.before[i] += static_cast<std::uint64_t>(past);
      some.next[i] -= past;
    }
  }

  std::int32_t many_entries_;
  std::size_t caches_;
  std::vector<Some> some_;
};

}  // namespace moelab
