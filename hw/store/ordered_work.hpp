// Work that is done by several threads, but taken in order.
#pragma once

#include <cstdint>
#include <functional>

namespace moelab {

/// Calls make(thread, item) for items first ... end - 1, each on one of `threads` threads (0 ... threads - 1)
/// and several at a time, and after each take(thread, item), on the same thread, one at a time and in the
/// items' order. Nothing runs ahead further than one item a thread. Where a call throws, no further ones
/// begin, and the exception of the lowest item is thrown here.
void work_in_order(std::uint64_t first, std::uint64_t end, unsigned threads,
                   const std::function<void(unsigned thread, std::uint64_t item)>& make,
                   const std::function<void(unsigned thread, std::uint64_t item)>& take);

}  // namespace moelab
