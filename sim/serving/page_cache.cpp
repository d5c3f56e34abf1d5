#include "sim/serving/page_cache.hpp"

namespace moelab {

PageCache::PageCache(std::size_t objects, double capacity_bytes)
    : entries_(objects), capacity_(capacity_bytes) {}

void PageCache::unlink(std::uint32_t object) {
  Entry& e = entries_[object];
  (e.newer == kNone ? newest_ : entries_[e.newer].older) = e.older;
  (e.older == kNone ? oldest_ : entries_[e.older].newer) = e.newer;
}

void PageCache::push_newest(std::uint32_t object) {
  entries_[object].newer = kNone;
  entries_[object].older = newest_;
  (newest_ == kNone ? oldest_ : entries_[newest_].newer) = object;
  newest_ = object;
}

bool PageCache::read(std::uint32_t object, double bytes) {
  if (entries_[object].bytes > 0) {
    unlink(object);
    push_newest(object);
    return true;
  }
  if (bytes > capacity_) return false;
  while (held_ + bytes > capacity_) forget(oldest_);
  held_ += bytes;
  entries_[object].bytes = bytes;
  push_newest(object);
  return false;
}

void PageCache::forget(std::uint32_t object) {
  if (entries_[object].bytes == 0) return;
  held_ -= entries_[object].bytes;
  entries_[object].bytes = 0;
  unlink(object);
  if (newest_ == kNone) held_ = 0;  // sizes with fractions leave a rest
}

}  // namespace moelab
