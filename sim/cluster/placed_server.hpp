// The serving loop of one server of a cluster: its users' requests, step by step and layer by layer; a
// layer's experts are called where they are.
//
//   layer:  host -> attention on the first GPU -> experts, at home and elsewhere at once -> the slowest ends
//   it
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sim/cluster/cluster_metrics.hpp"
#include "sim/cluster/cluster_world.hpp"
#include "sim/cluster/expert_calls.hpp"
#include "sim/serving/layer_uses.hpp"
#include "sim/serving/request_stream.hpp"

namespace moelab {

class PlacedServer {
 public:
  /// Everything by reference outlives the server. `requests` in order of arrival.
  PlacedServer(ClusterWorld& world, std::uint32_t number, const std::vector<ServedRequest>& requests,
               ServingProgress progress);

  /// Serves every request once, except those that are under way when it leaves.
  engine::Process serve();
  /// Leaves the cluster at this moment: what it computes is lost.
  void leave();

  const Metrics& metrics() const { return metrics_; }
  ServerResult result() const;

 private:
  void start_stream(const std::vector<ServedRequest>& requests);
  void abandon();
  void come_back();
  bool gone() const { return gone_; }
  void begin_step();
  void submit_dense(std::size_t layer);
  void submit_head();
  engine::OpIndex add(engine::ResourceId resource, double seconds, OpKind kind, engine::OpIndex after);
  engine::OpIndex add_dense(const KernelTime& time, engine::OpIndex after);
  void ask_experts(std::size_t layer);
  void account(const LabelledGraph& graph, std::int32_t layer);
  void finish_stage(std::int32_t layer);
  void finish_step();

  ClusterWorld& world_;
  std::uint32_t number_;
  const ServerNode& node_;
  engine::ResourceId gpu_;
  GraphObserver* observer_;  // nullptr: nobody sees
  DenseTimes dense_times_;
  std::vector<std::int32_t> moe_numbers_;  // by model layer; -1: dense
  std::vector<ServedRequest> requests_;    // of stream_
  std::unique_ptr<BatchingPolicy> batching_;
  std::optional<ListedRequests> source_;
  std::optional<RequestStream> stream_;
  enum : std::uint8_t { kWaiting, kRunning, kFinished };
  std::vector<std::uint8_t> admitted_;  // by request of stream_
  bool serves_ = false;                 // had requests at all
  ExpertCalls calls_;
  LayerUses layer_uses_;
  LabelledGraph dense_;
  Pass pass_;
  std::uint64_t step_ = 0;
  bool gone_ = false;  // has left since the step began
  double left_at_ = 0;
  double counted_local_ = 0, counted_remote_ = 0;  // in the series
  ServingProgress progress_;
  Metrics metrics_;
  ServerResult result_;
};

}  // namespace moelab
