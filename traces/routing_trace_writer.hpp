// Writes a routing trace row by row, of any length: memory does not grow with it.
#pragma once

#include <filesystem>
#include <memory>

#include "traces/routing_trace.hpp"

namespace moelab {

/// Rows go to temporary files beside the target, which have no names; finish() puts them together. The trace
/// appears whole under its name, or not at all; compressed where that ends in ".zst". Everything is checked
/// as read_routing_trace checks it: what that would refuse, every member here refuses with an InputError that
/// names the token and layer, and the writer stays as it was.
class RoutingTraceWriter {
 public:
  RoutingTraceWriter(std::filesystem::path path, TraceDescription description);
  ~RoutingTraceWriter();
  /// `domain`: place in the description's domains; 0 where there are none.
  void begin_request(std::uint16_t domain = 0);
  void add_token(const TraceRow& row);
  std::uint64_t tokens() const;
  /// At least one token must have been added. To be called once, last.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moelab
