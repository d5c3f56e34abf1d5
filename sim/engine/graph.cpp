#include "sim/engine/graph.hpp"

#include <algorithm>
#include <cassert>

namespace moelab::engine {

void Graph::clear() {
  assert(state_ != State::submitted);
  ops_.clear();
  edges_.clear();
  lanes_.clear();
  foreign_.clear();
  state_ = State::building;
  waiter_ = {};
}

Lane Graph::lane(ResourceId resource) {
  const auto found = std::find(lanes_.begin(), lanes_.end(), resource);
  if (found != lanes_.end()) return static_cast<Lane>(found - lanes_.begin());
  assert(lanes_.size() < 255);
  lanes_.push_back(resource);
  return static_cast<Lane>(lanes_.size() - 1);
}

OpIndex Graph::add_continuation(OpIndex before, double seconds) {
  assert(before + 1 == ops_.size());
  ops_[before].continued = true;
  return add(ops_[before].lane, seconds);
}

void Graph::depend_on(OpIndex after, Graph& other) {
  if (other.finished()) return;
  assert(other.submitted());
  foreign_.emplace_back(after, &other);
}

void Graph::prepare(double now) {
  ready_words_ = (ops_.size() + 63) / 64;
  summary_words_ = (ready_words_ + 63) / 64;
  ready_.assign(lanes_.size() * ready_words_, 0);
  summary_.assign(lanes_.size() * summary_words_, 0);
  runs_.resize(ops_.size());
  bool continuation = false;
  for (OpIndex i = 0; i < ops_.size(); ++i) {
    const std::uint32_t unmet = ops_[i].dependencies + (continuation ? 1u : 0u);
    runs_[i] = {kNotYet, kNotYet, unmet, kNoOp};
    continuation = ops_[i].continued;
  }
  for (const auto& [op, other] : foreign_) {
    if (other->finished()) continue;
    ++runs_[op].unmet;
    other->followers_.emplace_back(this, op);
  }
  for (OpIndex i = 0; i < ops_.size(); ++i)
    if (runs_[i].unmet == 0) set_ready(i);
  started_ = 0;
  last_ = kNoOp;
  unfinished_ = ops_.size();
  submitted_at_ = now;
  finished_at_ = kNotYet;
  state_ = State::submitted;
}

void Graph::take_unstarted_out() {
  std::fill(ready_.begin(), ready_.end(), 0);
  std::fill(summary_.begin(), summary_.end(), 0);
  // What runs now still ends; a continuation of it does not begin.
  unfinished_ = 0;
  for (OpIndex i = 0; i < ops_.size(); ++i) {
    if (runs_[i].start == kNotYet) {
      runs_[i].unmet = kNoOp;  // no completion makes it ready
    } else if (runs_[i].end == kNotYet) {
      ++unfinished_;
    }
  }
  for (const auto& [op, other] : foreign_)
    std::erase_if(other->followers_, [this](const auto& follower) { return follower.first == this; });
  foreign_.clear();
}

}  // namespace moelab::engine
