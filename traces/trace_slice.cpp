#include "traces/trace_slice.hpp"

namespace moelab {
namespace {

/// A token's row of all layers; spans into buffers, of which the next call makes use again.
class RowReader {
 public:
  explicit RowReader(const RoutingTrace& trace)
      : trace_(trace),
        width_(trace.description().router_width()),
        scores_(std::size_t{trace.layers()} * width_) {}

  TraceRow row(std::uint64_t token) {
    const std::uint32_t layers = trace_.layers(), k = trace_.top_k();
    const auto whole = [&](auto first, std::size_t a_layer) {
      return first.empty() ? first : decltype(first)(first.data(), layers * a_layer);
    };
    for (std::uint32_t l = 0; width_ > 0 && l < layers; ++l)
      trace_.router_scores_of(token, l, std::span(scores_).subspan(std::size_t{l} * width_, width_));
    return {.phase = trace_.phase_of(token),
            .ids = whole(trace_.experts_of(token, 0), k),
            .gate_scores = whole(trace_.scores_of(token, 0), k),
            .router_scores = scores_,
            .candidate_ids = whole(trace_.candidates_of(token, 0), width_),
            .lookahead_ids = whole(trace_.lookahead_of(token, 0), k)};
  }

 private:
  const RoutingTrace& trace_;
  std::uint32_t width_;
  std::vector<float> scores_;
};

}  // namespace

RoutingTrace slice(const RoutingTrace& trace, std::span<const std::uint32_t> requests) {
  RoutingTraceBuilder builder(trace.description());
  std::uint64_t tokens = 0;
  for (const std::uint32_t r : requests) tokens += trace.requests()[r].end - trace.requests()[r].begin;
  builder.reserve(tokens);
  RowReader rows(trace);
  for (const std::uint32_t r : requests) {
    const TraceRequest& request = trace.requests()[r];
    builder.begin_request(trace.domain_of(r));
    for (std::uint64_t t = request.begin; t < request.end; ++t) builder.add_token(rows.row(t));
    trace.release_rows(request.begin, request.end);
  }
  return builder.finish();
}

}  // namespace moelab
