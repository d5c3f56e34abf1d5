// Request logs: when requests came and how long they were. The format, CSV: the header
// `arrival_s,prompt_tokens,output_tokens`, then a line for each request in order of arrival. Where requests
// have the beginning of their prompts in common, two more columns, `shared_tokens,shared_with`: the longest
// beginning that the prompt has in common with any request before it, and the number of that request. Where
// requests have priorities, one more behind all others, `priority`: a whole number, lower goes first.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moelab {

/// Seconds; beyond it a clock in double precision no longer tells one step from the next.
inline constexpr double kLatestArrival = 1e12;

/// Of a request, above or below 0.
inline constexpr std::int32_t kMostPriority = 1'000'000;

struct RequestRecord {
  double arrival_s = 0;             // seconds since the log begins; 0 to kLatestArrival, never falling
  std::uint32_t prompt_tokens = 0;  // at least 1
  std::uint32_t output_tokens = 0;  // at least 1
  /// Of the prompt, from its first: that request number `shared_with` (counted from 0, before this one) has
  /// too, in its prompt or its answer. 0: none that is known, and then `shared_with` is 0.
  std::uint32_t shared_tokens = 0, shared_with = 0;
  std::int32_t priority = 0;  // -kMostPriority to kMostPriority; lower goes first
  bool operator==(const RequestRecord&) const = default;
};

/// Throws InputError with file, line and column: other columns, a number that is none or out of range, an
/// arrival before the one before it, tokens shared with a request that is not before it or has fewer, no
/// requests. `.gz` files are unpacked.
std::vector<RequestRecord> read_request_log(const std::string& path);

/// Writes atomically; arrivals in the fewest digits that read back the same, the columns of shared tokens
/// and of priorities where there are any. Throws InputError where read_request_log would, or where it cannot
/// be written.
void write_request_log(std::span<const RequestRecord> requests, const std::string& path);

/// Whether any request has tokens in common with another one.
bool shares_tokens(std::span<const RequestRecord> requests);
/// Whether any has another priority than 0.
bool has_priorities(std::span<const RequestRecord> requests);

/// What is wrong with what a request shares with those before it; empty if nothing is.
std::string sharing_problem(const RequestRecord& request, std::span<const RequestRecord> before);

/// What is wrong with a request after one that arrived at `before` (0 for the first); empty if nothing is.
std::string request_problem(const RequestRecord& request, double before);

}  // namespace moelab
