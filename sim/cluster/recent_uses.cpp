#include "sim/cluster/recent_uses.hpp"

#include <cmath>

namespace moelab {

namespace {

using Statistics = MigrationConfig::Statistics;

}  // namespace

RecentUses::RecentUses(const PlacementShape& shape, const std::optional<MigrationConfig>& config)
    : config_(config),
      empty_(config ? shape.servers.size() : 0, shape.layers, shape.experts),
      recent_(empty_),
      counts_(empty_) {}

void RecentUses::look(double elapsed) {
  if (!config_) return;
  if (config_->statistics == Statistics::decay) {
    const double kept = std::exp2(-elapsed / config_->window.value());
    counts_.scale(kept);
    seconds_ *= kept;
  }
  counts_.add(recent_);
  seconds_ += elapsed;
  if (config_->statistics == Statistics::window) {
    parts_.push_back({recent_, elapsed});
    // The oldest part goes once the rest is as long as the window.
    while (parts_.size() > 1 && seconds_ - parts_.front().seconds >= config_->window.value() * (1 - 1e-9)) {
      seconds_ -= parts_.front().seconds;
      parts_.pop_front();
    }
    counts_ = empty_;
    for (const Part& part : parts_) counts_.add(part.counts);
  }
  recent_ = empty_;
}

void RecentUses::changed() {
  if (!config_ || config_->statistics != Statistics::since_change) return;
  counts_ = empty_;
  recent_ = empty_;
  seconds_ = 0;
}

}  // namespace moelab
