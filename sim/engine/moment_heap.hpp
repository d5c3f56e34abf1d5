// A heap of numbered things, each with a moment that may change: which comes next, without looking at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace moelab::engine {

class MomentHeap {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// Adds the next number, at kNever.
  void add() {
    places_.push_back(static_cast<std::uint32_t>(entries_.size()));
    entries_.push_back({kNever, static_cast<std::uint32_t>(entries_.size())});
  }
  std::size_t size() const { return entries_.size(); }
  double next() const { return entries_.empty() ? kNever : entries_.front().moment; }
  std::uint32_t first() const { return entries_.front().number; }  // of the next moment; never empty

  void set(std::uint32_t number, double moment) {
    const std::size_t place = places_[number];
    const double before = std::exchange(entries_[place].moment, moment);
    if (moment < before)
      rise(place);
    else if (moment > before)
      sink(place);
  }

 private:
  struct Entry {
    double moment;
    std::uint32_t number;
  };
  void put(std::size_t place, const Entry& entry) {
    entries_[place] = entry;
    places_[entry.number] = static_cast<std::uint32_t>(place);
  }
  void rise(std::size_t place) {
    const Entry entry = entries_[place];
    for (; place > 0 && entries_[(place - 1) / kChildren].moment > entry.moment;
         place = (place - 1) / kChildren)
      put(place, entries_[(place - 1) / kChildren]);
    put(place, entry);
  }
  void sink(std::size_t place) {
    const Entry entry = entries_[place];
    for (;;) {
      const std::size_t from = place * kChildren + 1;
      const std::size_t to = from + kChildren < entries_.size() ? from + kChildren : entries_.size();
      std::size_t least = from;
      for (std::size_t child = from + 1; child < to; ++child)
        if (entries_[child].moment < entries_[least].moment) least = child;
      if (from >= entries_.size() || entries_[least].moment >= entry.moment) break;
      put(place, entries_[least]);
      place = least;
    }
    put(place, entry);
  }

  static constexpr std::size_t kChildren = 4;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> places_;  // by number
};

}  // namespace moelab::engine
