// Where a server's requests come from, and when: they come when they come, one batch after another, or where
// others send them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "sim/scenario/workload_config.hpp"
#include "sim/serving/arrival_witness.hpp"
#include "sim/serving/served_request.hpp"

namespace moelab {

class ChangeBell;

class RequestSource {
 public:
  virtual ~RequestSource() = default;
  struct Arrival {
    std::uint32_t number;  // its own
    ServedRequest request;
    /// How many came before it; kByNumber: as many as its number says.
    std::uint32_t order = kByNumber;
  };
  static constexpr std::uint32_t kByNumber = ~std::uint32_t{0};
  /// What has come by `now` and was not taken before, in order of arrival; empty: nothing. Valid until the
  /// next call.
  virtual std::span<const Arrival> take(double now) = 0;
  /// When there may be some, if there are none now; nullopt: never.
  virtual std::optional<double> next_time() const = 0;
  /// One of those taken, which came at `arrival_s`, is answered.
  virtual void finished(std::uint32_t number, double arrival_s, double now) = 0;

  /// Of one whose requests come when others send them: what rings when there may be more to do. nullptr:
  /// next_time() says when.
  virtual ChangeBell* bell() { return nullptr; }
  /// One of those taken, which fetches its keys and values, has the blocks for them.
  virtual void has_blocks(std::uint32_t /*number*/) {}

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

/// Requests that users send: each its next one a think time after the answer to the one before, and its first
/// a think time after the beginning (where all think times are the same, users begin evenly within the first
/// one). They are sent in the order of the list; request number i is followed by think time number i.
class ClosedLoopRequests final : public RequestSource {
 public:
  /// `requests` outlives this.
  ClosedLoopRequests(const std::vector<ServedRequest>& requests, const ClosedLoop& loop, std::uint64_t seed);

  std::span<const Arrival> take(double now) override;
  std::optional<double> next_time() const override;
  void finished(std::uint32_t number, double arrival_s, double now) override;

 private:
  /// Seconds; numbers below the users' are of the first think times.
  double think_time(std::uint64_t number) const;

  const std::vector<ServedRequest>& requests_;
  ClosedLoop loop_;
  std::uint64_t seed_;
  std::priority_queue<double, std::vector<double>, std::greater<>> sending_;  // when users send next
  std::size_t next_ = 0;
  std::vector<Arrival> taken_;
};

/// Requests of conversations: the first of each comes when it comes, each other one its think time after the
/// answer to the one before. They have their places in the list as numbers.
class ConversationRequests final : public RequestSource {
 public:
  /// In the order of their conversations' first arrivals, one conversation after the other; they outlive
  /// this.
  explicit ConversationRequests(const std::vector<ServedRequest>& requests) : requests_(requests) {}

  std::span<const Arrival> take(double now) override;
  std::optional<double> next_time() const override;
  void finished(std::uint32_t number, double arrival_s, double now) override;

 private:
  using Sending = std::pair<double, std::size_t>;  // when, and which of the list
  void take(const Sending& sending);

  const std::vector<ServedRequest>& requests_;
  std::size_t next_ = 0;    // of the list, of those that begin a conversation
  std::uint32_t come_ = 0;  // requests so far
  std::priority_queue<Sending, std::vector<Sending>, std::greater<>> sending_;  // those that go on
  std::vector<Arrival> taken_;
};

/// A trace's requests in its order, so many at a time: they come when those before them are answered. Those
/// with nothing to produce are left out.
class RequestsInTurn final : public RequestSource {
 public:
  /// `trace` outlives this. `classes`: by number; empty: there are none.
  RequestsInTurn(const RoutingTrace& trace, std::size_t together, const Prompts& prompts,
                 std::vector<std::uint16_t> classes = {})
      : trace_(trace), together_(together), prompts_(prompts), classes_(std::move(classes)) {}

  std::span<const Arrival> take(double now) override;
  std::optional<double> next_time() const override { return std::nullopt; }
  void finished(std::uint32_t, double, double) override { --unanswered_; }

 private:
  const RoutingTrace& trace_;
  std::size_t together_;
  Prompts prompts_;
  std::vector<std::uint16_t> classes_;
  std::size_t next_ = 0, unanswered_ = 0;
  std::vector<Arrival> taken_;
};

/// `requests` as they come to a scenario's server, which are not in turn: from its users, or when they come
/// (by `witness`, where there is one). They outlive it.
std::unique_ptr<RequestSource> make_request_source(const Scenario& scenario,
                                                   const std::vector<ServedRequest>& requests,
                                                   ArrivalWitness witness);

}  // namespace moelab
