// What the GPUs of a node have, where experts and KV cache are paged. Where all do the same at the same time
// one stands for all.
#pragma once

#include <string>
#include <vector>

#include "models/timing.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/labelled_graph.hpp"
#include "sim/serving/paged_plan.hpp"

namespace moelab {

struct PagedGpu {
  engine::ResourceId host;        // the framework's thread
  engine::ResourceId pager;       // the thread that remaps
  engine::ResourceId compute;     // the inference stream
  engine::ResourceId decode;      // the loading stream of kernels that decode
  engine::ResourceId link_in;     // from the host's memory
  engine::ResourceId link_out;    // to it
  engine::ResourceId ssd;         // its share of the node's
  engine::ResourceId collective;  // what all GPUs do together
  /// The GPU's memory, which computing and decoding share; kNoCapacity where nothing decodes. Each takes its
  /// part of the bandwidth in proportion to what it would take alone.
  engine::CapacityId memory = engine::kNoCapacity;
  /// The link inwards, which weights, blocks of the KV cache and all-reduces share; kNoCapacity where the
  /// engine does not resolve that (`fast`: an all-reduce of a few GB/s hardly hinders a link of 26).
  engine::CapacityId link = engine::kNoCapacity;
  /// What all operations of a GPU that the CPU plays share (cpu.sharing), in the place of its memory and
  /// link; kNoCapacity where there is none, or where it was not measured.
  engine::CapacityId cpu = engine::kNoCapacity;
};

struct PagedResources {
  std::vector<PagedGpu> gpus;  // those that are simulated
};

/// Names begin with `prefix`, and of several GPUs behind that with "gpu0/", "gpu1/" and so on.
PagedResources add_paged_resources(engine::Engine& engine, const TimingModel& timing, const PagedPlan& plan,
                                   std::size_t gpus = 1, const std::string& prefix = "");

/// Bytes that a GPU takes in over the link while `ranks` of them sum up `bytes` each: a ring moves
/// 2 (n - 1) / n of them in each direction.
constexpr double ring_bytes(int ranks, double bytes) {
  return 2.0 * (ranks - 1) / ranks * bytes;
}

}  // namespace moelab
