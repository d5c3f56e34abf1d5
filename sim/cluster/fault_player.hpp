// What goes wrong in a cluster, at the times the scenario states or draws: servers leave and come back,
// network interfaces get slower or faster. What that does to servers is theirs to say:
//
//   placed   (placed_faults.hpp)  servers that call each other
//   alone    (alone_faults.hpp)   servers that each serve alone
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "sim/cluster/cluster_metrics.hpp"
#include "sim/engine/engine.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/servers_present.hpp"
#include "traces/random.hpp"

namespace moelab {

/// The servers of a run, to whom it happens.
class FaultyServers {
 public:
  virtual ~FaultyServers() = default;
  /// Of this moment; ServersPresent says so already.
  virtual void leave(std::size_t server) = 0;
  virtual void come_back(std::size_t server) = 0;
  virtual void set_bandwidth(std::size_t server, BytesPerSecond bandwidth) = 0;
  /// An event has been played, or one that changed nothing.
  virtual void played() {}
  /// What is done about a server that has left or come back, from this moment on; `record` is of it, and
  /// outlives the process.
  virtual engine::Process notice(std::size_t server, FaultRecord& record) = 0;
};

class FaultPlayer {
 public:
  /// Everything by reference outlives the player. `scenario` has a cluster.
  FaultPlayer(engine::Engine& engine, const Scenario& scenario, ServersPresent& present,
              FaultyServers& servers);

  engine::Process run();
  /// What happened, for the result of a run.
  std::vector<FaultRecord> records() const { return {records_.begin(), records_.end()}; }

 private:
  std::optional<FaultEvent> next();
  void play(const FaultEvent& event);
  void draw_next(std::size_t server, double after);
  void expect_returns();

  engine::Engine& engine_;
  const Scenario& scenario_;
  ServersPresent& present_;
  FaultyServers& servers_;
  std::size_t stated_ = 0;         // events of the scenario that have been played
  std::vector<Random> random_;     // by server, where they leave at random
  std::vector<FaultEvent> drawn_;  // by server: its next event
  std::vector<std::unique_ptr<engine::Process>> processes_;
  std::deque<FaultRecord> records_;  // stay where they are
};

}  // namespace moelab
