// What faults do to servers that call each other's experts.
//
//   a server leaves:    what it computes, for its users and for others, is lost at once; the others learn of
//                       it a detection time later, and experts are placed anew on those that are left
//   it comes back:      with empty GPUs; its users are served from then on with others' experts, and experts
//                       are placed anew a detection time later
#pragma once

#include <memory>
#include <vector>

#include "sim/cluster/fault_player.hpp"
#include "sim/cluster/global_scheduler.hpp"
#include "sim/cluster/placed_server.hpp"

namespace moelab {

class PlacedFaults final : public FaultyServers {
 public:
  /// Everything by reference outlives it.
  PlacedFaults(ClusterWorld& world, std::vector<std::unique_ptr<PlacedServer>>& servers,
               GlobalScheduler& scheduler)
      : world_(world), servers_(servers), scheduler_(scheduler) {}

  void leave(std::size_t server) override;
  void come_back(std::size_t server) override;
  void set_bandwidth(std::size_t server, BytesPerSecond bandwidth) override;
  void played() override { judge_hope(); }
  engine::Process notice(std::size_t server, FaultRecord& record) override;

 private:
  void judge_hope();

  ClusterWorld& world_;
  std::vector<std::unique_ptr<PlacedServer>>& servers_;
  GlobalScheduler& scheduler_;
  bool placed_ = true;  // whether the last placing anew found room for everything
};

}  // namespace moelab
