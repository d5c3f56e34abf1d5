// The requests that a scenario's workload asks for, and which rows of the trace each of them runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policies/batching/batching.hpp"
#include "sim/scenario/request_mix.hpp"
#include "sim/serving/common_parts.hpp"

namespace moelab {

class RoutingTrace;
struct Scenario;
struct SystemConfig;

/// A request as a scenario describes it. Row number i of a request is the trace's row first_row + i of those
/// that it runs, which go on at their begin after their end.
struct ServedRequest {
  double arrival_s = 0;
  std::uint32_t prompt_tokens = 0, output_tokens = 0;
  std::uint64_t first_row = 0;
  /// Rows of the trace that it runs; 0: all of them.
  std::uint64_t pool_begin = 0, pool_rows = 0;
  bool prefilled = false;  // as BatchRequest says, likewise the next
  bool encoded = false;
  /// Of its prompt: those that an encoder read, to which the decoder attends by cross-attention.
  std::uint32_t encoder_tokens = 0;
  bool kept = false, fetched = false;  // as BatchRequest says
  /// Of one that another server began: when that produced its first token; negative: it was not begun.
  double first_token_s = -1;
  std::uint16_t of_class = kNoClass;  // place in WorkloadConfig::mix
  /// Of a conversation: it comes so many seconds after the answer to the request before it in the list, in
  /// the place of `arrival_s`. Negative: it does not.
  double think_s = -1;
  /// What it has in common with others (BatchRequest::parts).
  CommonParts common = {};
  std::int32_t priority = 0;  // as BatchRequest says

  bool goes_on() const { return think_s >= 0; }
};

/// As the batching policy sees it, as long as `request` or a copy of it is there.
inline BatchRequest batch_request(const ServedRequest& request, std::uint32_t id = 0) {
  BatchRequest asks{id, request.prompt_tokens, request.output_tokens, request.prefilled, request.encoded};
  asks.kept = request.kept;
  asks.fetched = request.fetched;
  asks.parts = request.common.parts();
  asks.priority = request.priority;
  return asks;
}

/// What becomes of the prompts of a trace's requests.
struct Prompts {
  bool prefilled = false;  // they were run elsewhere
  bool encoded = false;    // they run through an encoder
};

/// Request `number` of a trace, which arrives at 0: its rows run once each, where prompts are prefilled those
/// that decode. One without a prompt in the trace gets its first token from its first row to decode. Output
/// tokens are 0 where the trace has nothing to produce.
ServedRequest trace_request(const RoutingTrace& trace, std::size_t number, const Prompts& prompts);

/// Of a scenario.
Prompts prompts_of(const Scenario& scenario);

/// Whether a system serves its trace's requests in turn, in static batches each of which comes when the one
/// before is done: it has no batching policy, and the workload does not say when requests come.
bool come_in_turn(const Scenario& scenario, const SystemConfig& system);

/// Whether a scenario's requests run rows of one pool, over and over, because its systems page experts: their
/// batches are large, and a step meets the whole pool. Else each has rows of its own.
bool serves_from_pool(const Scenario& scenario);

/// The scenario's requests, in order of arrival: those of its log or its trace, of drawn lengths or of one;
/// with arrivals drawn from the seed, as logged, or all at 0 (also where a closed loop sends them); of a
/// conversation the first one's, those that go on behind it. As many come a second as are asked for, so that
/// conversations begin less often. Those
/// that are not the trace's begin on a pool spread evenly, or have the rows that the trace drew for them
/// (more requests than it has share them). Throws InputError for recorded requests without rows to decode
/// where the workload is prefilled, and for arrivals later than kLatestArrival.
std::vector<ServedRequest> served_requests(const Scenario& scenario, const RoutingTrace& trace);

/// By number of a drawn request: its class. Empty where the workload has no classes.
std::vector<std::uint16_t> request_classes(const Scenario& scenario);

/// Where request `number` begins on rows that requests share: multiples of the golden ratio, which lie apart
/// from each other as evenly as can be for any number of requests. (Requests that began at the same row would
/// use the same experts in each step.)
std::uint64_t spread_row(std::uint64_t number, std::uint64_t rows);

}  // namespace moelab
