// Where each server of a cluster serves alone: to which of them a request goes when it comes. Its own, or,
// with redirection, the one that has the fewest requests waiting and running (its own among equals).
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

 private:
  class Source;

  void assign_until(double now);

  std::vector<Request> requests_;
  Redirection way_;
  std::size_t next_ = 0;  // that has come to nobody yet
  std::uint64_t redirected_ = 0;
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<std::vector<double>> latencies_;  // by server
};

}  // namespace moelab
