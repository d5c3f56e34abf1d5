// Draws routing from a law (routing_law.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

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
  /// The domain that request `number` gets when the caller does not say which: drawn by the law's shares.
  std::uint16_t domain_of(std::uint64_t number) const;
  void begin_request(std::uint64_t number, std::uint16_t domain);
  /// The request's next token; the row is valid until the next call.
  TraceRow next(Phase phase);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A request to draw.
struct DrawnRequest {
  std::uint64_t number = 0;
  std::uint16_t domain = 0;
  std::array<std::uint64_t, 3> rows{};  // by Phase, which is their order

  std::uint64_t tokens() const { return rows[0] + rows[1] + rows[2]; }
  /// Calls visit(phase) for each row, in order.
  template <class Visit>
  void each_row(Visit visit) const {
    for (std::size_t phase = 0; phase < rows.size(); ++phase)
      for (std::uint64_t i = 0; i < rows[phase]; ++i) visit(static_cast<Phase>(phase));
  }
};

/// Draws requests on all cores and hands their rows over in order, from the calling thread: begin(request),
/// then row(row) for each of its tokens. `next` says which, until it has no more. Memory: a few requests.
void draw_requests(const RoutingLaw& law, std::uint64_t seed, bool router_scores,
                   const std::function<std::optional<DrawnRequest>()>& next,
                   const std::function<void(const DrawnRequest&)>& begin,
                   const std::function<void(const TraceRow&)>& row);

}  // namespace moelab
