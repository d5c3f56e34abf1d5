// Requests as they come and go: a source announces them, the batching policy forms steps of them, and each
// step is a pass over rows of the trace.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "policies/batching/batching.hpp"
#include "sim/serving/drafts.hpp"
#include "sim/serving/graph_observer.hpp"
#include "sim/serving/measured_range.hpp"
#include "sim/serving/metrics.hpp"
#include "sim/serving/pass.hpp"
#include "sim/serving/request_source.hpp"

namespace moelab {

class RequestStream {
 public:
  /// Everything by reference outlives the stream.
  RequestStream(RequestSource& source, const RoutingTrace& trace, BatchingPolicy& policy,
                const Drafts& drafts = {})
      : source_(source), trace_(trace), policy_(policy), drafts_(drafts) {}

  /// Statistics are of these requests; without a call, of all.
  void measure(const MeasuredRange& range) { measured_ = range; }
  /// Forms the next step of what has arrived by `now` and fills `pass`; false: nothing can run. Tells the
  /// source which requests have blocks for what they fetch, either way.
  bool next(double now, Pass& pass);
  /// Whether the step that next() formed runs only requests that no step before it ran, and none before them
  /// is unanswered: a batch of its own begins.
  bool begins() const { return begins_; }
  /// When the next request may come; nullopt: all have come.
  std::optional<double> next_arrival() const { return source_.next_time(); }
  /// Forgets all requests: those under way are lost, the others go back to the source.
  void abandon(Metrics& metrics);
  RequestSource& source() const { return source_; }
  const Drafts& drafts() const { return drafts_; }
  /// Of the step that next() formed. Requests have the source's numbers.
  const BatchStep& step() const { return step_; }
  /// Requests that get their last token in it.
  const std::vector<std::uint32_t>& ends() const { return ends_; }
  /// The step has run: counts its tokens, first and last ones included, and shows the requests that it
  /// answered to an observer, if there is one.
  void complete(double now, Metrics& metrics, GraphObserver* observer = nullptr);
  /// The step has run; nothing is counted.
  void complete(double now);

 private:
  /// A request that has come and is not answered.
  struct Live {
    ServedRequest request;
    double begin = -1, first_token = -1, last_token = -1;  // negative: not yet
    std::uint32_t tokens = 0;                              // generated
    std::uint32_t preempted = 0;
    std::uint32_t cached_tokens = 0;  // of its prompt, that its first rows found in the cache
    bool ran = false;                 // some of it
    double longest_gap_s = -1;
    bool measured = true;
  };
  void announce(double now);
  void release_rows();
  void verify_drafts(Pass& pass);
  void count_tokens(const StepShare& share, std::uint32_t refused, double now, Metrics& metrics,
                    GraphObserver* observer);
  static RequestTimes times_of(std::uint32_t number, const Live& live);
  void add_rows(const StepShare& share, const ServedRequest& request, Pass& pass) const;
  static void add_share(const StepShare& share, const ServedRequest& request, Pass& pass);

  RequestSource& source_;
  const RoutingTrace& trace_;
  BatchingPolicy& policy_;
  Drafts drafts_;
  std::unordered_map<std::uint32_t, Live> live_;
  std::deque<std::uint32_t> in_order_;  // of arrival: at the front one of live_
  std::uint64_t released_ = 0;          // row: those before it may have left the memory
  std::size_t running_ = 0;             // requests: admitted and not answered
  bool begins_ = false;
  BatchStep step_;
  std::vector<std::uint32_t> refused_;  // by share of the step: of its last tokens; empty: nothing is drafted
  std::vector<std::uint32_t> ends_;     // of the step: requests
  MeasuredRange measured_;
};

/// Static batches of at most `together` requests, which no memory limits: a plan has seen to it. Of prompts a
/// step runs at most `micro_batch` tokens; 0: whole ones. `drafts`: for each of them that decodes.
std::unique_ptr<BatchingPolicy> make_static_batches(std::uint32_t together, std::uint32_t micro_batch = 0,
                                                    std::uint32_t drafts = 0);

/// The passes of a trace's static batches, one batch after another, for who needs no times.
class StaticPasses {
 public:
  /// `trace` outlives this. Batches of `together` requests.
  StaticPasses(const RoutingTrace& trace, std::uint32_t together, const Prompts& prompts,
               std::uint32_t micro_batch = 0, const Drafts& drafts = {});
  /// Fills `pass` with the next one; false: there is none.
  bool next(Pass& pass);
  /// Whether that is the first one of its batch.
  bool begins() const { return stream_.begins(); }

 private:
  RequestsInTurn source_;
  std::unique_ptr<BatchingPolicy> policy_;
  RequestStream stream_;
  bool running_ = false;
};

}  // namespace moelab
