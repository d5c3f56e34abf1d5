// LRU stack distances (Mattson, Gecsei, Slutz, Traiger, "Evaluation techniques for storage hierarchies", IBM
// Systems Journal 9(2), 1970): an expert is found by every cache that is larger than its rank.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace moelab {

/// Every expert's rank by last lookup: 0 is the last one looked up, 1 the one before it. Kept by expert, not
/// in order: to move one to the front, the ranks before its own grow by one, 16 or 8 experts an instruction.
/// `Rank` is an unsigned type that holds one value more than there are experts.
template <typename Rank>
class CacheLruRanks {
 public:
  /// Rank of an expert that was never looked up.
  static constexpr Rank kUnseen = std::numeric_limits<Rank>::max();

  explicit CacheLruRanks(std::uint32_t experts) : ranks_((experts + kTogether - 1) / kTogether) {
    for (Some& some : ranks_) some.fill(kUnseen);
  }
  /// Its rank so far: how many others were looked up since; it becomes 0.
  Rank look_up(std::uint16_t expert) {
    const Rank rank = ranks_[expert / kTogether][expert % kTogether];
    // Its own becomes 0 among the others': a store of one rank would hold up the next lookup's loads of many.
    const Rank own = rank == kUnseen ? kNotHeld : rank;
    for (Some& some : ranks_)
      for (Rank& r : some) r = static_cast<Rank>((r + (r < rank)) & (r == own ? Rank{0} : kUnseen));
    if (rank == kUnseen) ranks_[expert / kTogether][expert % kTogether] = 0;
    return rank;
  }

 private:
  static constexpr std::size_t kTogether = 16;
  static constexpr Rank kNotHeld = kUnseen - 1;  // no expert's rank while one is unseen
  using Some = std::array<Rank, kTogether>;
  std::vector<Some> ranks_;
};

}  // namespace moelab
