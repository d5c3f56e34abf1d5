// Static batches as they come and go: which requests each is made of, its passes, and when its tokens came.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/serving/batch.hpp"
#include "sim/serving/graph_observer.hpp"
#include "sim/serving/metrics.hpp"

namespace moelab {

/// Which requests a server serves next, and when they came: where they come when they come, or go where
/// others send them.
class RequestSource {
 public:
  virtual ~RequestSource() = default;
  struct Arrival {
    std::size_t request;  // its number in the trace
    double at_s;
  };
  /// Takes up to `most` requests that are there at `now`; empty: there are none.
  virtual std::span<const Arrival> take(double now, std::size_t most) = 0;
  /// When there may be some, if there are none now; nullopt: never.
  virtual std::optional<double> next_time() const = 0;
  /// One of those taken is answered.
  virtual void finished(const Arrival& arrival, double now) = 0;
};

class StaticBatches {
 public:
  /// Of at most so many requests each. `source`: nullptr: the trace's requests in order, each of which comes
  /// when the batch before is done. Everything by reference outlives this.
  StaticBatches(const RoutingTrace& trace, std::size_t most, bool encoder_decoder, RequestSource* source);

  /// The next pass of the batch, or the first of the next one, of what is there at `now`; false: nothing is.
  bool next(double now, Pass& pass);
  /// Whether that is the first pass of its batch.
  bool begins() const { return begins_; }
  /// When the next request may come; nullopt: all have come.
  std::optional<double> next_arrival() const;
  /// The pass has run: counts its tokens, first and last ones included, and shows the requests that it
  /// answered to an observer, if there is one.
  void complete(double now, Metrics& metrics, GraphObserver* observer);

 private:
  struct Progress {
    RequestSource::Arrival arrival;
    double first_token = -1, last_token = -1;  // negative: none yet
  };
  bool start(double now);

  const RoutingTrace& trace_;
  std::size_t most_;
  RequestSource* source_;
  Batch batch_;
  bool running_ = false, begins_ = false;
  double began_ = 0;                // when the batch was formed
  std::size_t next_request_ = 0;    // without a source
  std::vector<Progress> progress_;  // by request of the batch
};

}  // namespace moelab
