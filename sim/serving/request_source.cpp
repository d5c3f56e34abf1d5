#include "sim/serving/request_source.hpp"

#include <algorithm>

#include "models/input_error.hpp"
#include "sim/scenario.hpp"
#include "traces/portable_math.hpp"
#include "traces/random.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

std::span<const RequestSource::Arrival> ListedRequests::take(double now) {
  taken_.clear();
  std::size_t come = next_;
  while (come < requests_.size() && requests_[come].arrival_s <= now) ++come;
  if (witness_) come = std::min(witness_(come), requests_.size());
  for (; next_ < come; ++next_) taken_.push_back({static_cast<std::uint32_t>(next_), requests_[next_]});
  return taken_;
}

std::optional<double> ListedRequests::next_time() const {
  if (next_ == requests_.size()) return std::nullopt;
  return requests_[next_].arrival_s;
}

namespace {
constexpr std::uint64_t kThinkStream = 0x510e527fade682d1;
}

ClosedLoopRequests::ClosedLoopRequests(const std::vector<ServedRequest>& requests, const ClosedLoop& loop,
                                       std::uint64_t seed)
    : requests_(requests), loop_(loop), seed_(seed) {
  for (std::uint32_t user = 0; user < loop_.users; ++user)
    sending_.push(loop_.exponential ? think_time(user) : loop_.think_s * user / loop_.users);
}

double ClosedLoopRequests::think_time(std::uint64_t number) const {
  if (!loop_.exponential) return loop_.think_s;
  return -portable_log(1 - Random(seed_, kThinkStream, number).uniform()) * loop_.think_s;
}

std::span<const RequestSource::Arrival> ClosedLoopRequests::take(double now) {
  taken_.clear();
  while (next_ < requests_.size() && !sending_.empty() && sending_.top() <= now) {
    Arrival& arrival = taken_.emplace_back(Arrival{static_cast<std::uint32_t>(next_), requests_[next_]});
    arrival.request.arrival_s = sending_.top();
    sending_.pop();
    ++next_;
  }
  return taken_;
}

std::optional<double> ClosedLoopRequests::next_time() const {
  if (next_ == requests_.size() || sending_.empty()) return std::nullopt;
  return sending_.top();
}

void ClosedLoopRequests::finished(std::uint32_t number, double, double now) {
  sending_.push(now + think_time(std::uint64_t{loop_.users} + number));
}

void ConversationRequests::take(const Sending& sending) {
  Arrival& arrival = taken_.emplace_back(
      Arrival{static_cast<std::uint32_t>(sending.second), requests_[sending.second], come_++});
  arrival.request.arrival_s = sending.first;
}

std::span<const RequestSource::Arrival> ConversationRequests::take(double now) {
  taken_.clear();
  for (std::optional<double> at = next_time(); at && *at <= now; at = next_time()) {
    if (!sending_.empty() && sending_.top().first == *at) {
      take(sending_.top());
      sending_.pop();
      continue;
    }
    take({*at, next_});
    do ++next_;
    while (next_ < requests_.size() && requests_[next_].goes_on());
  }
  return taken_;
}

std::optional<double> ConversationRequests::next_time() const {
  std::optional<double> at;
  if (next_ < requests_.size()) at = requests_[next_].arrival_s;
  if (!sending_.empty() && (!at || sending_.top().first < *at)) at = sending_.top().first;
  return at;
}

void ConversationRequests::finished(std::uint32_t number, double, double now) {
  const std::size_t next = number + std::size_t{1};
  if (next < requests_.size() && requests_[next].goes_on())
    sending_.emplace(now + requests_[next].think_s, next);
}

std::span<const RequestSource::Arrival> RequestsInTurn::take(double now) {
  taken_.clear();
  if (unanswered_ > 0) return taken_;
  for (; taken_.size() < together_ && next_ < trace_.requests().size(); ++next_) {
    ServedRequest request = trace_request(trace_, next_, prompts_);
    if (request.output_tokens == 0) continue;
    request.arrival_s = now;
    if (next_ < classes_.size()) request.of_class = classes_[next_];
    taken_.push_back({static_cast<std::uint32_t>(next_), request});
  }
  unanswered_ = taken_.size();
  return taken_;
}

std::unique_ptr<RequestSource> make_request_source(const Scenario& s,
                                                   const std::vector<ServedRequest>& requests,
                                                   ArrivalWitness witness) {
  if (has_conversations(s.workload)) {
    if (witness)
      throw InputError(
          s.name,
          "workload.conversations: they go on by answers, in simulated time; on hardware requests "
          "come all at once, by 'arrivals_per_s' or from a 'request_log'");
    return std::make_unique<ConversationRequests>(requests);
  }
  if (!s.workload.closed_loop) return std::make_unique<ListedRequests>(requests, std::move(witness));
  if (witness)
    throw InputError(
        s.name,
        "workload.closed_loop: its users send by answers, in simulated time; on hardware requests "
        "come all at once, by 'arrivals_per_s' or from a 'request_log'");
  return std::make_unique<ClosedLoopRequests>(requests, *s.workload.closed_loop, s.seed);
}

}  // namespace moelab
