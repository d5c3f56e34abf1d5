// What makers of routing traces must hold to: the rules of read_routing_trace, row by row. Private to them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "traces/row_check.hpp"
#include "traces/trace_description.hpp"

namespace moelab {

/// Every member throws InputError about `name` where the trace would be refused, and has then done nothing.
class TraceCheck {
 public:
  TraceCheck(std::string name, const TraceDescription& about);

  void begin_request(std::uint16_t domain);
  /// Whether the row may come next.
  void check(const TraceRow& row);
  /// It has come.
  void added(const TraceRow& row);
  /// Whether the trace may end here.
  void finish() const;
  std::uint64_t tokens() const { return tokens_; }

 private:
  void check_ids(RowCheck& rule, std::span<const std::uint16_t> values, std::size_t width, const char* what);
  void check_scores(std::span<const float> values, std::size_t width, const char* what) const;
  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail_at(std::size_t layer, const char* which, const std::string& what) const;

  std::string name_;
  std::uint32_t layers_, top_k_, candidates_, router_width_;
  std::size_t domains_;
  bool gate_scores_, lookahead_;
  RowCheck rows_, candidate_rows_;
  std::uint64_t tokens_ = 0;
  std::uint64_t requests_ = 0;
  std::uint8_t last_phase_ = 0;  // of the request
};

}  // namespace moelab
