#include "sim/serving/static_batches.hpp"

namespace moelab {

StaticBatches::StaticBatches(const RoutingTrace& trace, std::size_t most, bool encoder_decoder,
                             RequestSource* source)
    : trace_(trace), most_(most), source_(source), batch_(trace, encoder_decoder) {}

// Takes requests into a batch; false: there are none for now.
bool StaticBatches::start(double now) {
  progress_.clear();
  if (source_ == nullptr) {
    for (; progress_.size() < most_ && next_request_ < trace_.requests().size(); ++next_request_)
      progress_.push_back({.arrival = {next_request_, now}});
  } else {
    for (const RequestSource::Arrival& arrival : source_->take(now, most_))
      progress_.push_back({.arrival = arrival});
  }
  if (progress_.empty()) return false;
  std::vector<std::size_t> numbers;
  for (const Progress& p : progress_) numbers.push_back(p.arrival.request);
  batch_.start(numbers);
  began_ = now;
  return true;
}

bool StaticBatches::next(double now, Pass& pass) {
  begins_ = false;
  while (!running_ || !batch_.next(pass)) {
    running_ = begins_ = start(now);
    if (!running_) return false;
  }
  return true;
}

std::optional<double> StaticBatches::next_arrival() const {
  return source_ == nullptr ? std::nullopt : source_->next_time();
}

void StaticBatches::complete(double now, Metrics& metrics, GraphObserver* observer) {
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    if (!batch_.gets_token(i)) continue;
    Progress& p = progress_[i];
    ++metrics.tokens;
    if (p.first_token < 0) {
      p.first_token = now;
      metrics.ttft_s.push_back(now - p.arrival.at_s);
    } else {
      metrics.token_gaps_s.push_back(now - p.last_token);
    }
    p.last_token = now;
    if (!batch_.finishes(i)) continue;
    metrics.end_to_end_s.push_back(now - p.arrival.at_s);
    if (source_ != nullptr) source_->finished(p.arrival, now);
    if (observer != nullptr)
      observer->answered({p.arrival.request, p.arrival.at_s, began_, p.first_token, p.last_token});
  }
}

}  // namespace moelab
