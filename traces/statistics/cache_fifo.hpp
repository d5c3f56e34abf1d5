// A FIFO cache, counted. FIFO is no stack algorithm: Belady, Nelson and Shedler ("An anomaly in space-time
// characteristics of certain programs running in a paging machine", CACM 12(6), 1969) show a sequence on
// which a larger one finds less. So each capacity is simulated.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moelab {

/// The last C experts to enter are those in the cache: each keeps the number of its entry.
class CacheFifo {
 public:
  CacheFifo(std::uint32_t experts, std::uint32_t capacity)
      : entries_(capacity + std::uint64_t{1}), capacity_(capacity), entered_(experts, 0) {}
  void look_up(std::span<const std::uint16_t> lookups) {
    for (const std::uint16_t expert : lookups) {
      std::uint64_t& entered = entered_[expert];
      const bool missing = entries_ - entered > capacity_;
      entered = missing ? entries_ : entered;  // no branch: nobody can predict it
      entries_ += missing;
    }
  }
  std::uint64_t misses() const { return entries_ - capacity_ - 1; }

 private:
  std::uint64_t entries_;  // number of the next entry; starts where 0 is one of an expert that has left
  std::uint64_t capacity_;
  std::vector<std::uint64_t> entered_;  // number of an expert's last entry
};

}  // namespace moelab
