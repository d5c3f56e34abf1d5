// Requests as they come and go: arrivals, the batching policy that forms steps of them, and the pass that
// each step is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policies/batching/batching.hpp"
#include "sim/serving/batch.hpp"
#include "sim/serving/graph_observer.hpp"
#include "sim/serving/metrics.hpp"
#include "sim/serving/paged_plan.hpp"

namespace moelab {

/// The scenario's requests, in order of arrival: those of its log, or of one length with arrivals drawn from
/// the seed, or, with a recorded trace, the trace's. Those that are not the trace's begin on it spread
/// evenly, and wrap around at its end. Throws InputError for recorded requests without rows to decode
/// where the workload is prefilled, and for arrivals later than kLatestArrival.
std::vector<ServedRequest> served_requests(const Scenario& scenario, const RoutingTrace& trace);

/// Where request `number` begins on rows that requests share: multiples of the golden ratio, which lie apart
/// from each other as evenly as can be for any number of requests. (Requests that began at the same row would
/// use the same experts in each step.)
std::uint64_t spread_row(std::uint64_t number, std::uint64_t rows);

/// The scenario's batching policy over the KV cache that is planned.
std::unique_ptr<BatchingPolicy> make_batching(const Scenario& scenario, const PagingConfig& paging,
                                              const MemoryPlan& memory);

/// Why a request could never be served, as BatchingPolicy::misfit says it; "" where it could.
std::string misfit(const BatchingPolicy& policy, const ServedRequest& request, bool prefilled);

class RequestStream {
 public:
  /// Everything by reference outlives the stream. `requests` in order of arrival.
  RequestStream(const std::vector<ServedRequest>& requests, bool prefilled, std::uint64_t trace_rows,
                BatchingPolicy& policy);

  /// Forms the next step of what has arrived by `now` and fills `pass`; false: nothing can run.
  bool next(double now, Pass& pass);
  /// When the next request comes; nullopt: all have come.
  std::optional<double> next_arrival() const;
  /// Of the step that next() formed.
  const BatchStep& step() const { return step_; }
  /// The step has run: counts its tokens, first and last ones included, and shows the requests that it
  /// answered to an observer, if there is one.
  void complete(double now, Metrics& metrics, GraphObserver* observer = nullptr);

 private:
  struct Progress {
    double begin = -1, first_token = -1, last_token = -1;
    std::uint32_t tokens = 0;  // generated
  };
  void announce(double now);
  void add_rows(const StepShare& share, Pass& pass) const;

  const std::vector<ServedRequest>& requests_;
  bool prefilled_;
  std::uint64_t trace_rows_;
  BatchingPolicy& policy_;
  std::size_t arrived_ = 0;
  std::vector<Progress> progress_;  // by request
  BatchStep step_;
};

}  // namespace moelab
