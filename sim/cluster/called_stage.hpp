// Experts that are called where they are, on this server and on others of its cluster.
//
//   layer:  host -> attention on the first GPU -> experts, at home and elsewhere at once -> the slowest ends
//   it
//
// A server may leave the cluster and come back; its requests under way are lost then, the others wait.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sim/cluster/cluster_metrics.hpp"
#include "sim/cluster/cluster_world.hpp"
#include "sim/cluster/expert_calls.hpp"
#include "sim/serving/draft_times.hpp"
#include "sim/serving/layer_uses.hpp"
#include "sim/serving/server_state.hpp"
#include "sim/serving/serving_stage.hpp"

namespace moelab {

class CalledStage final : public ServingStage {
 public:
  /// Everything by reference outlives the stage. `requests` in order of arrival; the stage has `state` serve
  /// them.
  CalledStage(ServerState& state, ClusterWorld& world, std::uint32_t number,
              const std::vector<ServedRequest>& requests);

  void begin_step() override;
  StageWait begin_drafting() override;
  StageWait begin_layer(std::size_t layer) override;
  StageWait begin_head() override;
  StageWait begin_end() override;
  StageWait next() override;
  void end_step(const KvUse& use) override;
  const TimingModel& timing() const override { return *node_.timing; }
  bool lost() const override { return gone_; }
  StageWait away() override;

  /// The server leaves the cluster at this moment: what it computes is lost.
  void leave();
  ServerResult result() const;

 private:
  enum class Part : std::uint8_t { dense, calls, recovery, head };
  void start_stream(const std::vector<ServedRequest>& requests);
  void abandon();
  void come_back();
  StageWait call_experts();
  StageWait next_call();
  void submit_dense(std::size_t layer);
  void submit_head();
  engine::OpIndex add(engine::ResourceId resource, double seconds, OpKind kind, engine::OpIndex after);
  engine::OpIndex add_dense(const KernelTime& time, engine::OpIndex after, OpKind kind = OpKind::dense);
  void ask_experts(std::size_t layer);
  void finish_calls();
  void keep_what_came();
  double look_again() const { return world_.engine.now() + world_.system.detection_time().value(); }

  ServerState& state_;
  ClusterWorld& world_;
  std::uint32_t number_;
  const ServerNode& node_;
  engine::ResourceId gpu_;
  DenseTimes dense_times_;
  std::unique_ptr<DraftTimes> draft_times_;  // nullptr: drafting takes no time
  std::vector<std::int32_t> moe_numbers_;    // by model layer; -1: dense
  std::vector<ServedRequest> requests_;      // of the state's stream
  std::vector<ExpertUse> brought_;           // scratch: of a layer, in ascending order
  std::optional<ListedRequests> source_;     // of these
  enum : std::uint8_t { kWaiting, kRunning, kFinished };
  std::vector<std::uint8_t> admitted_;  // by request
  bool serves_ = false;                 // had requests at all
  std::unique_ptr<HomeStore> store_;    // nullptr: its system only calls
  ExpertCalls calls_;
  LayerUses layer_uses_;
  double gathering_s_ = 0;  // the host's time for the last layer's experts, which it has yet to take
  LabelledGraph dense_;
  Part part_ = Part::dense;      // that is waited for
  std::size_t model_layer_ = 0;  // the one that runs
  std::size_t awaited_ = 0;      // calls that were waited for
  double waits_since_ = 0;       // for recovery
  bool gone_ = false;            // has left since the step began
  bool abandoned_ = false;       // and its requests under way are given up
  double left_at_ = 0;
  double counted_local_ = 0, counted_remote_ = 0;  // in the series
  ServerResult result_;
};

}  // namespace moelab
