#include "sim/serving/request_source.hpp"

#include <algorithm>

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

std::span<const RequestSource::Arrival> RequestsInTurn::take(double now) {
  taken_.clear();
  if (unanswered_ > 0) return taken_;
  for (; taken_.size() < together_ && next_ < trace_.requests().size(); ++next_) {
    ServedRequest request = trace_request(trace_, next_, prompts_);
    if (request.output_tokens == 0) continue;
    request.arrival_s = now;
    taken_.push_back({static_cast<std::uint32_t>(next_), request});
  }
  unanswered_ = taken_.size();
  return taken_;
}

}  // namespace moelab
