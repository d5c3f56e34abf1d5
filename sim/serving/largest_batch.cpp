#include "sim/serving/largest_batch.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "sim/scenario.hpp"
#include "sim/serving/served_request.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

/// Requests in the order in which they form batches: bytes that each keeps at its end, rows that a step runs
/// of it at most.
struct Requests {
  std::vector<Bytes> kept;
  std::vector<std::uint64_t> rows;
};

Requests in_turn(const Scenario& s, const RoutingTrace& trace) {
  const bool encodes = s.model.has_encoder();
  const Bytes of_token = kv_bytes_per_token(s), of_encoded = cross_kv_bytes_per_token(s.model);
  Requests requests;
  for (const TraceRequest& q : trace.requests()) {
    const auto prompt = static_cast<double>(q.decode_begin - q.begin);
    const auto tokens = static_cast<double>(q.end - (encodes ? q.decode_begin : q.begin) + 1);
    requests.kept.push_back(of_token * tokens + (encodes ? of_encoded * prompt : Bytes(0)));
    const std::uint64_t at_once = s.workload.prefilled ? 0 : q.decode_begin - q.begin;
    requests.rows.push_back(std::max<std::uint64_t>(at_once, decode_rows(s.speculation)));
  }
  return requests;
}

/// Those that keep most first, and the most rows first: which of them will meet depends on time.
Requests as_they_come(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace) {
  const Bytes of_token = kv_bytes_per_token(s);
  const Bytes of_prompt = s.model.has_encoder() ? cross_kv_bytes_per_token(s.model) : of_token;
  const bool may_give_way = system.batching && s.workload.batch > 1;  // and run again all that it has
  Requests requests;
  for (const ServedRequest& q : served_requests(s, trace)) {
    requests.kept.push_back(of_prompt * q.prompt_tokens + of_token * q.output_tokens);
    const std::uint64_t prompt = q.prefilled ? 0 : q.prompt_tokens;
    const std::uint64_t rows = std::max<std::uint64_t>(prompt, decode_rows(s.speculation));
    requests.rows.push_back(may_give_way ? std::max(final_tokens(batch_request(q)), rows) : rows);
  }
  std::sort(requests.kept.begin(), requests.kept.end(), std::greater<>());
  std::sort(requests.rows.begin(), requests.rows.end(), std::greater<>());
  const std::size_t most = std::min<std::size_t>(requests.kept.size(), s.workload.batch);
  requests.kept.resize(most);
  requests.rows.resize(most);
  return requests;
}

/// The most rows that a step may have: static batches run whole prompts, or micro-batches of them.
std::uint64_t most_rows(const Scenario& s, const SystemConfig& system) {
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  if (system.batching) most = system.batching->max_tokens;
  const bool is_static =
      !system.batching || find_batching_policy(system.batching->policy.name)->static_batches;
  const bool in_micro_batches = is_static && micro_batch_of(system) > 0 && !s.model.has_encoder();
  if (in_micro_batches) most = std::min<std::uint64_t>(most, micro_batch_of(system));
  return std::max<std::uint64_t>(most, std::uint64_t{s.workload.batch} * decode_rows(s.speculation));
}

}  // namespace

LargestBatch largest_batch(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace) {
  const Requests requests = come_in_turn(s, system) ? in_turn(s, trace) : as_they_come(s, system, trace);
  const std::uint64_t most = most_rows(s, system);
  LargestBatch largest;
  for (std::size_t first = 0; first < requests.kept.size(); first += s.workload.batch) {
    const std::size_t end = std::min<std::size_t>(first + s.workload.batch, requests.kept.size());
    Bytes kept = static_cast<double>(end - first) * state_bytes_per_request(s);
    std::uint64_t rows = 0;
    for (std::size_t i = first; i < end; ++i) {
      kept += requests.kept[i];
      rows += requests.rows[i];
    }
    largest.kv_cache = std::max(largest.kv_cache, kept);
    largest.rows = std::max(largest.rows, std::min(rows, most));
  }
  return largest;
}

}  // namespace moelab
