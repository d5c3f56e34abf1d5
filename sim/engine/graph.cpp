#include "sim/engine/graph.hpp"

#include <algorithm>
#include <cassert>
#include <sstream>
#include <stdexcept>
#include <string>

namespace moelab::engine {
namespace {

std::string too_long(double seconds) {
  std::ostringstream text;
  text << "an operation takes " << seconds << " s, expected at most " << kLongest << " s";
  return text.str();
}

}  // namespace

TooLong::TooLong(double seconds) : std::range_error(too_long(seconds)) {}

void Graph::clear() {
  assert(state_ != State::submitted);
  ops_.clear();
  shares_.clear();
  flows_.clear();
  edges_.clear();
  lanes_.clear();
  foreign_.clear();
  state_ = State::building;
  waiter_ = {};
}

Lane Graph::lane(ResourceId resource) {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                  [resource](const LaneState& lane) { return lane.resource == resource; });
  if (found != lanes_.end()) return static_cast<Lane>(found - lanes_.begin());
  assert(lanes_.size() < 255);
  lanes_.push_back({});
  lanes_.back().resource = resource;
  return static_cast<Lane>(lanes_.size() - 1);
}

OpIndex Graph::add_continuation(OpIndex before, double seconds) {
  assert(before + 1 == ops_.size());
  ops_[before].continued = true;
  const OpIndex op = add(ops_[before].lane, seconds);
  ops_[op].needs = 1;
  return op;
}

void Graph::flow(OpIndex op, NodeId from, NodeId to, double bytes) {
  if (from == to) throw std::invalid_argument("engine: node " + std::to_string(from) + " sends to itself");
  if (!(bytes >= 0) || bytes == std::numeric_limits<double>::infinity())
    throw std::invalid_argument("engine: an operation sends " + std::to_string(bytes) + " bytes");
  assert(ops_[op].capacity == kNoCapacity);
  ops_[op].capacity = kNetwork;
  ops_[op].share = static_cast<std::uint32_t>(flows_.size());
  flows_.push_back({from, to, bytes});
}

void Graph::depend_on(OpIndex after, Graph& other) {
  if (other.finished()) return;
  assert(other.submitted());
  foreign_.emplace_back(after, &other);
}

void Graph::prepare(double epoch, double now_since_epoch, double now) {
  const std::size_t words = (ops_.size() + 63) / 64, tops = (words + 63) / 64;
  ready_.assign(lanes_.size() * (words + tops), 0);
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    LaneState& lane = lanes_[i];
    std::uint64_t* const bits = ready_.data() + i * (words + tops);
    lane.ready = {bits, bits + words, tops};
    lane.busy_seconds = 0;
  }
  unmet_.resize(ops_.size());
  starts_.assign(ops_.size(), kNotYet);
  ends_.assign(ops_.size(), kNotYet);
  last_dependencies_.assign(ops_.size(), kNoOp);
  met_by_others_.clear();
  for (OpIndex i = 0; i < ops_.size(); ++i) unmet_[i] = ops_[i].needs;
  for (const auto& [op, other] : foreign_) {
    if (other->finished()) continue;
    ++unmet_[op];
    other->followers_.emplace_back(this, op);
  }
  for (OpIndex i = 0; i < ops_.size(); ++i)
    if (unmet_[i] == 0) set_ready(i);
  started_ = 0;
  last_ = kNoOp;
  unfinished_ = ops_.size();
  epoch_ = epoch;
  submitted_local_ = now_since_epoch;
  submitted_at_ = now;
  finished_local_ = finished_at_ = kNotYet;
  state_ = State::submitted;
}

Outcome Graph::outcome() const {
  assert(finished() && lanes_.size() <= Outcome::kMostLanes);
  Outcome outcome{finished_local_ - submitted_local_, started_, lanes_.size(), {}};
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    outcome.busy[i] = {lanes_[i].resource, lanes_[i].busy_seconds};
  return outcome;
}

double Graph::ready(OpIndex op) const {
  if (last_dependencies_[op] != kNoOp) return end(last_dependencies_[op]);
  for (const auto& [waited, at] : met_by_others_)
    if (waited == op) return epoch_ + at;
  return epoch_ + submitted_local_;
}

void Graph::take_no_time(std::span<const std::uint8_t> on_resources) {
  for (Op& op : ops_) {
    if (on_resources[lanes_[op.lane].resource] == 0) continue;
    op.seconds = 0;
    op.capacity = kNoCapacity;
  }
}

void Graph::take_unstarted_out() {
  std::fill(ready_.begin(), ready_.end(), 0);
  // What runs now still ends; a continuation of it does not begin.
  unfinished_ = 0;
  for (OpIndex i = 0; i < ops_.size(); ++i) {
    if (starts_[i] == kNotYet) {
      unmet_[i] = kNoOp;  // no completion makes it ready
    } else if (ends_[i] == kNotYet) {
      ++unfinished_;
    }
  }
  for (const auto& [op, other] : foreign_)
    std::erase_if(other->followers_, [this](const auto& follower) { return follower.first == this; });
  foreign_.clear();
}

}  // namespace moelab::engine
