// The window of two layers, filled expert by expert (PagingConfig::Fetch::ahead): a layer's experts begin to
// come while the layer before computes, and when the layer's gate has run, what it did not choose is taken
// out of the queue. Events, as in expert_window.hpp:
//
//   begin()   a half takes a layer. What the layer before in that half left under way has to end first.
//   settle()  the gate has run on a GPU: what it chose and is not there goes first from now on; of the rest
//             what has not begun is cancelled, what is under way ends and is of no use.
//   release() the layer has computed: its half is free.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/timing.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/labelled_graph.hpp"
#include "sim/serving/metrics.hpp"
#include "sim/serving/paged_plan.hpp"
#include "sim/serving/paged_resources.hpp"
#include "sim/serving/window_experts.hpp"

namespace moelab {

/// One expert that comes into the window.
struct ExpertFetch {
  std::size_t backend = 0;
  bool cached = false;       // its backend is the SSD, and the page cache has it
  std::uint32_t number = 0;  // among all of its layer, for labels
};

/// Adds what brings one expert into the window: its address space, then the reads, the copy or the decoding
/// that its place of storage asks for; returns the last operation. With one memory for CPU and GPU none may
/// be needed (engine::kNoOp).
engine::OpIndex add_fetch(LabelledGraph& out, const ExpertFetch& fetch, const PagedPlan& plan,
                          const PagedResources& resources, std::size_t gpu, const TimingModel& timing,
                          int ranks);

class ExpertFetches {
 public:
  /// Everything by reference outlives it. `ranks`: GPUs that share the SSD.
  ExpertFetches(engine::Engine& engine, const PagedResources& resources, const TimingModel& timing,
                const PagedPlan& plan, WindowExperts& experts, int ranks, Metrics& metrics);

  bool holds(std::uint32_t layer) const { return find(layer) != nullptr; }
  /// Begins a layer that no half has. `order`: by GPU the numbers of its experts, first ones first; those
  /// that lie in GPU memory as they compute are passed over.
  void begin(const StorageSplit& split, std::uint32_t layer,
             std::span<const std::vector<std::uint32_t>> order);
  /// Whether an expert has come.
  bool arrived(std::uint32_t layer, std::size_t gpu, std::uint32_t expert) const;
  /// `chosen`: by expert of the GPU. Appends what is still awaited to `awaited`.
  void settle(std::uint32_t layer, std::size_t gpu, std::span<const std::uint8_t> chosen,
              std::vector<engine::Graph*>& awaited);
  /// Calls show(graph, layer) for each graph that has ended by now; the others are shown when they have.
  template <class Show>
  void release(std::uint32_t layer, Show show) {
    Half& half = half_of(layer);
    for (Slot& slot : half.slots) {
      if (slot.graph == nullptr) continue;
      leaving_.push_back({std::move(slot), layer, &half == &halves_[1]});
    }
    half.layer = kFree;
    reap(show);
  }
  /// For the end of a run: cancels what has not begun, and gives a graph that has not ended; nullptr: all
  /// have.
  LabelledGraph* any();
  template <class Show>
  void reap(Show show) {
    std::erase_if(leaving_, [&](Leaving& left) {
      if (!left.slot.graph->graph.finished()) return false;
      if (left.slot.graph->graph.started() > 0) show(*left.slot.graph, left.layer);
      close(left);
      return true;
    });
  }

 private:
  static constexpr std::uint32_t kFree = LabelledGraph::kNoLayer;
  struct Slot {
    std::unique_ptr<LabelledGraph> graph;  // nullptr: nothing of this expert comes
    std::uint32_t expert = 0;              // of the GPU
    std::size_t gpu = 0;
    bool from_ssd = false, cached = false;
    bool unused = false;
  };
  struct Half {
    std::uint32_t layer = kFree;
    std::vector<Slot> slots;  // [gpus, experts]
  };
  struct Leaving {
    Slot slot;
    std::uint32_t layer = kFree;
    bool second = false;  // of the halves
  };
  const Half* find(std::uint32_t layer) const;
  Half& half_of(std::uint32_t layer);
  Slot& slot(Half& half, std::size_t gpu, std::uint32_t expert) {
    return half.slots[gpu * experts_.experts() + expert];
  }
  void add(const StorageSplit& split, Half& half, std::size_t gpu, std::uint32_t expert);
  void close(Leaving& left);
  void count_bytes(const Slot& slot);
  void count_unused(Slot& slot);
  /// GPUs that have the same experts fetch the same ones: the first counts for all.
  bool counts(std::size_t gpu) const { return gpu == 0 || experts_.divided(); }

  engine::Engine& engine_;
  const PagedResources& resources_;
  const TimingModel& timing_;
  const PagedPlan& plan_;
  WindowExperts& experts_;
  int ranks_;
  Metrics& metrics_;
  std::array<Half, 2> halves_;
  std::vector<Leaving> leaving_;                       // of layers that have computed
  std::vector<std::unique_ptr<LabelledGraph>> spare_;  // to be used again
  std::vector<engine::Graph*> before_;                 // that the half's fetches come after
};

}  // namespace moelab
