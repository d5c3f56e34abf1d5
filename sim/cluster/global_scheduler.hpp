// The global scheduler of a cluster (Prism, section III-C3): every so often it looks at what users asked of
// the experts and places them anew; if that saves more than it costs, experts move, one after the other on
// each GPU, while serving goes on. After a server has left or come back it places them anew in any case.
//
// How experts move. Each GPU has room for one expert more than it is to hold (where the system migrates). A
// mover loads an expert into free room; when it is there, calls find it. Then it lets an expert go that is
// not to stay, if another server or GPU has it; calls that are on their way to it are awaited before its room
// is overwritten. Where every mover waits for another one's expert, one lets go all the same: calls for it
// wait until it is where it is to be.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/cluster/cluster_metrics.hpp"
#include "sim/cluster/cluster_world.hpp"

namespace moelab {

class GlobalScheduler {
 public:
  explicit GlobalScheduler(ClusterWorld& world);

  /// Decides every interval until no server has requests left.
  engine::Process run();
  /// Places experts anew on the servers that are up, whatever it costs. False: they cannot hold them all.
  bool recover();

  const std::vector<MigrationRecord>& records() const { return records_; }

 private:
  struct Object {
    std::uint32_t layer, expert;
  };
  /// What one GPU is still to do.
  struct Mover {
    std::vector<Object> coming, going;  // the next one last
    bool busy = false;                  // its process runs
    bool loading = false;
    LabelledGraph load;
  };

  engine::Process move(std::uint32_t gpu);
  void decide();
  std::optional<Placement> place(const ActivationCounts& counts) const;
  void adopt(Placement target);
  void list_moves(std::uint32_t gpu);
  bool let_go(std::uint32_t gpu, bool forced);
  void submit_load(std::uint32_t gpu, const Object& object);
  std::uint32_t nearest_holder(std::uint32_t gpu, const Object& object) const;
  std::uint64_t room(std::uint32_t gpu) const;
  bool any_gpu_loads() const;
  void finish_moves();
  const ActivationCounts& known_counts() const;

  ClusterWorld& world_;
  PlacementShape shape_;  // with the servers that are up
  Placement target_;
  std::vector<Mover> movers_;  // by GPU
  std::vector<std::unique_ptr<engine::Process>> processes_;
  std::size_t moving_ = 0;  // movers that are busy
  double looked_at_ = 0;
  std::vector<MigrationRecord> records_;
};

}  // namespace moelab
