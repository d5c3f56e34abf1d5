#include "sim/serving/page_cache.hpp"

namespace moelab {

PageCache::PageCache(std::size_t objects, double capacity_bytes)
    : entries_(objects), capacity_(capacity_bytes) {}

bool PageCache::add(std::uint32_t object, double bytes) {
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
