// The operating system's page cache: memory outside the budget that serves repeated file reads.
#pragma once

#include <cstdint>
#include <vector>

namespace moelab {

/// Least-recently-used over objects (the planes of an expert), by bytes. The kernel's own rule (two lists,
/// active and inactive) differs in detail; with objects of a megabyte and more, read in full each time, LRU
/// is close.
class PageCache {
 public:
  PageCache(std::size_t objects, double capacity_bytes);
  /// Reads an object of `bytes`: true if it was cached. It is cached afterwards, the least recently read ones
  /// leaving for it (not at all if it is larger than the cache).
  bool read(std::uint32_t object, double bytes) {
    if (entries_[object].bytes == 0) return add(object, bytes);
    if (object != newest_) {
      unlink(object);
      push_newest(object);
    }
    return true;
  }
  /// The object is no longer cached (a read that was announced did not happen).
  void forget(std::uint32_t object);
  double bytes_held() const { return held_; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  struct Entry {
    std::uint32_t newer = kNone, older = kNone;
    double bytes = 0;  // 0: not cached
  };
  bool add(std::uint32_t object, double bytes);  // false
  void unlink(std::uint32_t object) {
    const Entry& e = entries_[object];
    (e.newer == kNone ? newest_ : entries_[e.newer].older) = e.older;
    (e.older == kNone ? oldest_ : entries_[e.older].newer) = e.newer;
  }
  void push_newest(std::uint32_t object) {
    entries_[object].newer = kNone;
    entries_[object].older = newest_;
    (newest_ == kNone ? oldest_ : entries_[newest_].newer) = object;
    newest_ = object;
  }

  std::vector<Entry> entries_;
  std::uint32_t newest_ = kNone, oldest_ = kNone;
  double capacity_;
  double held_ = 0;
};

}  // namespace moelab
