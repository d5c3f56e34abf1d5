// What goes wrong in a cluster, at the times the scenario states or draws: servers leave and come back,
// network interfaces get slower or faster.
//
//   a server leaves:    what it computes, for its users and for others, is lost at once; the others learn of
//                       it a detection time later, and experts are placed anew on those that are left
//   it comes back:      with empty GPUs; its users are served from then on with others' experts, and experts
//                       are placed anew a detection time later
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sim/cluster/global_scheduler.hpp"
#include "sim/cluster/placed_server.hpp"
#include "traces/random.hpp"

namespace moelab {

class FaultPlayer {
 public:
  /// Everything by reference outlives the player.
  FaultPlayer(ClusterWorld& world, std::vector<std::unique_ptr<PlacedServer>>& servers,
              GlobalScheduler& scheduler);

  engine::Process run();
  /// What happened. Whether experts that were lost are there again is looked up at the end of the run.
  const std::vector<FaultRecord>& records() const { return records_; }

 private:
  std::optional<FaultEvent> next();
  void play(const FaultEvent& event);
  engine::Process notice(std::size_t record);
  void draw_next(std::size_t server, double after);
  void expect_returns();
  void judge_hope();

  ClusterWorld& world_;
  std::vector<std::unique_ptr<PlacedServer>>& servers_;
  GlobalScheduler& scheduler_;
  bool placed_ = true;             // whether the last placing anew found room for everything
  std::size_t stated_ = 0;         // events of the scenario that have been played
  std::vector<Random> random_;     // by server, where they leave at random
  std::vector<FaultEvent> drawn_;  // by server: its next event
  std::vector<std::unique_ptr<engine::Process>> processes_;
  std::vector<FaultRecord> records_;
};

}  // namespace moelab
