// Where each server of a cluster serves alone: to which of them a request goes when it comes. Its own, or,
// with redirection, the one that has the fewest requests waiting and running (its own among equals) of those
// that are not known to have left the cluster (of none, its own). What has been sent to a server that leaves
// waits there for its return, unless it was under way: then it is lost.
#pragma once

#include <memory>
#include <vector>

#include "sim/scenario/system_config.hpp"
#include "sim/serving/request_source.hpp"

namespace moelab {

class Redirector {
 public:
  struct Request {
    std::size_t server;  // whose user asks
    ServedRequest asks;
  };
  /// `requests` in order of arrival, which numbers them.
  Redirector(std::vector<Request> requests, std::size_t servers, Redirection way);

  ~Redirector();

  /// What a server serves; lives as long as the redirector.
  RequestSource& source(std::size_t server);
  /// Requests that went to another server than their user's.
  std::uint64_t redirected() const { return redirected_; }
  /// Of a server's users: from when each request came to its last token, in the order of their ends.
  const std::vector<double>& latencies(std::size_t server) const { return latencies_[server]; }

  /// Sends what has come by `now` to where it goes.
  void assign_until(double now);
  /// Whether a server is there from now on, and whether that is known, which redirection goes by. What came
  /// before has been assigned (assign_until).
  void set_up(std::size_t server, bool up) { up_[server] = up ? 1 : 0; }
  void set_known_up(std::size_t server, bool up) { known_up_[server] = up ? 1 : 0; }
  /// Of a server's users' requests: those that came and went to a server that was away.
  std::uint64_t delayed(std::size_t server) const { return delayed_[server]; }
  /// At the end of a run: those that were never answered.
  std::uint64_t failed(std::size_t server) const { return asked_[server] - latencies_[server].size(); }

 private:
  class Source;

  std::size_t choose(std::size_t own) const;

  std::vector<Request> requests_;
  Redirection way_;
  std::size_t next_ = 0;  // that has come to no server yet
  std::uint64_t redirected_ = 0;
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<std::vector<double>> latencies_;  // by server, as all below
  std::vector<std::uint8_t> up_, known_up_;
  std::vector<std::uint64_t> asked_, delayed_;
};

}  // namespace moelab
