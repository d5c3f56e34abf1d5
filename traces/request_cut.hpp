// Parts of request logs, and their lengths in another order.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "traces/requests.hpp"

namespace moelab {

/// What is kept of a log, in this order: requests that come in a span of time, then so many of them.
struct RequestCut {
  double from_s = 0, until_s = std::numeric_limits<double>::infinity();  // from_s <= arrival < until_s
  std::uint64_t skip = 0;   // requests left out at the beginning of that span
  std::uint64_t count = 0;  // kept after them at most; 0: all
  /// Pairs of lengths, with the prompts that have them, go to other arrivals, each order equally likely;
  /// none: as they are.
  std::optional<std::uint64_t> shuffle_seed = {};
};

/// The part, whose time begins at `from_s`, or at the first request that is kept where some are skipped.
/// Empty where nothing is left. What requests have in common with one that is left out, or comes later now,
/// they share with the first of the others that has most of it.
std::vector<RequestRecord> cut_requests(const std::vector<RequestRecord>& requests, const RequestCut& cut);

}  // namespace moelab
