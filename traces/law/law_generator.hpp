// Draws routing from a law (routing_law.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "traces/law/routing_law.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

/// One request after another, token by token. The same law, seed and request number give the same rows on
/// every machine, whatever was drawn before.
class LawGenerator {
 public:
  /// `router_scores`: rows have the logits of all experts (the law has gates).
  LawGenerator(const RoutingLaw& law, std::uint64_t seed, bool router_scores = false);
  LawGenerator(LawGenerator&&) noexcept;
  ~LawGenerator();
  /// What a trace of these rows says of itself; its provenance names the law's.
  const TraceDescription& description() const;
  /// The domain that request `number` gets when nobody says which: drawn by the law's shares.
  std::uint16_t domain_of(std::uint64_t number) const;
  void begin_request(std::uint64_t number, std::uint16_t domain);
  /// The request's next token; the row is valid until the next call.
  TraceRow next(Phase phase);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A request to draw: its rows' phases, in order.
struct DrawnRequest {
  std::uint64_t number = 0;
  std::uint16_t domain = 0;
  std::vector<Phase> phases;
};

/// Draws requests on all cores and hands their rows over in order: begin(request), then row(row) for each of
/// its tokens, from the calling thread.
void draw_requests(const RoutingLaw& law, std::uint64_t seed, bool router_scores,
                   std::span<const DrawnRequest> requests,
                   const std::function<void(const DrawnRequest&)>& begin,
                   const std::function<void(const TraceRow&)>& row);

}  // namespace moelab
