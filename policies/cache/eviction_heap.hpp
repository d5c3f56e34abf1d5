// A binary heap over dense object numbers whose keys can change: finds the object to evict in O(1), updates
// in O(log n), allocates nothing after construction.
#pragma once

#include <cassert>
#include <compare>
#include <cstdint>
#include <limits>
#include <vector>

namespace moelab {

/// How much an expert is worth keeping: by frequency, among equals by the time of its last use.
struct KeepKey {
  std::uint64_t frequency = 0;
  std::uint64_t last_use = 0;  // any number that grows with time
  auto operator<=>(const KeepKey&) const = default;
};

/// The smallest key is at the front. Keys must be distinct for the order to be well defined.
class EvictionHeap {
 public:
  explicit EvictionHeap(std::uint32_t objects) : keys_(objects), place_(objects, kAbsent) {
    heap_.reserve(objects);
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(heap_.size()); }
  bool contains(std::uint32_t object) const { return place_[object] != kAbsent; }
  std::uint32_t front() const {
    assert(!heap_.empty());
    return heap_.front();
  }
  /// Adds the object, or gives it a new key.
  void set(std::uint32_t object, KeepKey key) {
    keys_[object] = key;
    if (!contains(object)) {
      place_[object] = size();
      heap_.push_back(object);
    }
    sink(rise(place_[object]));
  }
  void erase(std::uint32_t object) {
    assert(contains(object));
    const std::uint32_t hole = place_[object];
    const std::uint32_t last = heap_.back();
    heap_.pop_back();
    place_[object] = kAbsent;
    if (last == object) return;
    put(hole, last);
    sink(rise(hole));
  }

 private:
  static constexpr std::uint32_t kAbsent = std::numeric_limits<std::uint32_t>::max();

  void put(std::uint32_t at, std::uint32_t object) {
    heap_[at] = object;
    place_[object] = at;
  }
  std::uint32_t rise(std::uint32_t at) {
    const std::uint32_t object = heap_[at];
    while (at > 0) {
      const std::uint32_t parent = (at - 1) / 2;
      if (keys_[heap_[parent]] <= keys_[object]) break;
      put(at, heap_[parent]);
      at = parent;
    }
    put(at, object);
    return at;
  }
  void sink(std::uint32_t at) {
    const std::uint32_t object = heap_[at];
    for (std::uint32_t child = 2 * at + 1; child < size(); child = 2 * at + 1) {
      if (child + 1 < size() && keys_[heap_[child + 1]] < keys_[heap_[child]]) ++child;
      if (keys_[object] <= keys_[heap_[child]]) break;
      put(at, heap_[child]);
      at = child;
    }
    put(at, object);
  }

  std::vector<KeepKey> keys_;         // by object
  std::vector<std::uint32_t> place_;  // by object: where it stands in heap_
  std::vector<std::uint32_t> heap_;
};

}  // namespace moelab
