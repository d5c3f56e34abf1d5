// Threads that work at the same time while some of them are timed.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace moelab {

/// One operation of one thread, to be called again and again by it alone.
using BenchWork = std::function<void()>;

/// Runs every work on a thread of its own; all begin together. Each of `timed` is done `operations` times;
/// then its thread goes on untimed, as those of `beside` do all along, until the last of `timed` is through:
/// no thread is timed while others are not there. Returns the mean time of a timed thread for its operations.
/// One timed work with none beside it runs on the calling thread. What a work throws is thrown here.
double team_seconds(std::span<const BenchWork> timed, std::span<const BenchWork> beside,
                    std::size_t operations);

/// Of the steady clock.
double seconds_now();

}  // namespace moelab
