// Traces made of others: parts of one, other phases, several put together. Written row by row, so that memory
// does not grow with them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "traces/routing_trace.hpp"

namespace moelab {

/// Numbers begin .. end - 1; an end beyond what there is means: to the last.
struct NumberRange {
  std::uint64_t begin = 0, end = std::numeric_limits<std::uint64_t>::max();
  bool all() const { return begin == 0 && end == std::numeric_limits<std::uint64_t>::max(); }
};

/// What becomes of a trace. As it stands: nothing.
struct TraceEdit {
  NumberRange requests, layers;         // which are kept; layers are MoE layers
  NumberRange tokens;                   // of each request, counted from its first row
  std::vector<std::uint64_t> chosen{};  // requests that are kept, ascending; empty: those of `requests`
  std::optional<Phase> from{}, to{};    // rows of phase `from` (none: all) become `to`
};

/// Writes the part of `trace` that the edit leaves; what was done joins its provenance as `how`. Throws
/// InputError: a range beyond the trace, nothing left, phases that would fall within a request (it names the
/// request and token), a file that cannot be written. Gives the number of tokens.
std::uint64_t write_edited(const RoutingTrace& trace, const std::string& name, const TraceEdit& edit,
                           const std::string& how, const std::filesystem::path& out);

/// Writes the requests of all traces, one trace after the other, under the identity of the first or `model`.
/// They must be of one form: as many layers, experts and experts a token, the same kinds of scores. Kinds of
/// prompts are put together by name; where only some traces have them, the others' file names stand for
/// theirs. Throws InputError that names the file that differs from the first, and how. Gives the number of
/// tokens.
std::uint64_t write_merged(const std::vector<RoutingTrace>& traces, const std::vector<std::string>& names,
                           const std::string& model, const std::filesystem::path& out);

/// `count` of the numbers below `all` (at least as many), each as likely, ascending; the same by the same
/// seed.
std::vector<std::uint64_t> sample_of(std::uint64_t all, std::uint64_t count, std::uint64_t seed);

}  // namespace moelab
