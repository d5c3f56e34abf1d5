// Rows of a trace in the form in which builders and writers take them.
#pragma once

#include <algorithm>
#include <vector>

#include "traces/routing_trace.hpp"

namespace moelab {

/// Rows of some neighbouring layers, all of them by default.
class TraceRows {
 public:
  explicit TraceRows(const RoutingTrace& trace) : TraceRows(trace, 0, trace.layers()) {}
  /// Layers begin .. end - 1. The first of them has no layer before it any more, so no lookahead.
  TraceRows(const RoutingTrace& trace, std::uint32_t begin, std::uint32_t end)
      : trace_(trace),
        begin_(begin),
        layers_(end - begin),
        width_(trace.description().router_width()),
        scores_(std::size_t{layers_} * width_) {}

  /// Valid until the next call.
  TraceRow row(std::uint64_t token) {
    const std::uint32_t k = trace_.top_k();
    const auto whole = [&](auto first, std::size_t a_layer) {
      return first.empty() ? first : decltype(first)(first.data(), layers_ * a_layer);
    };
    for (std::uint32_t l = 0; width_ > 0 && l < layers_; ++l)
      trace_.router_scores_of(token, begin_ + l, std::span(scores_).subspan(std::size_t{l} * width_, width_));
    TraceRow row{.phase = trace_.phase_of(token),
                 .ids = whole(trace_.experts_of(token, begin_), k),
                 .gate_scores = whole(trace_.scores_of(token, begin_), k),
                 .router_scores = scores_,
                 .candidate_ids = whole(trace_.candidates_of(token, begin_), width_),
                 .lookahead_ids = whole(trace_.lookahead_of(token, begin_), k)};
    if (begin_ > 0 && !row.lookahead_ids.empty()) {
      lookahead_.assign(row.lookahead_ids.begin(), row.lookahead_ids.end());
      std::fill_n(lookahead_.begin(), k, kNoExpert);
      row.lookahead_ids = lookahead_;
    }
    return row;
  }

 private:
  const RoutingTrace& trace_;
  std::uint32_t begin_, layers_, width_;
  std::vector<float> scores_;
  std::vector<std::uint16_t> lookahead_;
};

}  // namespace moelab
