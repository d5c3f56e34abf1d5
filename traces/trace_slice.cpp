#include "traces/trace_slice.hpp"

#include "traces/trace_rows.hpp"

namespace moelab {

RoutingTrace slice(const RoutingTrace& trace, std::span<const std::uint32_t> requests) {
  RoutingTraceBuilder builder(trace.description());
  std::uint64_t tokens = 0;
  for (const std::uint32_t r : requests) tokens += trace.requests()[r].end - trace.requests()[r].begin;
  builder.reserve(tokens);
  TraceRows rows(trace);
  for (const std::uint32_t r : requests) {
    const TraceRequest& request = trace.requests()[r];
    builder.begin_request(trace.domain_of(r));
    for (std::uint64_t t = request.begin; t < request.end; ++t) builder.add_token(rows.row(t));
    trace.release_rows(request.begin, request.end);
  }
  return builder.finish();
}

}  // namespace moelab
