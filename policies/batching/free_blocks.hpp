// Free blocks of a KV cache in the order in which they are taken: those that are free longest first. What a
// request lost stays readable until its blocks are taken, its last ones first, so that a beginning of it is
// left (vLLM V1: free_block_queue, of which free() appends a request's blocks from its end on). Blocks that
// requests share have numbers and are alone in their places; the others are counted.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <utility>
#include <vector>

namespace moelab {

class FreeBlocks {
 public:
  static constexpr std::uint64_t kNoOwner = ~std::uint64_t{0};

  /// So many blocks, with nothing readable in them.
  void reset(std::uint64_t blocks) {
    runs_.clear();
    owners_.clear();
    first_ = last_ = unused_ = kNone;
    count_ = 0;
    give(kNoOwner, blocks);
  }
  std::uint64_t count() const { return count_; }
  /// `blocks` become free, of which `owner` may find the first ones again. An owner gives once.
  void give(std::uint64_t owner, std::uint64_t blocks) {
    if (blocks == 0) return;
    count_ += blocks;
    if (owner == kNoOwner && belongs_to_none(last_)) {
      runs_[last_].blocks += blocks;
      return;
    }
    const std::uint32_t run = append({.owner = owner, .blocks = blocks});
    if (owner != kNoOwner) owners_.emplace_back(owner, run);
  }
  /// `blocks` become free in which nothing can be read: they are taken before all others.
  void give_first(std::uint64_t blocks) {
    if (blocks == 0) return;
    count_ += blocks;
    if (belongs_to_none(first_))
      runs_[first_].blocks += blocks;
    else
      prepend({.blocks = blocks});
  }
  /// A block that has a number becomes free. Where it is from now on, for claim_numbered().
  std::uint32_t give_numbered(std::uint32_t number) {
    ++count_;
    return append({.blocks = 1, .number = number});
  }
  /// Takes those that are free longest, and calls lost(number) for each of them that has one.
  template <class Lost>
  void take(std::uint64_t blocks, const Lost& lost) {
    assert(blocks <= count_);
    count_ -= blocks;
    while (blocks > 0) {
      Run& run = runs_[first_];
      const std::uint64_t taken = std::min(blocks, run.blocks);
      blocks -= taken;
      run.blocks -= taken;
      if (run.blocks > 0) return;
      const std::uint32_t number = run.number;
      remove(first_);
      if (number != kNone) lost(number);
    }
  }
  void take(std::uint64_t blocks) {
    take(blocks, [](std::uint32_t) {});
  }
  /// Blocks of `owner`, from its first, that are still readable.
  std::uint64_t kept(std::uint64_t owner) const {
    const auto found = std::ranges::find(owners_, owner, &Owned::first);
    return found == owners_.end() ? 0 : runs_[found->second].blocks;
  }
  /// `owner` takes the first `blocks` of those that were kept for it, and leaves the others.
  void claim(std::uint64_t owner, std::uint64_t blocks) {
    const auto found = std::ranges::find(owners_, owner, &Owned::first);
    if (found == owners_.end()) return;
    const std::uint32_t run = found->second;
    assert(blocks <= runs_[run].blocks);
    count_ -= blocks;
    owners_.erase(found);
    runs_[run].owner = kNoOwner;
    runs_[run].blocks -= blocks;
    join(run);
  }
  /// The numbered block that is at `place` is taken.
  void claim_numbered(std::uint32_t place) {
    --count_;
    remove(place);
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Run {
    std::uint64_t owner = kNoOwner;
    std::uint64_t blocks = 0;
    std::uint32_t number = kNone;
    std::uint32_t before = kNone, after = kNone;  // runs that are free longer and less long
  };
  using Owned = std::pair<std::uint64_t, std::uint32_t>;  // owner, run

  bool belongs_to_none(std::uint32_t run) const {
    return run != kNone && runs_[run].owner == kNoOwner && runs_[run].number == kNone;
  }
  std::uint32_t append(Run run) {
    run.before = last_;
    const std::uint32_t place = store(run);
    (last_ == kNone ? first_ : runs_[last_].after) = place;
    return last_ = place;
  }
  void prepend(Run run) {
    run.after = first_;
    const std::uint32_t place = store(run);
    (first_ == kNone ? last_ : runs_[first_].before) = place;
    first_ = place;
  }
  std::uint32_t store(const Run& run) {
    std::uint32_t place = unused_;
    if (place == kNone) {
      place = static_cast<std::uint32_t>(runs_.size());
      runs_.push_back(run);
    } else {
      unused_ = runs_[place].after;
      runs_[place] = run;
    }
    return place;
  }
  void remove(std::uint32_t place) {
    const Run& run = runs_[place];
    (run.before == kNone ? first_ : runs_[run.before].after) = run.after;
    (run.after == kNone ? last_ : runs_[run.after].before) = run.before;
    if (run.owner != kNoOwner) std::erase(owners_, Owned(run.owner, place));
    runs_[place] = {.after = unused_};
    unused_ = place;
  }
  /// The run belongs to none: it is one with that before it where that does not either, and gone where it is
  /// empty.
  void join(std::uint32_t run) {
    const std::uint32_t before = runs_[run].before;
    const bool after_none = belongs_to_none(before);
    if (after_none) runs_[before].blocks += runs_[run].blocks;
    if (after_none || runs_[run].blocks == 0) remove(run);
  }

  std::vector<Run> runs_;         // in no order
  std::vector<Owned> owners_;     // of runs that have one
  std::uint32_t first_ = kNone;   // free longest
  std::uint32_t last_ = kNone;    // free last
  std::uint32_t unused_ = kNone;  // places of runs_, by `after`
  std::uint64_t count_ = 0;
};

}  // namespace moelab
