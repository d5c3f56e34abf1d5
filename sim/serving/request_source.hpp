// Where a server's requests come from, and when: they come when they come, one batch after another, or where
// others send them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/serving/arrival_witness.hpp"
#include "sim/serving/served_request.hpp"

namespace moelab {

class RequestSource {
 public:
  virtual ~RequestSource() = default;
  struct Arrival {
    std::uint32_t number;  // its own; those of a server rise
    ServedRequest request;
  };
  /// What has come by `now` and was not taken before, in order of arrival; empty: nothing. Valid until the
  /// next call.
  virtual std::span<const Arrival> take(double now) = 0;
  /// When there may be some, if there are none now; nullopt: never.
  virtual std::optional<double> next_time() const = 0;
  /// One of those taken, which came at `arrival_s`, is answered.
  virtual void finished(std::uint32_t number, double arrival_s, double now) = 0;

  // Of a server that has left its cluster.
  /// One of those taken was under way: it will not be answered.
  virtual void lost(std::uint32_t /*number*/) {}
  /// One of those taken had not begun: take() gives it again, before all that was not taken yet.
  virtual void give_back(const Arrival& /*arrival*/) {}
};

/// Requests that come when they come, numbered in that order.
class ListedRequests final : public RequestSource {
 public:
  /// In order of arrival; they outlive this. Without a witness they come by the server's clock.
  explicit ListedRequests(const std::vector<ServedRequest>& requests, ArrivalWitness witness = {})
      : requests_(requests), witness_(std::move(witness)) {}

  std::span<const Arrival> take(double now) override;
  std::optional<double> next_time() const override;
  void finished(std::uint32_t, double, double) override {}

 private:
  const std::vector<ServedRequest>& requests_;
  ArrivalWitness witness_;
  std::size_t next_ = 0;
  std::vector<Arrival> taken_;
};

/// A trace's requests in its order, so many at a time: they come when those before them are answered. Those
/// with nothing to produce are left out.
class RequestsInTurn final : public RequestSource {
 public:
  /// `trace` outlives this.
  RequestsInTurn(const RoutingTrace& trace, std::size_t together, const Prompts& prompts)
      : trace_(trace), together_(together), prompts_(prompts) {}

  std::span<const Arrival> take(double now) override;
  std::optional<double> next_time() const override { return std::nullopt; }
  void finished(std::uint32_t, double, double) override { --unanswered_; }

 private:
  const RoutingTrace& trace_;
  std::size_t together_;
  Prompts prompts_;
  std::size_t next_ = 0, unanswered_ = 0;
  std::vector<Arrival> taken_;
};

}  // namespace moelab
