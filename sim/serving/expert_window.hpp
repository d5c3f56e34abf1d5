// The window of two layers that paged experts are streamed into: FluxMoE's expert paging (Liu et al. 2026,
// section 4.1, Algorithm 1).
//
// A layer's streamed experts are loaded into one half of the window while the layer before computes from the
// other: for each tensor type (gate with up; down) address space is remapped, then all backends bring their
// share at once. Events of the protocol, and where they are here:
//   WAR  a half is loaded only after the layer that had it is done: load() takes a half that release() gave
//        back. Which half that is wraps around from the last layer to the first with the iterations (the
//        cyclic look-back), and the first two loads find both free (the cold start).
//   RAW  a layer's experts compute after its load: loading() is what their operation depends on.
// Of a node's GPUs each that is simulated has such a window; all begin to load as much at the same time.
// Checked in test builds: a half holds one layer, a layer lies in one half, no load goes into a half that is
// still read, no layer computes before its load is done.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "models/timing.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/labelled_graph.hpp"
#include "sim/engine/window_mirror.hpp"
#include "sim/serving/metrics.hpp"
#include "sim/serving/paged_plan.hpp"
#include "sim/serving/paged_resources.hpp"
#include "sim/serving/window_experts.hpp"

namespace moelab {

class ExpertWindow {
 public:
  /// Everything by reference outlives the window. `matrices` of an expert: all but one are the first
  /// type. `ranks`: GPUs that share the SSD. `mirror` may be nullptr.
  ExpertWindow(engine::Engine& engine, const PagedResources& resources, const TimingModel& timing,
               const PagedPlan& plan, int matrices, int ranks, engine::WindowMirror* mirror = nullptr);

  /// Starts to load a layer that is in no half: by GPU what comes, any on one of them at least.
  void load(std::uint32_t layer, std::span<const WindowStream> streams, ServingCounts& counts);
  bool holds(std::uint32_t layer) const { return find(layer) != nullptr; }
  /// What a layer that streams has to wait for, on a GPU.
  LabelledGraph& loading(std::uint32_t layer, std::size_t gpu = 0);
  /// The layer's experts compute, or have computed, on a GPU from `started` to `ended`. Its half is free when
  /// the last GPU has said so; they say it in turn.
  void release(std::uint32_t layer, double started, double ended, std::size_t gpu = 0);
  /// A load into a half that holds a layer, for the end of a run; nullptr: none does.
  LabelledGraph* any();
  void drop(const LabelledGraph& graph);

 private:
  static constexpr std::uint32_t kFree = LabelledGraph::kNoLayer;
  struct Half {
    explicit Half(std::size_t gpus) : graphs(gpus) {}
    std::vector<LabelledGraph> graphs;  // by GPU
    std::uint32_t layer = kFree;
    double read_until = 0;    // by the layer that had it before
    std::size_t dropped = 0;  // of its graphs, at the end of a run
  };
  const Half* find(std::uint32_t layer) const;
  Half& half_of(std::uint32_t layer);
  void add_type(const WindowStream& stream, LabelledGraph& out, std::size_t gpu, std::uint16_t type);
  void add_backend(const WindowStream& stream, LabelledGraph& out, std::size_t gpu, std::size_t backend,
                   engine::OpIndex after, std::uint16_t type);
  void count(const WindowStream& stream, double share, ServingCounts& counts) const;

  engine::Engine& engine_;
  const PagedResources& resources_;
  const TimingModel& timing_;
  const PagedPlan& plan_;
  int ranks_;
  engine::WindowMirror* mirror_;
  std::array<double, 2> type_share_;  // of an expert's bytes
  std::array<Half, 2> halves_;
};

}  // namespace moelab
