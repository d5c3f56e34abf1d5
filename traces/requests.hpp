// Request logs: when requests came and how long they were. The format, CSV: the header
// `arrival_s,prompt_tokens,output_tokens`, then a line for each request in order of arrival.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moelab {

/// Seconds; beyond it a clock in double precision no longer tells one step from the next.
inline constexpr double kLatestArrival = 1e12;

struct RequestRecord {
  double arrival_s = 0;             // seconds since the log begins; 0 to kLatestArrival, never falling
  std::uint32_t prompt_tokens = 0;  // at least 1
  std::uint32_t output_tokens = 0;  // at least 1
  bool operator==(const RequestRecord&) const = default;
};

/// Throws InputError with file, line and column: other columns, a number that is none or out of range, an
/// arrival before the one before it, no requests. `.gz` files are unpacked.
std::vector<RequestRecord> read_request_log(const std::string& path);

/// Writes atomically; arrivals in the fewest digits that read back the same. Throws InputError where
/// read_request_log would, or where it cannot be written.
void write_request_log(std::span<const RequestRecord> requests, const std::string& path);

/// What is wrong with a request after one that arrived at `before` (0 for the first); empty if nothing is.
std::string request_problem(const RequestRecord& request, double before);

}  // namespace moelab
