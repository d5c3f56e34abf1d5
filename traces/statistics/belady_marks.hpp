// Belady's hits at every capacity in one pass without looking ahead.
//
// Belady's choice needs the future, but how many hits it has had by now does not: it is the least number of
// misses that any choices could have had. Call a content of the cache possible if some choices with that
// number of misses lead to it. With experts in order of last lookup, the possible contents of a cache of C
// are (Koutsoupias and Papadimitriou, "Beyond competitive analysis", SIAM J. Comput. 30(1), 2000; Moruz and
// Negoescu, "Outperforming LRU via competitive analysis on parametrized inputs for paging", SODA 2012) those
// that hold at least i of the first b_i experts, for C marks b_1 = 1 < b_2 < .. < b_C, and none after b_C.
// (Empty places are experts that were looked up before the trace, and never will be again.) Then x is looked
// up:
//   - It is a hit if a mark is at or after x, for then a possible content holds x. Now only these remain: the
//     first mark at or after x follows from the others.
//   - Else it is a miss, and any one expert makes room: every b_i asks for one less, b_1 = 1 for none.
//   So one mark goes: the first at or after x, or b_1 if there is none. x moves to the front, with the
//   mark 1.
// The marks of C are among those of C + 1 (by induction: below), so each C has one of its own, and this file
// keeps where: at[C]. x at rank p is a hit from the smallest C on that has at[C] >= p, call it D. The mark
// that goes from the caches of D and more is D's own for D itself; for larger C it is D's until a C' > D has
// its mark nearer to x: there C' loses its own, and keeps D's, which is thereby from C' on. So D's mark is
// handed to the next C' with p <= at[C'] < at[D], that one's to the next nearer, and the last is gone.
// D gets the mark that was at the front, since all smaller caches lose it: behind x now, at[D] = 1.
//
// It is Mattson's stack algorithm for OPT (see cache_lru_ranks.hpp) with time reversed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "traces/statistics/cache_lru_ranks.hpp"

namespace moelab {

/// Up to kLanes sequences of lookups (layers) in step: the same instructions serve all. `Rank` as for
/// CacheLruRanks.
template <typename Rank>
class BeladyMarks {
 public:
  static constexpr std::size_t kLanes = 16;
  using Lanes = std::array<Rank, kLanes>;
  static constexpr Rank kUnseen = CacheLruRanks<Rank>::kUnseen;

  explicit BeladyMarks(std::uint32_t experts) : at_(experts - 1), seen_{} {
    for (Lanes& row : at_) row.fill(kBehindAll);
  }

  /// One lookup in each lane, given the LRU rank of its expert (0: also a lane that looks nothing up).
  /// `smaller`: how many capacities are too small to find it: it is found from one more on; kUnseen: by none.
  void look_up(const Lanes& ranks, Lanes& smaller) {
    Lanes from, carried;
    for (std::size_t l = 0; l < kLanes; ++l) {
      from[l] = std::min(ranks[l], kBehindAll);
      // Nothing is handed on when the front is looked up again or no cache has it: 0 passes by all marks.
      carried[l] = ranks[l] == 0 || ranks[l] == kUnseen ? Rank{0} : kNone;
      if (ranks[l] == kUnseen) rows_ = std::max(rows_, seen_[l]++);
    }
    const Lanes below = hand_on(from, carried);
    for (std::size_t l = 0; l < kLanes; ++l)
      smaller[l] = ranks[l] == 0 || ranks[l] == kUnseen ? ranks[l] : below[l];
  }

 private:
  static constexpr Rank kNone = kUnseen;           // nothing to hand on yet
  static constexpr Rank kBehindAll = kUnseen - 1;  // a mark behind all experts that were seen

  /// Passes the marks that are not behind all; gives the number of capacities below D.
  Lanes hand_on(const Lanes& from, Lanes carried) {
    Lanes below;
    below.fill(1);  // row 0 is for capacity 2
    for (std::size_t row = 0; row < rows_; ++row) {
      Lanes& at = at_[row];
      for (std::size_t l = 0; l < kLanes; ++l) {
        const Rank mark = at[l];
        const Rank nearer = mark < from[l] ? kNone : Rank{0};  // all bits, or none: the mark is before x
        const Rank own = static_cast<Rank>(mark | nearer);
        const Rank handed = std::max(carried[l], own);  // kNone where the mark is before x, and for D
        const Rank moved = static_cast<Rank>(static_cast<Rank>(mark + 1) | static_cast<Rank>(~nearer));
        const Rank result = std::min(handed, moved);
        carried[l] = std::min(carried[l], own);
        below[l] = static_cast<Rank>(below[l] + (carried[l] == kNone));
        at[l] = static_cast<Rank>(result + (result == kNone ? 2 : 0));  // D's mark is at 1 now
      }
    }
    return below;
  }

  std::vector<Lanes> at_;  // [C - 2]: rank behind which C has its own mark (1's is always behind rank 0)
  std::array<std::size_t, kLanes> seen_;  // experts looked up so far
  std::size_t rows_ =
      0;  // a cache of all experts seen finds any of them: rows of larger ones stay as they are
};

}  // namespace moelab
