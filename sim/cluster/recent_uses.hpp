// What each server's users have asked of the experts lately: what a global scheduler places by.
#pragma once

#include <cstdint>
#include <deque>

#include "policies/placement/placement.hpp"
#include "sim/scenario/system_config.hpp"

namespace moelab {

class RecentUses {
 public:
  /// `config` absent: no scheduler looks at them, and nothing is kept.
  RecentUses(const PlacementShape& shape, const std::optional<MigrationConfig>& config);

  void add(std::uint32_t server, std::uint32_t layer, std::uint32_t expert, double tokens) {
    if (config_) recent_.add(server, layer, expert, tokens);
  }
  /// Takes what came since the last call into account, as the configuration says; `elapsed` seconds since
  /// then.
  void look(double elapsed);
  /// As of the last look().
  const ActivationCounts& counts() const { return counts_; }
  double seconds() const { return seconds_; }  // that counts() stand for
  /// The placement has changed.
  void changed();

 private:
  struct Part {
    ActivationCounts counts;
    double seconds;
  };
  std::optional<MigrationConfig> config_;
  ActivationCounts empty_, recent_, counts_;
  double seconds_ = 0;
  std::deque<Part> parts_;  // of a window, the oldest first
};

}  // namespace moelab
